//! `qsf-inspect`: what is in a QSF file, and is it whole.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use qsf_format::cli::{exit_with, human_bytes, print, printable, table};
use qsf_format::printable::message;
use qsf_format::{
    Failure, Layout, Meta, ModelConfig, PositionConfig, QsfFile, SectionTag, TensorGroup, TensorId,
    TensorKind, Verification, VocabClusters, verify_file,
};
use serde_json::{Value, json};

/// Shows what a QSF file holds and checks that it is whole.
#[derive(Debug, Parser)]
#[command(name = "qsf-inspect", version, after_help = EXAMPLES)]
struct Args {
    /// QSF file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// List every tensor with its type, layout, shape, place and conversion error
    #[arg(long)]
    tensors: bool,
    /// Check every checksum and every padding byte; exit code 3 with the place of the first damage
    #[arg(long)]
    verify: bool,
    /// With --verify: accept a plain file, most of which is under no checksum
    #[arg(long, requires = "verify")]
    allow_plain: bool,
}

const EXAMPLES: &str = "Examples:
  qsf-inspect model.qsf                  header, sections and sizes
  qsf-inspect model.qsf --tensors        every tensor
  qsf-inspect model.qsf --verify         is every byte as it was written?

Exit codes: 0 ok, 2 usage, 3 unreadable or damaged file, 4 unsupported file.";

fn main() -> ExitCode {
    let args = Args::parse();
    exit_with(run(&args), |error| error.is::<Unprotected>().then_some(Failure::BadInput))
}

#[derive(Debug)]
struct Unprotected(String);

impl std::fmt::Display for Unprotected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unprotected {}

fn run(args: &Args) -> anyhow::Result<()> {
    let file = QsfFile::open(&args.file)?;
    let verification = args.verify.then(|| verify_file(&file)).transpose()?;
    let meta = file.meta()?;
    let tensors = if args.tensors { list_tensors(&file, meta.as_ref())? } else { Vec::new() };
    if args.json {
        let mut value = describe(&file, meta.as_ref())?;
        if args.tensors {
            value["tensors"] = tensors.iter().map(TensorLine::to_json).collect();
        }
        if let Some(v) = &verification {
            value["verified"] = json!({
                "layers": v.layers, "tensors": v.tensors, "sections": v.sections,
                "unprotected": v.unprotected,
            });
        }
        print(&format!("{value:#}\n"))?;
    } else {
        print(&printable(&text(&file, meta.as_ref(), &tensors, verification.as_ref())?))?;
    }
    match verification {
        Some(v) if !v.unprotected.is_empty() && !args.allow_plain => Err(Unprotected(format!(
            "{}: a plain file: {} are under no checksum; pass --allow-plain to accept that",
            args.file.display(),
            v.unprotected.join(", ")
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Header, model, sections and layers as JSON.
fn describe(file: &QsfFile, meta: Option<&Meta>) -> anyhow::Result<Value> {
    let header = file.header();
    let embedding = file.embedding_info()?;
    Ok(json!({
        // Not the path itself: as JSON it would have to be UTF-8.
        "path": file.path().display().to_string(),
        "file_bytes": header.file_bytes,
        "type": header.quant_name(),
        "block_size": u16::from(header.block),
        "plain": file.is_plain(),
        "bits_per_weight": meta.map(|m| bits_per_weight(m, header.file_bytes)),
        "model": meta.map(|m| &m.model),
        "provenance": meta.map(|m| &m.provenance),
        "evaluation": evaluation(file)?,
        "clusters": file.clusters()?.as_ref().map(clusters_json),
        "sections": file.sections().iter().map(|s| json!({
            "tag": s.tag.to_string(), "offset": s.offset, "stored_bytes": s.stored_bytes,
            "crc32": format!("{:08x}", s.crc), "compression": s.compression.name(),
        })).collect::<Vec<_>>(),
        "embedding": {
            "type": embedding.quant, "layout": embedding.layout.name(), "rows": embedding.rows, "cols": embedding.cols,
            "chunks": embedding.chunks.len(),
        },
        "layers": file.layers().iter().map(|l| json!({
            "offset": l.offset, "stored_bytes": l.stored_bytes, "raw_bytes": l.raw_bytes,
            "tensors": l.tensors, "compression": l.compression.name(),
            "crc32": format!("{:08x}", l.crc), "importance": l.importance,
        })).collect::<Vec<_>>(),
    }))
}

/// What section EVAL says; `None` without one, or where it is no JSON, which is no reason not to show the rest.
fn evaluation(file: &QsfFile) -> anyhow::Result<Option<Value>> {
    let json = file.section_bytes(SectionTag::EVALUATION)?;
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}

/// The same for people.
fn evaluation_line(found: &Value) -> String {
    let number = |pointer: &str, digits: usize| {
        let value = found.pointer(pointer).and_then(Value::as_f64);
        value.map_or("?".into(), |value| format!("{value:.digits$}"))
    };
    format!(
        "evaluated on {} positions: perplexity {} (source {}), KL divergence {} +- {}, same top token {} %\n",
        number("/tokens", 0),
        number("/ppl", 4),
        number("/base_ppl", 4),
        number("/kld/mean", 6),
        number("/kld/stderr", 6),
        number("/top1", 2)
    )
}

/// How much each layer matters, where the file says so.
fn importance_line(file: &QsfFile) -> String {
    let known = file.layers().iter().enumerate().filter_map(|(i, layer)| Some((i, layer.importance?)));
    let values: Vec<String> = known.map(|(i, importance)| format!("{i}: {importance:.4}")).collect();
    if values.is_empty() {
        return String::new();
    }
    format!("importance of layers (divergence without them): {}\n", values.join(", "))
}

fn clusters_json(clusters: &VocabClusters) -> Value {
    let sizes = cluster_sizes(clusters);
    json!({
        "count": clusters.count(), "cols": clusters.cols, "tokens": clusters.cluster_of.len(),
        "largest": sizes.iter().max(), "empty": sizes.iter().filter(|size| **size == 0).count(),
        "positions": clusters.positions,
        "containment": clusters.containments.iter().map(|c| json!({
            "probed": c.probed, "positions": c.positions, "share": clusters.share(c.probed),
        })).collect::<Vec<_>>(),
    })
}

/// Tokens of each cluster.
fn cluster_sizes(clusters: &VocabClusters) -> Vec<usize> {
    let mut sizes = vec![0; clusters.count()];
    for id in &clusters.cluster_of {
        sizes[usize::from(*id)] += 1;
    }
    sizes
}

/// The same for people, of those measurements that are of a power of two of clusters.
fn clusters_line(clusters: &VocabClusters) -> String {
    let largest = cluster_sizes(clusters).into_iter().max().unwrap_or(0);
    let shares: Vec<String> = clusters
        .containments
        .iter()
        .filter(|c| c.probed.is_power_of_two())
        .filter_map(|c| Some(format!("{} {:.2} %", c.probed, 100.0 * clusters.share(c.probed)?)))
        .collect();
    format!(
        "vocabulary: {} clusters of at most {largest} tokens; likeliest token contained by the best of them on {} positions: {}\n",
        clusters.count(),
        clusters.positions,
        shares.join(", ")
    )
}

/// Bits of the whole file per weight that META lists.
fn bits_per_weight(meta: &Meta, file_bytes: u64) -> f64 {
    // In floats: META may claim any sizes, and integers would overflow.
    let weights: f64 = meta.tensors.iter().map(|t| f64::from(t.rows) * f64::from(t.cols)).sum();
    file_bytes as f64 * 8.0 / weights.max(1.0)
}

struct TensorLine {
    place: String,
    /// For tensors of a layer; with the kind, what META knows a tensor by.
    layer: Option<u32>,
    kind: String,
    quant: &'static str,
    layout: Layout,
    rows: u32,
    cols: u32,
    bytes: u64,
    /// Weights stored apart from the blocks, and their bytes.
    outliers: Option<(usize, u64)>,
    error: Option<(f64, f64)>,
}

impl TensorLine {
    fn to_json(&self) -> Value {
        json!({
            "place": self.place, "kind": self.kind, "type": self.quant, "layout": self.layout.name(),
            "rows": self.rows, "cols": self.cols, "bytes": self.bytes,
            "outliers": self.outliers.map_or(0, |o| o.0), "outlier_bytes": self.outliers.map_or(0, |o| o.1),
            "cosine": self.error.map(|e| e.0), "relative_error": self.error.map(|e| e.1),
        })
    }
}

/// Every tensor in file order, with the error that META records for it.
fn list_tensors(file: &QsfFile, meta: Option<&Meta>) -> anyhow::Result<Vec<TensorLine>> {
    let mut lines = Vec::new();
    let embedding = file.embedding_info()?;
    let block = file.header().block;
    let mut outliers = file.outliers()?;
    let mut apart = |id: Option<TensorId>, quant, shape| -> anyhow::Result<Option<(usize, u64)>> {
        let Some(id) = id else { return Ok(None) };
        let found = outliers.take(id, quant, shape).map_err(|damage| damage.in_file(file.path()))?;
        Ok(found.map(|outliers| (outliers.len(), outliers.stored_bytes())))
    };
    lines.push(TensorLine {
        place: "embedding".into(),
        layer: None,
        kind: "token_embedding".into(),
        quant: embedding.quant.name(),
        layout: embedding.layout,
        rows: embedding.rows,
        cols: embedding.cols,
        bytes: embedding
            .quant
            .tensor_bytes(block, embedding.rows.into(), embedding.cols.into())
            .unwrap_or_default(),
        outliers: apart(
            Some(TensorId::of_model(TensorKind::TokenEmbedding)),
            embedding.quant,
            (embedding.rows, embedding.cols),
        )?,
        error: None,
    });
    let mut add = |place: String, layer: Option<u32>, group: TensorGroup| -> anyhow::Result<()> {
        for t in &group.tensors {
            let id = t.kind.map(|kind| TensorId { layer, kind });
            lines.push(TensorLine {
                place: place.clone(),
                layer,
                kind: t.kind.map_or_else(|| format!("kind {}", t.kind_id), |k| k.name().into()),
                quant: t.quant.name(),
                layout: t.layout,
                rows: t.rows,
                cols: t.cols,
                bytes: t.data.len() as u64,
                outliers: apart(id, t.quant, (t.rows, t.cols))?,
                error: None,
            });
        }
        Ok(())
    };
    for (layer, i) in (0..file.header().layers).zip(0..) {
        add(format!("layer {layer}"), Some(layer), file.layer(i)?)?;
    }
    add("final".into(), None, file.final_section()?.1)?;
    if let Some(positions) = file.positions()? {
        add("positions".into(), None, positions)?;
    }
    if let Some(meta) = meta {
        // By name, not by position: META may leave out tensors that its writer did not know, or order them otherwise.
        let records: HashMap<_, _> = meta.tensors.iter().map(|r| ((r.layer, r.kind.as_str()), r)).collect();
        for line in &mut lines {
            let record = records.get(&(line.layer, line.kind.as_str()));
            line.error = record.map(|r| (r.cosine, r.relative_error));
        }
    }
    Ok(lines)
}

/// What not every model has, one line; empty for the plainest.
fn model_parts(model: &ModelConfig) -> String {
    let mut parts = Vec::new();
    if let Some(experts) = &model.experts {
        let layers = model.layers as usize - experts.dense_layers.len();
        parts.push(format!(
            "{} experts of {} ({} used) in {layers} layers",
            experts.count, experts.ffn, experts.used
        ));
    }
    if let Some(window) = &model.sliding_window {
        parts.push(format!("window of {} in {} layers", window.size, window.layers.len()));
    }
    match &model.position {
        PositionConfig::Rope { scaling: Some(_), .. } => parts.push("scaled rotary positions".into()),
        PositionConfig::Alibi {} => parts.push("ALiBi".into()),
        _ => {}
    }
    if parts.is_empty() { String::new() } else { format!("  with {}\n", parts.join(", ")) }
}

fn text(
    file: &QsfFile,
    meta: Option<&Meta>,
    tensors: &[TensorLine],
    verification: Option<&Verification>,
) -> anyhow::Result<String> {
    let header = file.header();
    let mut out = format!(
        "{}\n{}, type {}, blocks of {}{}\n",
        file.path().display(),
        human_bytes(header.file_bytes),
        header.quant_name(),
        header.block,
        meta.map_or(String::new(), |m| format!(
            ", {:.3} bits per weight over the whole file",
            bits_per_weight(m, header.file_bytes)
        )),
    );
    let name = meta.map_or_else(
        || header.architecture.model_type().unwrap_or("custom").to_owned(),
        |m| m.model.architecture.clone(),
    );
    out += &format!(
        "model: {name}, {} layers, hidden {}, {} heads ({} key/value) of {}, ffn {}, vocabulary {}, context {}\n",
        header.layers,
        header.hidden,
        header.heads,
        header.kv_heads,
        header.head_dim,
        header.ffn,
        header.vocab,
        header.max_positions
    );
    if let Some(meta) = meta {
        let sources = &meta.provenance.sources;
        let bytes = sources.iter().fold(0, |sum: u64, s| sum.saturating_add(s.bytes));
        out += &model_parts(&meta.model);
        out += &format!(
            "written by {} from {} source file{} of {} (names and SHA-256 by --json)\n",
            meta.provenance.tool,
            sources.len(),
            if sources.len() == 1 { "" } else { "s" },
            human_bytes(bytes)
        );
        if !meta.provenance.requantized_from.is_empty() {
            let types = message(meta.provenance.requantized_from.join(", "));
            out +=
                &format!("quantized before, as {types}: listed errors are those of this conversion alone\n");
        }
    } else {
        out += "a plain file: no section directory, most of it is under no checksum\n";
    }
    if let Some(found) = evaluation(file)? {
        out += &evaluation_line(&found);
    }
    if let Some(clusters) = file.clusters()? {
        out += &clusters_line(&clusters);
    }
    let layer_bytes: u64 = file.layers().iter().map(|l| l.stored_bytes).sum();
    out += &format!("layers: {} in {}\n", file.layers().len(), human_bytes(layer_bytes));
    out += &importance_line(file);
    out += "\n";
    out += &table(
        &["section", "compression", "offset", "bytes", "crc32"],
        2,
        file.sections().iter().map(|s| {
            vec![
                s.tag.to_string(),
                s.compression.name().into(),
                s.offset.to_string(),
                s.stored_bytes.to_string(),
                format!("{:08x}", s.crc),
            ]
        }),
    );
    if !tensors.is_empty() {
        out += "\n";
        out += &table(
            &[
                "place",
                "tensor",
                "type",
                "layout",
                "rows",
                "cols",
                "bytes",
                "outliers",
                "cosine",
                "rel. error",
            ],
            4,
            tensors.iter().map(|t| {
                vec![
                    t.place.clone(),
                    t.kind.clone(),
                    t.quant.into(),
                    t.layout.name().into(),
                    t.rows.to_string(),
                    t.cols.to_string(),
                    t.bytes.to_string(),
                    t.outliers.map_or("-".into(), |(count, bytes)| format!("{count} ({bytes} bytes)")),
                    t.error.map_or("-".into(), |e| format!("{:.6}", e.0)),
                    t.error.map_or("-".into(), |e| format!("{:.6}", e.1)),
                ]
            }),
        );
    }
    if let Some(v) = verification {
        out += &format!(
            "\nverified: header, index, directory, {} sections, {} layers, {} tensors, all padding\n",
            v.sections, v.layers, v.tensors
        );
    }
    Ok(out)
}
