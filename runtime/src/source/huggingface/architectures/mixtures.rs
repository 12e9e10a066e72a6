//! What configurations say of mixtures of experts, where several architectures say it alike.

use qsf_format::printable::quote;
use qsf_format::{ExpertGroups, Experts, ModelConfig, RouterScore, SharedExperts};

use super::architecture::Reader;
use crate::error::{Result, RuntimeError};

/// What a configuration class takes for fields of the mixture of Qwen that are not there.
pub struct ExpertDefaults {
    pub count: u32,
    pub used: u32,
    pub ffn: u32,
    pub normalize: bool,
}

impl Reader<'_> {
    /// The mixture of Qwen 2 and 3: experts in every `decoder_sparse_step`-th layer but for `mlp_only_layers`; none where these
    /// are all.
    pub fn qwen_experts(&self, layers: u32, defaults: ExpertDefaults) -> Result<Option<Experts>> {
        let fields = self.fields;
        let count = self.dimension(&["num_experts", "num_local_experts"], defaults.count)?;
        let step = fields.u32("decoder_sparse_step")?.unwrap_or(1);
        if step == 0 {
            return Err(fields.wrong("decoder_sparse_step", "1 or more", step));
        }
        let mut dense: Vec<u32> = fields.u32s("mlp_only_layers")?.unwrap_or_default();
        // Layers beyond the last are left alone, as in transformers.
        dense.retain(|&layer| layer < layers);
        dense.extend((0..layers).filter(|layer| (layer + 1) % step != 0));
        dense.sort_unstable();
        dense.dedup();
        if count == 0 || dense.len() >= layers as usize {
            return Ok(None);
        }
        Ok(Some(Experts {
            count,
            used: self.dimension(&["num_experts_per_tok"], defaults.used)?,
            ffn: self.dimension(&["moe_intermediate_size"], defaults.ffn)?,
            normalize_weights: fields.bool("norm_topk_prob")?.unwrap_or(defaults.normalize),
            dense_layers: dense,
            ..Experts::default()
        }))
    }

    /// The mixture of DeepSeek V3: a sigmoid router with a bias of the choice and groups, shared experts, and the first layers
    /// without; none where these are all. `defaults`: `n_routed_experts`, `num_experts_per_tok`, `moe_intermediate_size`,
    /// `n_shared_experts`, `first_k_dense_replace`.
    pub fn deepseek_experts(&self, layers: u32, defaults: [u32; 5]) -> Result<Option<Experts>> {
        let fields = self.fields;
        let [count, used, ffn, shared, first] = defaults;
        let first = fields.u32("first_k_dense_replace")?.unwrap_or(first).min(layers);
        if first == layers {
            return Ok(None);
        }
        let ffn = self.dimension(&["moe_intermediate_size"], ffn)?;
        let shared = fields.u32("n_shared_experts")?.unwrap_or(shared);
        let scale = fields.f32("routed_scaling_factor")?.filter(|&scale| scale != 1.0);
        let groups = [fields.u32("n_group")?.unwrap_or(1), fields.u32("topk_group")?.unwrap_or(1)];
        Ok(Some(Experts {
            count: self.dimension(&["n_routed_experts", "num_local_experts"], count)?,
            used: self.dimension(&["num_experts_per_tok"], used)?,
            ffn,
            normalize_weights: fields.bool("norm_topk_prob")?.unwrap_or(true),
            dense_layers: (0..first).collect(),
            score: RouterScore::Sigmoid,
            choice_bias: true,
            groups: self.expert_groups(groups[0], groups[1], 2)?,
            weight_scale: scale,
            shared: self.shared_experts(shared, ffn)?,
            ..Experts::default()
        }))
    }

    /// Layers without experts by `mlp_layer_types`, where the field is there.
    pub fn dense_layers(&self, layers: u32) -> Result<Option<Vec<u32>>> {
        let (fields, name) = (self.fields, "mlp_layer_types");
        let Some(types) = fields.strs(name)? else { return Ok(None) };
        if types.len() != layers as usize {
            return Err(fields.wrong(name, format!("one for each of {layers} layers"), types.len()));
        }
        let mut dense = Vec::new();
        for (layer, kind) in (0..).zip(types) {
            match kind {
                "dense" => dense.push(layer),
                "sparse" => {}
                other => {
                    let what = format!("feed-forward type {}", quote(other));
                    return Err(RuntimeError::unsupported(fields.path, what, "supported: dense, sparse"));
                }
            }
        }
        Ok(Some(dense))
    }

    /// `count` groups of experts, of which `used` are taken by the sum of their `best` ones. One group is none.
    pub fn expert_groups(&self, count: u32, used: u32, best: u32) -> Result<Option<ExpertGroups>> {
        match (count, used) {
            (1, 1) => Ok(None),
            (1, _) => Err(self.fields.wrong("topk_group", "1, as experts are in one group", used)),
            _ => Ok(Some(ExpertGroups { count, used, best })),
        }
    }

    /// `count` shared experts as one of their width together.
    pub fn shared_experts(&self, count: u32, ffn: u32) -> Result<Option<SharedExperts>> {
        if count == 0 {
            return Ok(None);
        }
        match count.checked_mul(ffn) {
            Some(ffn) => Ok(Some(SharedExperts { ffn, gated: false })),
            None => Err(self.fields.wrong("n_shared_experts", "fewer", count)),
        }
    }

    /// The factors of Granite models.
    pub fn granite_factors(&self, model: &mut ModelConfig) -> Result<()> {
        let factor = |name: &str| -> Result<f32> { Ok(self.fields.f32(name)?.unwrap_or(1.0)) };
        let unless_one = |factor: f32| (factor != 1.0).then_some(factor);
        model.embedding_scale = unless_one(factor("embedding_multiplier")?);
        model.residual_scale = unless_one(factor("residual_multiplier")?);
        model.attention_scale = Some(factor("attention_multiplier")?);
        model.logit_scale = unless_one(1.0 / factor("logits_scaling")?);
        Ok(())
    }
}
