//! What a QSF file is, in figures and lines.

use qsf_format::printable::{message, quote};
use qsf_format::{
    EarlyExits, JsonLimits, LayerExit, Meta, ModelConfig, PositionConfig, QsfFile, RecurrentMixer, Section,
    SectionTag, StoredAdapter, StoredUpdate, Verification, VocabClusters, from_json, human_bytes,
};
use qsf_runtime::Result;
use serde_json::{Value, json};

use crate::table::table;
use crate::tensors::{TensorLine, tensor_table};

/// Header, model, sections and layers as JSON.
///
/// # Errors
/// When a part of the file that is looked at is damaged.
pub fn describe(file: &QsfFile, meta: Option<&Meta>) -> Result<Value> {
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
        "config": meta.map(|m| &m.model),
        "provenance": meta.map(|m| &m.provenance),
        "evaluation": evaluation(file)?,
        "clusters": file.clusters()?.as_ref().map(clusters_json),
        "early_exits": file.early_exits()?.map(|exits| json!({
            "positions": exits.positions,
            "exits": exits.exits.iter().map(|e| json!({"layer": e.layer, "agreeing": e.agreeing})).collect::<Vec<_>>(),
        })),
        "lora": file.adapters()?.iter().map(adapter_json).collect::<Vec<_>>(),
        "sections": listed_sections(file)?.iter().map(|s| json!({
            "tag": s.tag.to_string(), "offset": s.offset, "stored_bytes": s.stored_bytes,
            "crc32": format!("{:08x}", s.crc), "compression": s.compression.name(),
        })).collect::<Vec<_>>(),
        "embedding": {
            "type": embedding.quant, "layout": embedding.layout.name(), "rows": embedding.rows, "cols": embedding.cols,
            "chunks": embedding.chunks.len(), "compression": embedding.compression().name(),
        },
        "layers": file.layers().iter().map(|l| json!({
            "offset": l.offset, "stored_bytes": l.stored_bytes, "raw_bytes": l.raw_bytes,
            "tensors": l.tensors, "compression": l.compression.name(),
            "crc32": format!("{:08x}", l.crc), "importance": l.importance,
        })).collect::<Vec<_>>(),
    }))
}

/// What a verification covered.
pub fn verification_json(v: &Verification) -> Value {
    json!({"layers": v.layers, "tensors": v.tensors, "sections": v.sections, "unprotected": v.unprotected})
}

/// What section EVAL says; `None` without one, or where it is no JSON, which is no reason not to show the rest.
///
/// # Errors
/// When a part of the file that is looked at is damaged.
pub fn evaluation(file: &QsfFile) -> Result<Option<Value>> {
    let json = file.section_bytes(SectionTag::EVALUATION)?;
    Ok(json.and_then(|json| from_json(&json, JsonLimits::DESCRIPTION).ok()))
}

/// What section EVAL says, in a line for people.
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

fn exits_line(exits: &EarlyExits) -> String {
    let share = |agreeing: u32| 100.0 * f64::from(agreeing) / f64::from(exits.positions.max(1));
    let of = |exit: &LayerExit| format!("{}: {:.1} %", exit.layer, share(exit.agreeing));
    let shares: Vec<String> = exits.exits.iter().map(of).collect();
    format!(
        "early exits behind layers: {} (positions of {} whose likeliest token is the same there as behind all layers)\n",
        shares.join(", "),
        exits.positions
    )
}

fn adapter_json(adapter: &StoredAdapter) -> Value {
    let StoredAdapter { name, scale, updates } = adapter;
    json!({ "name": name, "scale": scale, "matrices": updates.len(), "rank": most_rank(adapter) })
}

fn adapter_line(adapter: &StoredAdapter) -> String {
    let (name, matrices) = (quote(&adapter.name), adapter.updates.len());
    format!("adapter {name}, scale {}: {matrices} matrices, rank {}\n", adapter.scale, most_rank(adapter))
}

fn most_rank(adapter: &StoredAdapter) -> usize {
    adapter.updates.iter().map(StoredUpdate::rank).max().unwrap_or(0)
}

fn clusters_json(clusters: &VocabClusters) -> Value {
    let sizes = cluster_sizes(clusters);
    json!({
        "count": clusters.count(), "cols": clusters.cols, "vocab": clusters.cluster_of.len(),
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

/// The clusters in a line for people, with those measurements that are of a power of two of clusters.
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
pub fn bits_per_weight(meta: &Meta, file_bytes: u64) -> f64 {
    // In floats: META may claim any sizes, and integers would overflow.
    let weights: f64 = meta.tensors.iter().map(|t| f64::from(t.rows) * f64::from(t.cols)).sum();
    file_bytes as f64 * 8.0 / weights.max(1.0)
}

/// What not every model has, one line; empty for the plainest.
pub fn model_parts(model: &ModelConfig) -> String {
    // Without `..`: whoever adds a field says here whether people see it.
    let ModelConfig {
        architecture: _,
        layers,
        hidden: _,
        heads: _,
        kv_heads: _,
        head_dim: _,
        ffn: _,
        vocab: _,
        max_positions: _,
        norm: _,
        activation: _,
        gated_ffn: _,
        position,
        tied_head: _,
        residual: _,
        qk_norm: _,
        latent,
        full_attention,
        shared_kv,
        value_norm: _,
        per_layer_embedding,
        layer_scale: _,
        streams,
        laurel,
        gate_sparsity,
        multipliers: _,
        attention_scale: _,
        attention_softcap: _,
        logit_softcap: _,
        embedding_scale: _,
        residual_scale: _,
        logit_scale: _,
        qkv_clip: _,
        attention_sinks,
        window_sinks: _,
        value_heads,
        sub_norms,
        query_growth: _,
        gate_clip: _,
        embedding_norm: _,
        sliding_window,
        window_chunks,
        attention_gate: _,
        recurrent,
        half_layers,
        experts,
        bos: _,
        stop_tokens: _,
        pad: _,
    } = model;
    let mut parts = Vec::new();
    if let Some(experts) = experts {
        let layers = (0..*layers).filter(|&layer| model.experts(layer).is_some()).count();
        parts.push(format!(
            "{} experts of {} ({} used) in {layers} layers",
            experts.count, experts.ffn, experts.used
        ));
        if let Some(shared) = experts.shared {
            parts.push(format!("a shared expert of {}", shared.ffn));
        }
    }
    if let Some(recurrent) = recurrent {
        let name = match recurrent.mixer {
            RecurrentMixer::GatedDelta { .. } => "gated delta nets",
            RecurrentMixer::Mamba1 { .. } => "Mamba-1",
            RecurrentMixer::Mamba2 { .. } => "Mamba-2",
            RecurrentMixer::ShortConv {} => "short convolutions",
        };
        let beside = if recurrent.beside_attention { " beside attention" } else { "" };
        parts.push(format!("{name}{beside} in {} layers", recurrent.layers.len()));
    }
    if let Some(halves) = half_layers {
        for (layers, what) in [(&halves.mixer, "feed-forward"), (&halves.feed_forward, "mixer")] {
            if !layers.is_empty() {
                parts.push(format!("no {what} in {} layers", layers.len()));
            }
        }
    }
    if let Some(window) = sliding_window {
        let what = if *window_chunks { "chunks" } else { "window" };
        parts.push(format!("{what} of {} in {} layers", window.size, window.layers.len()));
    }
    if let Some(latent) = latent {
        let kept = latent.kv_rank + latent.shared_dim;
        parts.push(format!(
            "attention by way of latents (MLA; {kept} values of a position and layer are kept)"
        ));
    }
    if let Some(full) = full_attention {
        let values = if full.keys_are_values { ", keys as values" } else { "" };
        let kv_heads = full.kv_heads;
        let heads = match full.head_dim == model.head_dim {
            true => format!("{kv_heads} key/value heads"),
            false => format!("heads of {}", full.head_dim),
        };
        parts.push(format!("{heads} in layers without a window{values}"));
    }
    if let Some(shared) = shared_kv {
        parts.push(format!("{} last layers with keys and values of earlier ones", shared.layers));
    }
    if let Some(of_layers) = per_layer_embedding {
        parts.push(format!("an embedding of {} for each layer", of_layers.width));
    }
    if let Some(streams) = streams {
        parts.push(format!("{streams} residual streams (AltUp)"));
    }
    if let Some(rank) = laurel {
        parts.push(format!("learned residuals of rank {rank} (LAuReL)"));
    }
    let sparse = gate_sparsity.iter().filter(|sparsity| **sparsity > 0.0).count();
    if sparse > 0 {
        parts.push(format!("sparse gates in {sparse} layers"));
    }
    if *sub_norms {
        parts.push("norms before output projections".into());
    }
    if let Some(values) = value_heads {
        parts.push(format!("heads of values of {}", values.dim));
    }
    if *attention_sinks {
        parts.push("attention sinks".into());
    }
    match position {
        PositionConfig::Rope { scaling: Some(_), .. } => parts.push("scaled rotary positions".into()),
        PositionConfig::Alibi { .. } => parts.push("ALiBi".into()),
        _ => {}
    }
    if parts.is_empty() { String::new() } else { format!("  with {}\n", parts.join(", ")) }
}

/// All of that for people, with `tensors` and what was verified.
///
/// # Errors
/// When a part of the file that is looked at is damaged.
pub fn text(
    file: &QsfFile,
    meta: Option<&Meta>,
    tensors: &[TensorLine],
    verification: Option<&Verification>,
) -> Result<String> {
    let mut out = header_lines(file, meta);
    out += &match meta {
        Some(meta) => meta_lines(meta),
        None => "a plain file: no section directory, most of it is under no checksum\n".into(),
    };
    if let Some(found) = evaluation(file)? {
        out += &evaluation_line(&found);
    }
    if let Some(clusters) = file.clusters()? {
        out += &clusters_line(&clusters);
    }
    if let Some(exits) = file.early_exits()? {
        out += &exits_line(&exits);
    }
    file.adapters()?.iter().for_each(|adapter| out += &adapter_line(adapter));
    let layer_bytes: u64 = file.layers().iter().map(|l| l.stored_bytes).sum();
    out += &format!("layers: {} in {}\n", file.layers().len(), human_bytes(layer_bytes));
    out += &importance_line(file);
    out += "\n";
    out += &section_table(&listed_sections(file)?);
    if !tensors.is_empty() {
        out += "\n";
        out += &tensor_table(tensors);
    }
    if let Some(v) = verification {
        out += &format!(
            "\nverified: header, index, directory, {} sections, {} layers, {} tensors, all padding\n",
            v.sections, v.layers, v.tensors
        );
    }
    Ok(out)
}

/// File, size, type and shape.
fn header_lines(file: &QsfFile, meta: Option<&Meta>) -> String {
    let header = file.header();
    let bits = meta.map_or(String::new(), |meta| {
        let bits = bits_per_weight(meta, header.file_bytes);
        format!(", {bits:.3} bits per weight over the whole file")
    });
    let name = meta.map_or_else(
        || header.architecture.model_type().unwrap_or("custom").to_owned(),
        |meta| meta.model.architecture.clone(),
    );
    format!(
        "{}\n{}, type {}, blocks of {}{bits}\n\
         model: {name}, {} layers, hidden {}, {} heads ({} key/value) of {}, ffn {}, vocabulary {}, context {}\n",
        file.path().display(),
        human_bytes(header.file_bytes),
        header.quant_name(),
        header.block,
        header.layers,
        header.hidden,
        header.heads,
        header.kv_heads,
        header.head_dim,
        header.ffn,
        header.vocab,
        header.max_positions
    )
}

/// What not every model has, and where the file came from.
fn meta_lines(meta: &Meta) -> String {
    let sources = &meta.provenance.sources;
    let bytes = sources.iter().fold(0, |sum: u64, source| sum.saturating_add(source.bytes));
    let mut out = model_parts(&meta.model);
    out += &format!(
        "written by {} from {} source file{} of {} (names and SHA-256 by --json)\n",
        meta.provenance.tool,
        sources.len(),
        if sources.len() == 1 { "" } else { "s" },
        human_bytes(bytes)
    );
    if !meta.provenance.requantized_from.is_empty() {
        let types = message(meta.provenance.requantized_from.join(", "));
        out += &format!("quantized before, as {types}: listed errors are those of this conversion alone\n");
    }
    out
}

/// The sections; the embedding with the compression of its chunks, as the section as a whole has none.
///
/// # Errors
/// When a part of the file that is looked at is damaged.
pub fn listed_sections(file: &QsfFile) -> Result<Vec<Section>> {
    let compression = file.embedding_info()?.compression();
    let listed = |section: &Section| match section.tag {
        SectionTag::EMBEDDING => Section { compression, ..*section },
        _ => *section,
    };
    Ok(file.sections().iter().map(listed).collect())
}

fn section_table(sections: &[Section]) -> String {
    let sections = sections.iter().map(|section| {
        vec![
            section.tag.to_string(),
            section.compression.name().into(),
            section.offset.to_string(),
            section.stored_bytes.to_string(),
            format!("{:08x}", section.crc),
        ]
    });
    table(&["section", "compression", "offset", "bytes", "crc32"], 2, sections)
}
