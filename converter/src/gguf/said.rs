//! Whoever gets a file must find the model in it that was given: what its header says is read back before anything is quantized.

use std::path::Path;

use qsf_format::{ModelConfig, PositionConfig, RopeScaling};
use qsf_runtime::RuntimeError;
use qsf_runtime::compare::configuration_differences;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::open_gguf;
use qsf_runtime::tokenizer::Tokenizer;

use crate::error::{ConvertError, Result};

/// Checks that the file at `path`, which has holes for its values, says of the model what `source` says.
///
/// # Errors
/// When it does not.
pub(super) fn check_said(path: &Path, source: &dyn WeightSource, check_tokenizer: bool) -> Result<()> {
    let read = open_gguf(path).map_err(|error| match error {
        // Of the file that is to be: there is no file yet that a user could look at.
        RuntimeError::Unsupported { what, supported, .. } => {
            RuntimeError::unsupported(source.path(), format!("{what} in a GGUF file"), supported)
        }
        RuntimeError::BadInput { place, expected, .. } => {
            let supported = format!("llama.cpp's files of this architecture need {expected}");
            RuntimeError::unsupported(
                source.path(),
                format!("a model without {place} in a GGUF file"),
                supported,
            )
        }
        other => other,
    })?;
    let differences = configuration_differences(source.config(), read.config())?;
    let differs = differences.iter().find(|difference| !may_differ(&difference.field, source.config()));
    if let Some(difference) = differs {
        let what = format!("{} = {} in a GGUF file", difference.field, difference.a);
        let supported = format!("llama.cpp's files say {} for this architecture", difference.b);
        return Err(RuntimeError::unsupported(source.path(), what, supported).into());
    }
    if let (Some(json), true) = (source.tokenizer_json(), check_tokenizer) {
        let tokenizer = Tokenizer::from_json(json, &source.path().join("tokenizer.json"))?;
        read.check_tokenizer(&tokenizer).map_err(ConvertError::TokenizerDiffers)?;
    }
    Ok(())
}

/// Fields that say the same in other words, or nothing of what the model computes.
fn may_differ(field: &str, config: &ModelConfig) -> bool {
    let llama3 =
        matches!(config.position, PositionConfig::Rope { scaling: Some(RopeScaling::Llama3 { .. }), .. });
    // Tokens without an embedding for layers have that of the first.
    matches!(field, "architecture" | "bos" | "stop_tokens" | "pad" | "per_layer_embedding.vocab")
        || field.starts_with("stop_tokens.")
        // A factor for each frequency instead of how they come about.
        || (llama3 && field.starts_with("position.scaling"))
        // Models of experts alone have no other feed-forward, whose width readers take from elsewhere.
        || (field == "ffn" && config.experts.as_ref().is_some_and(|experts| experts.dense_layers.is_empty()))
}
