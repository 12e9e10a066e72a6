//! What an architecture reads beside what all have in common.

use qsf_format::{ModelConfig, PositionConfig, QueryGrowth, Recurrent, RecurrentMixer, RopeScaling};

use super::keys::Keys;
use super::layer_tensors::{layers_with, shape_of};
use crate::error::Result;
use crate::gguf::{GgufFile, PerLayer};

/// A configuration that is being read: what all architectures have in common is there.
pub(in crate::source::gguf) struct Reading<'a> {
    pub file: &'a GgufFile,
    pub(super) keys: Keys<'a>,
    pub config: ModelConfig,
}

impl Reading<'_> {
    /// The dimensions of a tensor of the file, fastest first.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        shape_of(self.file, name)
    }

    /// The layers that have a tensor of this name.
    pub fn layers_with(&self, name: &str) -> Vec<u32> {
        layers_with(self.file, name, self.config.layers)
    }

    /// A number, where the file has it.
    pub fn number(&self, name: &str) -> Result<Option<u32>> {
        self.keys.u32(name)
    }

    /// A truth value, where the file has it.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.keys.bool(name)
    }

    /// A number that must be there.
    pub fn needed(&self, name: &str) -> Result<u32> {
        self.keys.need_u32(name)
    }

    /// A truth value for each layer, where the file has them. Layers behind the last of the model are left out.
    pub fn flags(&self, name: &str) -> Result<Option<Vec<bool>>> {
        let layers = self.config.layers as usize;
        match self.keys.metadata.bools(&self.keys.full(name))? {
            Some(flags) if flags.len() < layers => {
                Err(self.keys.wrong(name, format!("a truth value for each of {layers} layers"), flags.len()))
            }
            flags => Ok(flags.map(|mut flags| {
                flags.truncate(layers);
                flags
            })),
        }
    }

    /// A fraction, where the file has it.
    pub fn fraction(&self, name: &str) -> Result<Option<f32>> {
        self.keys.f32(name)
    }

    /// A fraction for each layer, where the file has them. Layers behind the last of the model are left out.
    pub fn fractions(&self, name: &str) -> Result<Option<Vec<f32>>> {
        let layers = self.config.layers as usize;
        match self.keys.metadata.f32s(&self.keys.full(name))? {
            Some(all) if all.len() < layers => {
                Err(self.keys.wrong(name, format!("a fraction for each of {layers} layers"), all.len()))
            }
            all => Ok(all.map(|mut all| {
                all.truncate(layers);
                all
            })),
        }
    }

    /// A factor that is 1 where nothing is said of it.
    pub fn factor(&self, name: &str) -> Result<Option<f32>> {
        Ok(self.keys.f32(name)?.filter(|&factor| factor != 1.0 && factor != 0.0))
    }

    /// The factors of Granite models.
    pub fn granite_factors(&mut self) -> Result<()> {
        self.config.embedding_scale = self.factor("embedding_scale")?;
        self.config.residual_scale = self.factor("residual_scale")?;
        self.config.logit_scale = self.factor("logit_scale")?.map(|divisor| 1.0 / divisor);
        Ok(())
    }

    /// A number for each layer; one number stands for all. Layers behind the last of the model are left out.
    pub fn for_each_layer(&self, name: &str) -> Result<Option<Vec<u32>>> {
        let layers = self.config.layers as usize;
        match self.keys.metadata.u32_or_array(&self.keys.full(name))? {
            None => Ok(None),
            Some(PerLayer::All(number)) => Ok(Some(vec![number; layers])),
            Some(PerLayer::Each(mut numbers)) if numbers.len() >= layers => {
                numbers.truncate(layers);
                Ok(Some(numbers))
            }
            Some(PerLayer::Each(numbers)) => {
                let expected = format!("one number for each of {layers} layers");
                Err(self.keys.wrong(name, expected, numbers.len()))
            }
        }
    }

    /// Layers without keys and values.
    pub fn without_attention(&self) -> Result<Vec<u32>> {
        let heads = self.for_each_layer("attention.head_count_kv")?.unwrap_or_default();
        Ok((0..).zip(heads).filter(|(_, heads)| *heads == 0).map(|(layer, _)| layer).collect())
    }

    /// A gated delta net in `layers`, by the keys that were made for Mamba.
    pub fn gated_delta(&mut self, layers: Vec<u32>) -> Result<()> {
        let value_heads = self.keys.need_u32("ssm.time_step_rank")?;
        let mixer = RecurrentMixer::GatedDelta {
            key_heads: self.keys.need_u32("ssm.group_count")?,
            key_dim: self.keys.need_u32("ssm.state_size")?,
            value_heads,
            value_dim: self.part_of("ssm.inner_size", value_heads)?,
        };
        self.recurrent(mixer, "ssm.conv_kernel", layers)
    }

    /// Mamba-2 in `layers`.
    pub fn mamba2(&mut self, layers: Vec<u32>) -> Result<()> {
        let heads = self.keys.need_u32("ssm.time_step_rank")?;
        let mixer = RecurrentMixer::Mamba2 {
            heads,
            head_dim: self.part_of("ssm.inner_size", heads)?,
            groups: self.keys.need_u32("ssm.group_count")?,
            state: self.keys.need_u32("ssm.state_size")?,
        };
        self.recurrent(mixer, "ssm.conv_kernel", layers)
    }

    /// Mixers in `layers`, whose convolutions have as many taps as the key says.
    pub fn recurrent(&mut self, mixer: RecurrentMixer, taps: &str, layers: Vec<u32>) -> Result<()> {
        let taps = self.keys.need_u32(taps)?;
        self.config.recurrent = (!layers.is_empty()).then_some(Recurrent::new(mixer, taps, layers));
        Ok(())
    }

    fn part_of(&self, name: &str, parts: u32) -> Result<u32> {
        let all = self.keys.need_u32(name)?;
        let whole = all.checked_rem(parts) == Some(0);
        whole.then(|| all / parts).ok_or_else(|| self.keys.wrong(name, format!("a multiple of {parts}"), all))
    }

    /// YaRN whose factor of queries and keys is undone, or is in the scale of scores: gives its multiplier of the logarithm.
    pub fn yarn_multiplier(&mut self) -> Result<Option<f64>> {
        let multiplier = self.keys.f32("rope.scaling.yarn_log_multiplier")?.filter(|found| *found != 0.0);
        if let PositionConfig::Rope { scaling: Some(RopeScaling::Yarn { attention_factor, .. }), .. } =
            &mut self.config.position
            && multiplier.is_some()
        {
            *attention_factor = 1.0;
        }
        // The number that was meant, of which a float is the nearest.
        Ok(multiplier.and_then(|multiplier| multiplier.to_string().parse().ok()))
    }

    /// Queries that grow with their position.
    pub fn query_growth(&mut self) -> Result<()> {
        let factor = self.keys.f32("attention.temperature_scale")?.filter(|factor| *factor != 0.0);
        let length = |factor| -> Result<QueryGrowth> {
            Ok(QueryGrowth {
                factor,
                original_positions: self.keys.need_u32("rope.scaling.original_context_length")?,
                from_one: false,
                unrotated_only: false,
            })
        };
        self.config.query_growth = factor.map(length).transpose()?;
        Ok(())
    }
}
