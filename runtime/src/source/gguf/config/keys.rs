//! The keys of one architecture, and those that nobody here knows.

use qsf_format::printable::quote;

use crate::error::{Result, RuntimeError};
use crate::gguf::{Metadata, PerLayer};

/// Keys that are read, or that say nothing of the result.
const KNOWN: &[&str] = &[
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "use_parallel_residual",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_weights_norm",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    // How the files came about, or what is done with hidden states.
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "pooling_type",
];

/// Keys of what is not done here, and the value that means that the model does not do it either.
const NEUTRAL: &[(&str, f32)] = &[
    ("expert_shared_count", 0.0),
    ("expert_shared_feed_forward_length", 0.0),
    ("expert_group_count", 0.0),
    ("expert_group_used_count", 0.0),
    ("expert_weights_scale", 1.0),
    // Softmax over all experts.
    ("expert_gating_func", 1.0),
    ("leading_dense_block_count", 0.0),
    ("nextn_predict_layers", 0.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("embedding_scale", 1.0),
    ("attention.causal", 1.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("rope.scaling.alpha", 0.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
];

/// The keys that begin with the name of the architecture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a> {
    /// The file.
    pub metadata: &'a Metadata,
    /// Its `general.architecture`.
    pub architecture: &'a str,
    /// Keys that files of this architecture have beside those of all.
    pub own: &'static [&'static str],
    /// Those of all that have a number for each layer.
    pub per_layer: &'static [&'static str],
}

impl Keys<'_> {
    /// The whole key.
    pub fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// An error about a key.
    pub fn wrong(&self, name: &str, expected: impl ToString, found: impl ToString) -> RuntimeError {
        self.metadata.wrong(&self.full(name), expected, found)
    }

    pub fn u32(&self, name: &str) -> Result<Option<u32>> {
        self.metadata.u32(&self.full(name))
    }

    pub fn need_u32(&self, name: &str) -> Result<u32> {
        self.metadata.need_u32(&self.full(name))
    }

    pub fn f32(&self, name: &str) -> Result<Option<f32>> {
        self.metadata.f32(&self.full(name))
    }

    pub fn need_f32(&self, name: &str) -> Result<f32> {
        self.metadata.need_f32(&self.full(name))
    }

    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        self.metadata.bool(&self.full(name))
    }

    /// A number that is the same for all layers; of a key that has one for each, the first that is not 0.
    ///
    /// # Errors
    /// When it is not, or there is one too many or too few.
    pub fn same_for_all(&self, name: &str, layers: u32) -> Result<Option<u32>> {
        let numbers = match self.metadata.u32_or_array(&self.full(name))? {
            None => return Ok(None),
            Some(PerLayer::All(number)) => return Ok(Some(number)),
            Some(PerLayer::Each(numbers)) => numbers,
        };
        if self.per_layer.contains(&name) {
            return Ok(numbers.iter().find(|&&number| number != 0).copied());
        }
        let all = self.u32("block_count")?.unwrap_or(layers);
        if numbers.len() != layers as usize && numbers.len() != all as usize {
            return Err(self.wrong(name, format!("one number for each of {layers} layers"), numbers.len()));
        }
        if numbers.windows(2).any(|pair| pair[0] != pair[1]) {
            let what = format!("{} that differs from layer to layer", self.full(name));
            return Err(RuntimeError::unsupported(self.metadata.path(), what, "all layers must be alike"));
        }
        Ok(numbers.first().copied())
    }

    /// Anything that could change the result and that is not read is refused.
    pub fn refuse_unknown(&self) -> Result<()> {
        let prefix = self.full("");
        for key in self.metadata.keys() {
            let Some(name) =
                key.strip_prefix(&prefix).filter(|name| !KNOWN.contains(name) && !self.own.contains(name))
            else {
                continue;
            };
            let neutral = NEUTRAL.iter().find(|(neutral, _)| *neutral == name);
            if neutral.is_some_and(|(_, value)| self.is(name, *value)) {
                continue;
            }
            let supported = neutral.map_or_else(
                || "nothing is known of this key, which may change what the model computes".to_owned(),
                |(_, value)| format!("only {value} is"),
            );
            return Err(RuntimeError::unsupported(
                self.metadata.path(),
                format!("key {}", quote(key)),
                &supported,
            ));
        }
        Ok(())
    }

    fn is(&self, name: &str, value: f32) -> bool {
        let number = self.u32(name).ok().flatten().map(|number| number as f32);
        let flag = || self.bool(name).ok().flatten().map(|flag| f32::from(u8::from(flag)));
        let fraction = || self.f32(name).ok().flatten();
        // Unset group counts are written as 0 or 1.
        number
            .or_else(flag)
            .or_else(fraction)
            .is_some_and(|found| found == value || (name.starts_with("expert_group") && found == 1.0))
    }
}

/// A number that must be there.
pub(super) fn need(keys: Keys<'_>, name: &str, value: Option<u32>) -> Result<u32> {
    value.ok_or_else(|| keys.wrong(name, "an integer", "no such key"))
}
