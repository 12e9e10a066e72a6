//! InternLM 3: LLaMA with names of its own for the fields of biases.

use qsf_format::TensorKind::{self, *};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::llama::LLAMA;
use super::reader::{Defaults, declared};
use crate::error::{Result, RuntimeError};

pub(super) const INTERNLM3: Architecture = Architecture {
    model_types: &["internlm3"],
    marks: Marks { fields: &["qkv_bias"], ..Marks::NONE },
    config,
    ..LLAMA
};

const BIASES: [TensorKind; 7] =
    [AttnQBias, AttnKBias, AttnVBias, AttnOutputBias, FfnGateBias, FfnUpBias, FfnDownBias];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let model = reader.llama_like(&Defaults {
        vocab: 128_512,
        hidden: 4096,
        ffn: 10_240,
        layers: 48,
        heads: 32,
        kv_heads: Some(2),
        head_dim: Some(128),
        max_positions: 32_768,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    let fields = reader.fields;
    let first = |names: [&str; 2]| -> Result<bool> {
        let found = [fields.bool(names[0])?, fields.bool(names[1])?];
        Ok(found[0].or(found[1]).unwrap_or(false))
    };
    let (attention, feed_forward) = (first(["qkv_bias", "attention_bias"])?, first(["bias", "mlp_bias"])?);
    // The model's own code and transformers differ in whether the output projection has a bias then.
    if attention != feed_forward {
        let what = format!("qkv_bias = {attention} with bias = {feed_forward}");
        return Err(RuntimeError::unsupported(fields.path, what, "only the same for both is"));
    }
    Ok(SourceConfig { declared: declared(&BIASES, attention), model })
}
