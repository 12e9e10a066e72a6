//! Phi-3.5-MoE: two experts by a router of its own kind (arXiv 2409.12136), layer norms, LongRoPE.

use qsf_format::TensorKind::*;
use qsf_format::{Experts, NormConfig, NormKind, RouterScore};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mixtral;
use super::names::{ATTENTION, IGNORED, MODEL, NORM_BIASES, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const PHIMOE: Architecture = Architecture {
    model_types: &["phimoe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            HEAD_BIAS,
            PRE_NORMS,
            NORM_BIASES,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            mixtral::EXPERTS,
            JOINED
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["router_jitter_noise", "input_jitter_noise"], ..Marks::tensors(&[Router]) },
    config,
};

const HEAD_BIAS: &[NameRule] = &[rows("lm_head.bias", &[HeadBias])];

/// All experts of a layer together, as transformers 5 has them in memory and may save them.
const JOINED: &[NameRule] = &[
    rows("layers.{}.mlp.router.weight", &[Router]),
    formed("layers.{}.mlp.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.mlp.experts.down_proj", &[ExpertDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(&Defaults {
        vocab: 32_064,
        hidden: 4096,
        ffn: 6400,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 131_072,
        norm_epsilon: 1e-5,
        theta: 1_000_000.0,
        tied_head: false,
    })?;
    model.norm = NormConfig::new(NormKind::LayerNorm, model.norm.epsilon);
    model.sliding_window = reader.window(&model, reader.window_size(None)?, |_| true);
    let used = reader.dimension(&["num_experts_per_tok"], 2)?;
    if used != 2 {
        // Whatever the field says, the router of transformers chooses two.
        let what = format!("num_experts_per_tok = {used}");
        return Err(RuntimeError::unsupported(fields.path, what, "only 2 is"));
    }
    model.experts = Some(Experts {
        count: reader.dimension(&["num_local_experts"], 16)?,
        used,
        ffn: model.ffn,
        score: RouterScore::SparseMixer,
        margin: Some(2.0 * fields.f32("router_jitter_noise")?.unwrap_or(0.01)),
        ..Experts::default()
    });
    let mut biases = reader.attention_bias()?;
    biases.extend(declared(&[AttnNormBias, FfnNormBias, FinalNormBias], true));
    biases.push((HeadBias, fields.bool("lm_head_bias")?.unwrap_or(false)));
    Ok(SourceConfig { declared: biases, model })
}
