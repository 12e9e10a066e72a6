//! Falcon-H1: attention beside Mamba-2 in each layer, and factors of what the parts of a layer read and give.

use qsf_format::{ModelConfig, Multipliers, TensorKind};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::bamba::PARTS;
use super::mamba::{MAMBA, declared_conv_bias, mamba2_of};
use super::names::{ATTENTION, IGNORED, OUTPUT_BIAS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameTable, join_rules};

pub(super) const FALCON_H1: Architecture = Architecture {
    model_types: &["falcon_h1"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(PARTS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, MAMBA),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["mamba_n_heads", "mamba_d_ssm"], ..Marks::NONE },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(&Defaults {
        vocab: 128_000,
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 8192,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    reader.only("projectors_bias", false)?;
    let inner = match fields.get("mamba_d_ssm") {
        Some(value) if value.is_null() => {
            fields.u32("mamba_expand")?.unwrap_or(2).saturating_mul(model.hidden)
        }
        _ => fields.u32("mamba_d_ssm")?.unwrap_or(1024),
    };
    let mut recurrent = mamba2_of(reader, &model, ("mamba_d_ssm", inner), (0..model.layers).collect())?;
    recurrent.beside_attention = true;
    recurrent.without_norm = !fields.bool("mamba_rms_norm")?.unwrap_or(false);
    if !recurrent.without_norm {
        reader.only("mamba_norm_before_gate", false)?;
        if fields.bool("mamba_norm_before_gate")?.is_none() {
            let what = "mamba_rms_norm without mamba_norm_before_gate = false";
            return Err(RuntimeError::unsupported(fields.path, what, "only norms behind the gate are"));
        }
    }
    model.recurrent = Some(recurrent);
    let mut declared = reader.declared_biases()?;
    declared.extend(declared_conv_bias(reader)?);
    factors(reader, &mut model, &declared)?;
    Ok(SourceConfig { declared, model })
}

/// The factors of the model. Those of queries, keys and values become one of the scores and one of what attention gives.
fn factors(reader: &Reader<'_>, model: &mut ModelConfig, declared: &[(TensorKind, bool)]) -> Result<()> {
    let fields = reader.fields;
    let factor = |name: &str| -> Result<f64> { Ok(fields.f64(name)?.unwrap_or(1.0)) };
    let unless_one = |factor: f64| (factor != 1.0).then_some(factor as f32);
    let several = |name: &str, count: usize| -> Result<Vec<f64>> {
        match fields.get(name).filter(|value| !value.is_null()) {
            None => Ok(vec![1.0; count]),
            Some(value) => {
                let numbers: Option<Vec<f64>> =
                    value.as_array().and_then(|all| all.iter().map(serde_json::Value::as_f64).collect());
                numbers
                    .filter(|numbers| numbers.len() == count)
                    .ok_or_else(|| fields.wrong(name, format!("{count} numbers"), value))
            }
        }
    };
    model.embedding_scale = unless_one(factor("embedding_multiplier")?);
    model.logit_scale = unless_one(factor("lm_head_multiplier")?);
    let input = factor("attention_in_multiplier")?;
    if input != 1.0 && declared.contains(&(TensorKind::AttnQBias, true)) {
        let what = "attention_in_multiplier with attention_bias";
        return Err(RuntimeError::unsupported(fields.path, what, "either alone is"));
    }
    let of_scores = factor("key_multiplier")? * input * input;
    if of_scores != 1.0 {
        model.attention_scale = Some((of_scores / f64::from(model.head_dim).sqrt()) as f32);
    }
    let (ffn, ssm) = (several("mlp_multipliers", 2)?, several("ssm_multipliers", 5)?);
    let ssm_input = factor("ssm_in_multiplier")?;
    let of_mixer = |at: usize| (ssm_input * ssm[at]) as f32;
    let multipliers = Multipliers {
        attention: (factor("attention_out_multiplier")? * input) as f32,
        mixer: factor("ssm_out_multiplier")? as f32,
        mixer_gate: of_mixer(0),
        mixer_inputs: [of_mixer(1), of_mixer(2), of_mixer(3)],
        mixer_step: of_mixer(4),
        ffn_gate: ffn[0] as f32,
        ffn: ffn[1] as f32,
    };
    model.multipliers = (multipliers != Multipliers::ONES).then_some(multipliers);
    Ok(())
}
