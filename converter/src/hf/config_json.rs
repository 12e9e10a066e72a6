//! `config.json` and `generation_config.json`: the source's own where it is a model directory, and else made from what the model
//! is configured as. What is made is read back before anything else is done.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::compare::configuration_differences;
use qsf_runtime::source::{HfNames, WeightSource, configuration_of, configured_model};
use serde_json::{Map, Value, json};

use super::fields::{Described, as_written, config_fields};
use crate::dtype::HfOut;
use crate::error::Result;

/// The classes of transformers for the values of `model_type`, where they are not the same word in another spelling.
const CLASSES: [(&str, &str); 34] = [
    ("gpt2", "GPT2LMHeadModel"),
    ("codegen", "CodeGenForCausalLM"),
    ("hyperclovax", "HyperCLOVAXForCausalLM"),
    ("internlm3", "InternLM3ForCausalLM"),
    ("bitnet", "BitNetForCausalLM"),
    ("llama4_text", "Llama4ForCausalLM"),
    ("gpt_neox", "GPTNeoXForCausalLM"),
    ("gpt_oss", "GptOssForCausalLM"),
    ("opt", "OPTForCausalLM"),
    ("smollm3", "SmolLM3ForCausalLM"),
    ("stablelm", "StableLmForCausalLM"),
    ("gpt_bigcode", "GPTBigCodeForCausalLM"),
    ("gptj", "GPTJForCausalLM"),
    ("granitemoe", "GraniteMoeForCausalLM"),
    ("granitemoehybrid", "GraniteMoeHybridForCausalLM"),
    ("granitemoeshared", "GraniteMoeSharedForCausalLM"),
    ("gemma3_text", "Gemma3ForCausalLM"),
    ("gemma3n_text", "Gemma3nForCausalLM"),
    ("gemma4_text", "Gemma4ForCausalLM"),
    ("qwen2_moe", "Qwen2MoeForCausalLM"),
    ("qwen3_moe", "Qwen3MoeForCausalLM"),
    ("qwen3_5_text", "Qwen3_5ForCausalLM"),
    ("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"),
    ("ernie4_5", "Ernie4_5ForCausalLM"),
    ("ernie4_5_moe", "Ernie4_5_MoeForCausalLM"),
    ("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"),
    ("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM"),
    ("minimax_m2", "MiniMaxM2ForCausalLM"),
    ("minicpm3", "MiniCPM3ForCausalLM"),
    ("mimo_v2_flash", "MiMoV2FlashForCausalLM"),
    ("deepseek_v2", "DeepseekV2ForCausalLM"),
    ("deepseek_v3", "DeepseekV3ForCausalLM"),
    ("olmoe", "OlmoeForCausalLM"),
    ("lfm2_moe", "Lfm2MoeForCausalLM"),
];

/// Fields of a source's own configuration that do not hold for what is written: how it was packed, and code of its own, which
/// transformers needs for none of the architectures that can be read.
const DROPPED: [&str; 5] =
    ["quantization", "quantization_config", "compression_config", "auto_map", "_name_or_path"];

/// The two configurations of a directory.
pub(super) struct Configurations {
    pub config: Map<String, Value>,
    /// Not where the source's own is copied.
    pub generation: Option<Map<String, Value>>,
}

/// The directory that a source is, where it is one.
pub(super) fn directory_of(source: &dyn WeightSource) -> Option<PathBuf> {
    let files = source.files();
    let own = files.iter().find(|file| file.file_name().is_some_and(|name| name == "config.json"))?;
    own.parent().map(Path::to_owned)
}

/// What `config.json` and `generation_config.json` are to say.
///
/// # Errors
/// When transformers has no fields for what the model is.
pub(super) fn configurations(
    source: &dyn WeightSource,
    names: &HfNames,
    out: HfOut,
) -> Result<Configurations> {
    if let Some(dir) = directory_of(source) {
        let own = configuration_of(&dir)?;
        // The configuration of a model that also sees or hears is not that of its language model.
        if !own.contains_key("text_config") {
            let config = adapted(own, source.config(), names, out);
            return Ok(Configurations { config, generation: None });
        }
    }
    let config = made(source, names, out)?;
    Ok(Configurations { config, generation: Some(generation(source.config())) })
}

/// A source's own configuration, with what holds for the new files.
fn adapted(
    mut own: Map<String, Value>,
    config: &ModelConfig,
    names: &HfNames,
    out: HfOut,
) -> Map<String, Value> {
    DROPPED.iter().for_each(|name| drop(own.remove(*name)));
    own.entry("model_type").or_insert_with(|| json!(names.model_type()));
    own.entry("architectures").or_insert_with(|| json!([class_of(names.model_type())]));
    // Heads are compared with embeddings when a model is read: a file may say one thing and hold another.
    let said = own.get("tie_word_embeddings").and_then(Value::as_bool);
    if said.is_some_and(|said| said != config.tied_head) {
        own.insert("tie_word_embeddings".into(), json!(config.tied_head));
    }
    add_dtype(&mut own, out);
    own
}

/// `dtype` is the name of today, `torch_dtype` that of versions before 4.56.
fn add_dtype(config: &mut Map<String, Value>, out: HfOut) {
    for name in ["dtype", "torch_dtype"] {
        config.insert(name.into(), json!(out.torch_name()));
    }
}

/// What the model is, in fields of transformers 4: one for each property, where later versions nest some.
pub(super) fn plain_fields(source: &dyn WeightSource, names: &HfNames) -> Map<String, Value> {
    let kinds: HashSet<TensorKind> = source.tensors().iter().map(|info| info.id.kind).collect();
    config_fields(&Described {
        config: &as_written(source.config()),
        model_type: names.model_type(),
        has: &|kind| kinds.contains(&kind),
        may_have: &|kind| names.has(kind),
    })
}

/// A configuration made of what the model is; it is read back.
fn made(source: &dyn WeightSource, names: &HfNames, out: HfOut) -> Result<Map<String, Value>> {
    let config = &as_written(source.config());
    let model_type = names.model_type();
    let mut fields = plain_fields(source, names);
    fields.insert("model_type".into(), json!(model_type));
    fields.insert("architectures".into(), json!([class_of(model_type)]));
    fields.extend(token_fields(config));
    add_dtype(&mut fields, out);
    check_said(source, &fields)?;
    Ok(fields)
}

/// Whoever reads the fields must find the model in them that was given.
fn check_said(source: &dyn WeightSource, fields: &Map<String, Value>) -> Result<()> {
    let unsupported = |what: String, why: String| -> crate::ConvertError {
        RuntimeError::unsupported(source.path(), format!("{what} in a new config.json"), why).into()
    };
    let architecture = &source.config().architecture;
    let why = || {
        format!(
            "the fields of {architecture} models are not known well enough to write them: convert the model's HuggingFace \
             directory, whose own config.json is kept, or write a QSF file"
        )
    };
    let text = Value::Object(fields.clone()).to_string();
    let (found, tensors) = configured_model(Path::new("config.json"), text.as_bytes())
        .map_err(|error| unsupported(format!("a {architecture} model ({error})"), why()))?;
    let differences = configuration_differences(&as_written(source.config()), &found)?;
    let counts = |field: &str| {
        field != "architecture"
            // Models of experts alone have no other feed-forward, whose width GGUF files do not say.
            && !(field == "ffn" && source.config().experts.as_ref().is_some_and(|e| e.dense_layers.is_empty()))
    };
    if let Some(difference) = differences.iter().find(|difference| counts(&difference.field)) {
        return Err(unsupported(format!("{} = {}", difference.field, difference.a), why()));
    }
    let there: HashSet<TensorId> = source.tensors().iter().map(|info| info.id).collect();
    let said: HashSet<TensorId> = tensors.iter().map(|info| info.id).collect();
    if let Some(info) = source.tensors().iter().find(|info| !said.contains(&info.id)) {
        return Err(unsupported(format!("{} of a {architecture} model", info.id), why()));
    }
    if let Some(missing) = tensors.iter().find(|info| !there.contains(&info.id)) {
        return Err(unsupported(format!("a {architecture} model without {}", missing.id), why()));
    }
    Ok(())
}

fn token_fields(config: &ModelConfig) -> Map<String, Value> {
    let stop = match config.stop_tokens[..] {
        [] => Value::Null,
        [only] => json!(only),
        ref several => json!(several),
    };
    [("bos_token_id", json!(config.bos)), ("eos_token_id", stop), ("pad_token_id", json!(config.pad))]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn generation(config: &ModelConfig) -> Map<String, Value> {
    let mut fields = token_fields(config);
    fields.retain(|_, value| !value.is_null());
    fields.insert("_from_model_config".into(), json!(true));
    fields
}

/// `LlamaForCausalLM` of `llama`.
fn class_of(model_type: &str) -> String {
    if let Some((_, class)) = CLASSES.iter().find(|(known, _)| *known == model_type) {
        return (*class).to_owned();
    }
    let mut class = String::new();
    for part in model_type.split('_') {
        let mut letters = part.chars();
        class.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        class.push_str(letters.as_str());
    }
    class + "ForCausalLM"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_transformers() {
        for (model_type, class) in [
            ("llama", "LlamaForCausalLM"),
            ("qwen3_next", "Qwen3NextForCausalLM"),
            ("glm4_moe_lite", "Glm4MoeLiteForCausalLM"),
            ("seed_oss", "SeedOssForCausalLM"),
            ("gpt2", "GPT2LMHeadModel"),
            ("gptj", "GPTJForCausalLM"),
            ("gpt_bigcode", "GPTBigCodeForCausalLM"),
            ("granitemoehybrid", "GraniteMoeHybridForCausalLM"),
        ] {
            assert_eq!(class_of(model_type), class);
        }
    }
}
