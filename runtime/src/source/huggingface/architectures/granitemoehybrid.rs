//! Granite 4: layers of Mamba-2 with a layer of attention among them now and then, experts beside one for all tokens or a plain
//! feed-forward, and the factors of Granite.

use qsf_format::TensorKind::{FfnDown, FfnGate, FfnUp};
use qsf_format::{Experts, ModelConfig, PositionConfig, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::granitemoe::{EXPERTS, SHARED};
use super::mamba::{MAMBA, declared_conv_bias, mamba2};
use super::names::{ATTENTION, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};
use qsf_format::printable::quote;

pub(super) const GRANITE_MOE_HYBRID: Architecture = Architecture {
    model_types: &["granitemoehybrid"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            MAMBA,
            EXPERTS,
            SHARED,
            PLAIN
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

/// What is for all tokens is the whole feed-forward of models without experts.
const PLAIN: &[NameRule] = &[
    rows("layers.{}.shared_mlp.input_linear.weight", &[FfnGate, FfnUp]),
    rows("layers.{}.shared_mlp.output_linear.weight", &[FfnDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32_000,
        hidden: 4096,
        ffn: 11_008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    reader.granite_factors(&mut model)?;
    feed_forward(reader, &mut model)?;
    let layers = without_attention(reader, model.layers)?;
    if !layers.is_empty() {
        model.recurrent = Some(mamba2(reader, &model, layers)?);
    }
    if reader.fields.str("position_embedding_type")? != Some("rope")
        && let PositionConfig::Rope { unrotated_layers, .. } = &mut model.position
    {
        *unrotated_layers = (0..model.layers).collect();
    }
    let mut declared = reader.attention_bias()?;
    declared.extend(declared_conv_bias(reader)?);
    Ok(SourceConfig { declared, model })
}

fn feed_forward(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let ffn = reader.fields.u32("shared_intermediate_size")?.unwrap_or(1024);
    let count = reader.fields.u32("num_local_experts")?.unwrap_or(8);
    if count == 0 {
        model.ffn = ffn;
        return Ok(());
    }
    model.experts = Some(Experts {
        count,
        used: reader.dimension(&["num_experts_per_tok"], 2)?,
        ffn: model.ffn,
        // A softmax over the chosen alone.
        normalize_weights: true,
        shared: Some(SharedExperts { ffn, gated: false }),
        ..Experts::default()
    });
    Ok(())
}

/// Layers of Mamba-2, under the name of the hub or that of transformers 5.
fn without_attention(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    let fields = reader.fields;
    let types = match fields.strs("layer_types")? {
        Some(types) => Some(types),
        None => fields.strs("layers_block_type")?,
    };
    let Some(types) = types else { return Ok((0..layers).collect()) };
    if types.len() != layers as usize {
        return Err(fields.wrong("layer_types", format!("one for each of {layers} layers"), types.len()));
    }
    let mut found = Vec::new();
    for (layer, kind) in (0..layers).zip(types) {
        match kind {
            "mamba" | "linear_attention" => found.push(layer),
            "attention" | "full_attention" => {}
            other => {
                let what = format!("layer type {}", quote(other));
                return Err(RuntimeError::unsupported(fields.path, what, "supported: mamba, attention"));
            }
        }
    }
    Ok(found)
}
