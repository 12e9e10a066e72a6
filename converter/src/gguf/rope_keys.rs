//! Rotary positions as keys, and the tensors of factors that belong to them.

use qsf_format::{ModelConfig, PositionConfig, RopeScaling};
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::gguf::GgufNames;

use super::header::Entry;
use super::keys::Keys;
use super::value::Value;

/// A vector that the model has in its configuration and the file as a tensor.
pub(super) struct Factors {
    pub name: &'static str,
    pub values: Vec<f32>,
}

impl Factors {
    /// What the header says of it.
    pub fn entry(&self) -> Entry {
        let count = self.values.len() as u64;
        Entry { name: self.name.to_owned(), dims: vec![count], ty: GgmlType::F32, bytes: 4 * count }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }
}

/// Adds the keys of positions; gives the tensors. An error says in words what a file cannot say.
pub(super) fn add_positions(
    keys: &mut Keys,
    config: &ModelConfig,
    names: &GgufNames,
) -> Result<Vec<Factors>, String> {
    let PositionConfig::Rope { theta, scaling, dims, sliding_theta, .. } = &config.position else {
        return Ok(Vec::new());
    };
    if names.is_unrotated() {
        return Ok(Vec::new());
    }
    let head_dim = config.full_attention.map_or(config.head_dim, |full| full.head_dim);
    let dims = dims.unwrap_or(head_dim);
    let always = matches!(names.architecture(), "phi3" | "phimoe" | "cohere2" | "granitehybrid" | "apertus");
    if names.rotates_whole_heads() || dims != config.head_dim || always {
        keys.u32("rope.dimension_count", dims);
    }
    keys.f32("rope.freq_base", *theta);
    if let Some(theta) = sliding_theta {
        keys.f32("rope.freq_base_swa", *theta);
    }
    let Some(scaling) = scaling else {
        match names.architecture() {
            "phi3" | "phimoe" => keys.u32("rope.scaling.original_context_length", config.max_positions),
            "command-r" | "cohere2" => keys.add("rope.scaling.type", Value::Text("none".into())),
            _ => {}
        }
        return Ok(Vec::new());
    };
    add_scaling(keys, scaling, *theta, dims)
}

fn add_scaling(
    keys: &mut Keys,
    scaling: &RopeScaling,
    theta: f32,
    dims: u32,
) -> Result<Vec<Factors>, String> {
    let kind = |keys: &mut Keys, name: &str, factor: f32| {
        keys.add("rope.scaling.type", Value::Text(name.to_owned()));
        keys.f32("rope.scaling.factor", factor);
    };
    match scaling {
        RopeScaling::Linear { factor } => {
            kind(keys, "linear", *factor);
            Ok(Vec::new())
        }
        RopeScaling::Yarn { factor, original_positions, beta_fast, beta_slow, attention_factor, .. } => {
            kind(keys, "yarn", *factor);
            keys.u32("rope.scaling.original_context_length", *original_positions);
            keys.f32("rope.scaling.yarn_beta_fast", *beta_fast);
            keys.f32("rope.scaling.yarn_beta_slow", *beta_slow);
            // What readers take where the file says nothing (arXiv 2309.00071, section 3.4).
            let usual = (0.1 * f64::from(*factor).ln() + 1.0) as f32;
            if *attention_factor != usual {
                keys.f32("rope.scaling.yarn_attn_factor", *attention_factor);
            }
            Ok(Vec::new())
        }
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
            let llama3 = Llama3 {
                factor: f64::from(*factor),
                low: f64::from(*low_freq_factor),
                high: f64::from(*high_freq_factor),
                original: f64::from(*original_positions),
            };
            Ok(vec![Factors { name: "rope_freqs.weight", values: llama3.factors(theta, dims) }])
        }
        RopeScaling::Factors { factors } => {
            Ok(vec![Factors { name: "rope_freqs.weight", values: factors.clone() }])
        }
        RopeScaling::LongRope { original_positions, short_factors, long_factors, attention_factor } => {
            keys.u32("rope.scaling.original_context_length", *original_positions);
            keys.f32("rope.scaling.attn_factor", *attention_factor);
            Ok(vec![
                Factors { name: "rope_factors_long.weight", values: long_factors.clone() },
                Factors { name: "rope_factors_short.weight", values: short_factors.clone() },
            ])
        }
        RopeScaling::Dynamic { .. } => Err("rotary scaling \"dynamic\"".into()),
    }
}

/// LLaMA 3's scaling, which files have as a factor for each frequency.
struct Llama3 {
    factor: f64,
    low: f64,
    high: f64,
    original: f64,
}

impl Llama3 {
    fn factors(&self, theta: f32, dims: u32) -> Vec<f32> {
        let (longest, shortest) = (self.original / self.low, self.original / self.high);
        let of = |i: u32| {
            // Frequencies are 32-bit floats in the reference converter.
            let power = (i * 2) as f32 / dims as f32;
            let frequency = 1.0 / theta.powf(power);
            let length = 2.0 * std::f64::consts::PI / f64::from(frequency);
            if length < shortest {
                1.0
            } else if length > longest {
                self.factor
            } else {
                let smooth = (self.original / length - self.low) / (self.high - self.low);
                1.0 / ((1.0 - smooth) / self.factor + smooth)
            }
        };
        (0..dims / 2).map(|i| of(i) as f32).collect()
    }
}
