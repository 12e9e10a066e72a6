//! The conversion: tensors from a source, planned, encoded, streamed into a file. At most one layer of output and one run of
//! rows of input per thread are in memory.

use std::path::Path;
use std::time::Instant;

use qsf_calibration::Statistics;
use qsf_format::panels::PANEL_ROWS;
use qsf_format::{
    BlockSize, CodeTables, Compression, EncodedTensor, Layout, META_VERSION, Meta, Provenance, QsfWriter,
    QuantType, TensorId, TensorKind, TensorRecord, WriterOptions,
};
use qsf_runtime::cpu::Isa;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;
use rayon::prelude::*;
use serde_json::json;

use crate::encode::Encoder;
use crate::error::{ConvertError, Result};
use crate::plan::{Plan, PlannedTensor, Recipe, TypeOverride, layout_of};
use crate::provenance::hash_files;
use crate::quantize::ErrorStats;

/// Choices of a conversion: everything that influences the bytes of the output, and what the user permits.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// Types by tensor kind.
    pub recipe: Recipe,
    /// Exceptions to the recipe.
    pub overrides: Vec<TypeOverride>,
    /// Values per block.
    pub block: BlockSize,
    /// Compression of layers and embedding.
    pub compression: Compression,
    /// Order of the blocks of every tensor that can have it; the others are in rows.
    pub layout: Layout,
    /// Replace an output that is there.
    pub force: bool,
    /// Do not compare the tokenizer with what the source says of it.
    pub skip_tokenizer_check: bool,
    /// Quantize what was quantized before.
    pub allow_requantize: bool,
    /// What the columns of each matrix are worth, by calibration.
    pub calibration: Option<Calibration>,
}

/// Statistics of a calibration text, and where they came from.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The statistics.
    pub stats: Statistics,
    /// SHA-256 of the text, lower-case hexadecimal.
    pub text_sha256: String,
}

/// What a conversion did.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// One record per tensor, in file order.
    pub tensors: Vec<TensorRecord>,
    /// Size of the file.
    pub file_bytes: u64,
    /// Weights of all tensors.
    pub weights: u64,
    /// Wall time.
    pub seconds: f64,
}

impl Conversion {
    /// Bits of the whole file per weight.
    pub fn bits_per_weight(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.weights.max(1) as f64
    }
}

/// Converts `source` into the QSF file `out`, and verifies what was written before it gets that name.
///
/// # Errors
/// When the source is damaged or holds values that are not finite, the output cannot be written, or the user interrupts.
/// Nothing is left under the output's name then.
pub fn convert(
    source: &dyn WeightSource,
    out: &Path,
    options: &ConvertOptions,
    isa: Isa,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Conversion> {
    let started = Instant::now();
    refuse_own_input(source, out)?;
    check_tokenizer(source, options.skip_tokenizer_check)?;
    let plan = Plan::new(source.tensors(), options.recipe, &options.overrides)?;
    let requantized_from = source.quantized_from();
    if !requantized_from.is_empty() && plan.quantizes() && !options.allow_requantize {
        return Err(ConvertError::Requantize {
            path: source.path().to_owned(),
            types: requantized_from.join(", "),
        });
    }
    let weights = plan.tensors().iter().map(|t| t.info.rows as u64 * t.info.cols as u64).sum();
    let config = source.config();
    let writer_options = WriterOptions {
        force: options.force,
        block: options.block,
        compression: options.compression,
        tables: CodeTables::default(),
    };
    let writer = QsfWriter::create(out, config.layers, writer_options)?;
    progress.begin("converting", weights);
    let encoder = Encoder { isa, block: options.block, source: source.path(), progress, cancel };
    let files = source.files();
    let calibration = options.calibration.as_ref();
    let layout = options.layout;
    let mut job = Job { source, plan: &plan, encoder, writer, layout, calibration, records: Vec::new() };
    // Hashing reads the same files: beside the encoding, it finds them in the page cache.
    let failed = Cancel::default();
    let (written, sources) = rayon::join(
        || job.write_tensors().inspect_err(|_| failed.request()),
        || hash_files(&files, &[cancel, &failed]),
    );
    written?;
    let meta = Meta {
        version: META_VERSION,
        model: config.clone(),
        provenance: Provenance {
            tool: concat!("qsf-convert ", env!("CARGO_PKG_VERSION")).into(),
            sources: sources?,
            requantized_from,
            options: normalised(options),
        },
        tensors: job.records,
    };
    cancel.check()?;
    let file_bytes = job.writer.finish(
        &meta,
        options.recipe.header_id(),
        source.tokenizer_json(),
        source.chat_template(),
    )?;
    progress.end();
    Ok(Conversion { tensors: meta.tensors, file_bytes, weights, seconds: started.elapsed().as_secs_f64() })
}

/// The options that influence the bytes, each with its value.
fn normalised(options: &ConvertOptions) -> serde_json::Map<String, serde_json::Value> {
    let overrides: Vec<String> = options.overrides.iter().map(ToString::to_string).collect();
    [
        ("quant", json!(options.recipe.name())),
        ("block_size", json!(u16::from(options.block))),
        ("compress", json!(options.compression.name())),
        ("layout", json!(options.layout.name())),
        ("tensor_type", json!(overrides)),
        (
            "calibration",
            json!(options.calibration.as_ref().map(|c| json!({
                "text_sha256": c.text_sha256, "tokens": c.stats.tokens(),
            }))),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// A tokenizer that no reader could use, or that is not what the source says, is found now, not by whoever gets the file.
fn check_tokenizer(source: &dyn WeightSource, skip_comparison: bool) -> Result<()> {
    let Some(json) = source.tokenizer_json() else { return Ok(()) };
    let tokenizer = Tokenizer::from_json(json, &source.path().join("tokenizer.json"))?;
    if !skip_comparison {
        source.check_tokenizer(&tokenizer).map_err(ConvertError::TokenizerDiffers)?;
    }
    Ok(())
}

/// An output that is one of the inputs would destroy it, `--force` or not.
fn refuse_own_input(source: &dyn WeightSource, out: &Path) -> Result<()> {
    let Ok(out_path) = out.canonicalize() else { return Ok(()) };
    let is_input = source.files().iter().any(|file| file.canonicalize().is_ok_and(|f| f == out_path));
    if is_input { Err(ConvertError::OutputIsInput { path: out.to_owned() }) } else { Ok(()) }
}

/// A conversion under way.
struct Job<'a> {
    source: &'a dyn WeightSource,
    plan: &'a Plan,
    encoder: Encoder<'a>,
    writer: QsfWriter,
    layout: Layout,
    calibration: Option<&'a Calibration>,
    records: Vec<TensorRecord>,
}

impl Job<'_> {
    fn write_tensors(&mut self) -> Result<()> {
        let plan = self.plan;
        let of_model = |kinds: fn(TensorKind) -> bool| {
            plan.tensors().iter().filter(move |t| t.info.id.layer.is_none() && kinds(t.info.id.kind))
        };
        for embedding in of_model(|kind| kind == TensorKind::TokenEmbedding) {
            self.write_rows(embedding, Place::Embedding)?;
        }
        self.source.release(None);
        for layer in 0..self.source.config().layers {
            self.write_layer(layer)?;
            self.source.release(Some(layer));
        }
        self.writer.begin_final(self.source.config().tied_head)?;
        for tensor in of_model(|kind| !matches!(kind, TensorKind::TokenEmbedding | TensorKind::Positions)) {
            self.write_rows(tensor, Place::Section)?;
        }
        self.writer.end_final();
        for positions in of_model(|kind| kind == TensorKind::Positions) {
            self.writer.begin_positions()?;
            self.write_rows(positions, Place::Section)?;
            self.writer.end_positions();
        }
        self.source.release(None);
        Ok(())
    }

    /// A tensor of the model as a whole, which may be as large as many layers: encoded and written in runs of rows.
    fn write_rows(&mut self, planned: &PlannedTensor, place: Place) -> Result<()> {
        let info = &planned.info;
        let tensor = self.source.load(info.id)?;
        let quant = self.encoder.choose_type(info, &tensor, planned.quant)?;
        let layout = self.layout_of(planned, quant);
        let importance = self.importance(info.id);
        let mut stats = ErrorStats::new();
        let TensorRecord { rows, cols, .. } = record(planned, quant, &stats);
        match place {
            Place::Embedding => self.writer.begin_embedding(quant, layout, rows, cols)?,
            Place::Section => self.writer.begin_tensor(info.id.kind, rows, cols, quant, layout)?,
        }
        let run = (VALUES_PER_RUN / tensor.cols()).max(1).next_multiple_of(PANEL_ROWS);
        for first in (0..tensor.rows()).step_by(run) {
            let range = first..(first + run).min(tensor.rows());
            let form = (quant, layout);
            let encoded = self.encoder.encode(info, &tensor, range, form, importance.as_deref())?;
            match place {
                Place::Embedding => self.writer.embedding_rows(&encoded.data)?,
                Place::Section => self.writer.tensor_rows(&encoded.data)?,
            }
            stats.merge(&encoded.stats);
        }
        self.records.push(record(planned, quant, &stats));
        Ok(())
    }

    fn layout_of(&self, planned: &PlannedTensor, quant: QuantType) -> Layout {
        layout_of(self.layout, self.source.config(), &planned.info, quant)
    }

    fn importance(&self, id: TensorId) -> Option<Vec<f32>> {
        self.calibration?.stats.importance(id, self.source.config().tied_head)
    }

    fn write_layer(&mut self, layer: u32) -> Result<()> {
        let encoded: Vec<Result<(EncodedTensor, TensorRecord)>> = self
            .plan
            .tensors()
            .par_iter()
            .filter(|t| t.info.id.layer == Some(layer))
            .map(|planned| {
                let tensor = self.source.load(planned.info.id)?;
                let quant = self.encoder.choose_type(&planned.info, &tensor, planned.quant)?;
                let layout = self.layout_of(planned, quant);
                let importance = self.importance(planned.info.id);
                let (rows, form) = (0..tensor.rows(), (quant, layout));
                let encoded =
                    self.encoder.encode(&planned.info, &tensor, rows, form, importance.as_deref())?;
                let record = record(planned, quant, &encoded.stats);
                let (kind, rows, cols) = (planned.info.id.kind, record.rows, record.cols);
                Ok((EncodedTensor { kind, rows, cols, quant, layout, data: encoded.data }, record))
            })
            .collect();
        // The first error in file order, not the first in time: the same message in every run.
        let encoded = encoded.into_iter().collect::<Result<Vec<_>>>()?;
        let (tensors, records): (Vec<_>, Vec<_>) = encoded.into_iter().unzip();
        self.writer.layer(tensors, None)?;
        self.records.extend(records);
        Ok(())
    }
}

/// Where a streamed tensor goes.
#[derive(Clone, Copy)]
enum Place {
    Embedding,
    Section,
}

/// Values of a streamed tensor that are encoded before they are written.
const VALUES_PER_RUN: usize = 1 << 23;

/// What META says of a tensor.
fn record(planned: &PlannedTensor, quant: QuantType, stats: &ErrorStats) -> TensorRecord {
    let PlannedTensor { info, quant: wanted } = planned;
    TensorRecord {
        layer: info.id.layer,
        kind: info.id.kind.name().into(),
        // Both come from u32 fields of the configuration, which every shape was checked against.
        rows: info.rows as u32,
        cols: info.cols as u32,
        quant,
        promoted_from: (quant != *wanted).then_some(*wanted),
        cosine: stats.cosine(),
        relative_error: stats.relative_error(),
        max_abs_error: stats.max_abs_error(),
    }
}
