//! MiniCPM 3: attention by way of latents, a scaled residual stream and scaled logits.

use qsf_format::TensorKind::{AttnKvDown, FfnGate};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::latent::{ATTENTION_HALVES, Latent};
use super::names::{GATED_FFN, IGNORED, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const MINICPM3: Architecture = Architecture {
    model_types: &["minicpm3"],
    base: "model.",
    table: NameTable { rules: join_rules!(MODEL, PRE_NORMS, ATTENTION_HALVES, GATED_FFN), ignored: IGNORED },
    marks: Marks { fields: &["scale_emb", "scale_depth"], ..Marks::tensors(&[AttnKvDown, FfnGate]) },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let defaults = Defaults {
        vocab: 73_448,
        hidden: 2560,
        ffn: 6400,
        layers: 62,
        heads: 40,
        kv_heads: None,
        head_dim: None,
        max_positions: 32_768,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: true,
    };
    let latent = Latent {
        q_rank: Some(768),
        kv_rank: 256,
        unrotated: 64,
        rotated: 32,
        value_dim: None,
        whole_heads: false,
    };
    let fields = reader.fields;
    reader.only("mlp_bias", false)?;
    let mut model = reader.with_latents(&defaults, &latent)?;
    // null means that nothing is scaled; where a field is not there, the class decides.
    let given = |name: &str, default: f64| match fields.map.contains_key(name) {
        true => fields.f64(name),
        false => Ok(Some(default)),
    };
    model.embedding_scale = Some(fields.f32("scale_emb")?.unwrap_or(12.0)).filter(|scale| *scale != 1.0);
    let depth = given("scale_depth", 1.4)?;
    model.residual_scale = depth.map(|depth| (depth / f64::from(model.layers).sqrt()) as f32);
    let base = given("dim_model_base", 256.0)?;
    let scale = base.map(|base| (base / f64::from(model.hidden)) as f32);
    model.logit_scale = scale.filter(|scale| *scale != 1.0);
    Ok(plain(model))
}
