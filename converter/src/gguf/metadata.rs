//! All keys of a file.

use qsf_format::{Activation, PositionConfig, Provenance, TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::GgufNames;
use serde_json::Value as Json;

use super::keys::Keys;
use super::model_keys::add_model;
use super::rope_keys::{Factors, add_positions};
use super::tokenizer_keys::tokenizer_keys;
use super::value::{Pairs, Value};
use crate::error::Result;

/// The version of ggml's block types.
const QUANTIZATION_VERSION: u32 = 2;

/// Keys of a GGUF source that are about its own types and files.
const OF_THE_SOURCE: [&str; 4] =
    ["general.file_type", "general.quantization_version", "general.alignment", "general.quantized_by"];
const GROUPS_OF_THE_SOURCE: [&str; 3] = ["split.", "quantize.", "qsf."];

/// What the file says of the model, and the vectors that it has as tensors.
///
/// # Errors
/// When llama.cpp's files have no word for something.
pub(super) fn model_metadata(source: &dyn WeightSource, names: &GgufNames) -> Result<(Pairs, Vec<Factors>)> {
    let has = |kind| source.tensors().iter().any(|info| info.id.kind == kind);
    if names.architecture() == "gptneox" && !has(TensorKind::AttnQBias) {
        let what = "attention without biases in a GGUF file";
        let supported = "llama.cpp loads GPT-NeoX only with them; write a QSF file instead (OUT.qsf)";
        return Err(RuntimeError::unsupported(source.path(), what, supported).into());
    }
    // In other pairs than the model, whose rows its converter moves by whole heads.
    let in_part = matches!(source.config().position, PositionConfig::Rope { dims: Some(_), .. });
    if names.architecture() == "granitehybrid" && in_part && source.gguf_metadata().is_none() {
        let what = "rotation of a part of each head in a GGUF file";
        let supported =
            "llama.cpp rotates otherwise for this architecture; write a QSF file instead (OUT.qsf)";
        return Err(RuntimeError::unsupported(source.path(), what, supported).into());
    }
    let mut keys = Keys::new(names.architecture());
    let factors = add_positions(&mut keys, source.config(), names).map_err(|what| {
        let supported = "llama.cpp's files have no word for it; write a QSF file instead (OUT.qsf)";
        RuntimeError::unsupported(source.path(), format!("{what} in a GGUF file"), supported)
    })?;
    if let Some(metadata) = source.gguf_metadata() {
        let of_source = |key: &str| {
            OF_THE_SOURCE.contains(&key) || GROUPS_OF_THE_SOURCE.iter().any(|group| key.starts_with(group))
        };
        let stored = metadata.stored().filter(|(key, ..)| !of_source(key));
        let pairs = stored.map(|(key, ty, bytes)| (key.to_owned(), Value::Stored(ty, bytes.to_vec())));
        return Ok((pairs.collect(), factors));
    }
    let mut model = Keys::new(names.architecture());
    add_model(&mut model, source.config(), names);
    if source.tokenizer_json().is_none() {
        // llama.cpp counts the tokens of a file's tokenizer, and where there is none refuses a file without this key.
        model.set("vocab_size", Value::U32(source.config().vocab));
    }
    let mut pairs = vec![
        ("general.architecture".into(), Value::Text(names.architecture().into())),
        ("general.type".into(), Value::Text("model".into())),
        ("general.name".into(), Value::Text(name_of(source))),
        ("general.size_label".into(), Value::Text(size_label(source))),
    ];
    pairs.extend(model.pairs);
    pairs.extend(keys.pairs);
    pairs.extend(layer_values(source, names)?);
    pairs.extend(tokenizer_keys(source)?);
    Ok((pairs, factors))
}

/// Vectors of layers that the file has as keys, and the constants beside them.
///
/// # Errors
/// When a vector cannot be read.
fn layer_values(source: &dyn WeightSource, names: &GgufNames) -> Result<Pairs> {
    let layers = source.config().layers;
    let mut pairs = Vec::new();
    for (key, kind) in names.layer_values() {
        let mut numbers = Vec::new();
        for layer in 0..layers {
            numbers.extend(source.load(TensorId { layer: Some(layer), kind })?.to_f32());
        }
        pairs.push((key.to_owned(), Value::F32s(numbers)));
    }
    if source.config().activation == Activation::Xielu {
        let all = |number: f32| Value::F32s(vec![number; layers as usize]);
        pairs.extend([("xielu.beta".to_owned(), all(0.5)), ("xielu.eps".to_owned(), all(-1e-6))]);
    }
    Ok(pairs)
}

/// What the file says of its making. Hashes of sources have one length, so that the header has it before they are known.
pub(super) fn making(file_type: u32, provenance: &Provenance) -> Pairs {
    let texts = |texts: Vec<String>| Value::Texts(texts);
    let sources = provenance.sources.iter();
    let sources =
        sources.map(|file| format!("{} {} sha256:{}", file.name, file.bytes, file.sha256)).collect();
    let mut pairs = vec![
        ("general.quantization_version".into(), Value::U32(QUANTIZATION_VERSION)),
        ("general.file_type".into(), Value::U32(file_type)),
        ("general.quantized_by".into(), Value::Text(provenance.tool.clone())),
        ("qsf.sources".into(), texts(sources)),
        ("qsf.options".into(), Value::Text(Json::Object(provenance.options.clone()).to_string())),
    ];
    if !provenance.requantized_from.is_empty() {
        pairs.push(("qsf.requantized_from".into(), texts(provenance.requantized_from.clone())));
    }
    pairs
}

/// Figures of an evaluation; no numbers where there are none yet, as in a file whose evaluation failed.
pub(super) fn evaluation_keys(found: Option<&Json>) -> Pairs {
    let number = |pointer: &str| {
        found.and_then(|found| found.pointer(pointer)).and_then(Json::as_f64).unwrap_or(f64::NAN)
    };
    [
        ("perplexity", "/ppl"),
        ("base_perplexity", "/base_ppl"),
        ("kl_divergence", "/kld/mean"),
        ("kl_divergence_error", "/kld/stderr"),
        ("chunks", "/chunks"),
        ("context", "/ctx"),
    ]
    .map(|(name, pointer)| (format!("qsf.evaluation.{name}"), Value::F64(number(pointer))))
    .into()
}

fn name_of(source: &dyn WeightSource) -> String {
    let path = source.path().canonicalize().unwrap_or_else(|_| source.path().to_owned());
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.strip_suffix(".qsf").map_or(name.clone(), str::to_owned)
}

/// The number of weights as people say it: `135M`, `1.2B`; of a mixture the number of experts, and the weights that one of them has
/// together with what all share: `8x7B` (gguf-py's `size_label`).
fn size_label(source: &dyn WeightSource) -> String {
    let count = source.config().experts.as_ref().map_or(0, |experts| u64::from(experts.count));
    let weights = source.tensors().iter().map(|tensor| {
        let all = tensor.rows as u64 * tensor.cols as u64;
        let of_one = is_of_experts(tensor.id.kind).then(|| all.checked_div(count)).flatten();
        of_one.unwrap_or(all)
    });
    let label = rounded(weights.sum());
    if count == 0 { label } else { format!("{count}x{label}") }
}

fn is_of_experts(kind: TensorKind) -> bool {
    use TensorKind::*;
    matches!(kind, ExpertGate | ExpertUp | ExpertDown | ExpertGateBias | ExpertUpBias | ExpertDownBias)
}

fn rounded(weights: u64) -> String {
    let weights = weights as f64;
    let (scaled, unit) = match weights {
        w if w >= 1e12 => (w / 1e12, "T"),
        w if w >= 1e9 => (w / 1e9, "B"),
        w if w >= 1e6 => (w / 1e6, "M"),
        w => (w / 1e3, "K"),
    };
    if scaled < 10.0 { format!("{scaled:.1}{unit}") } else { format!("{scaled:.0}{unit}") }
}
