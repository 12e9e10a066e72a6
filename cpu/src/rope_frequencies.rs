//! Rotary frequencies of a configuration, and what scalings for longer contexts make of them.
//!
//! All in f32, operation by operation as `transformers` (`modeling_rope_utils.py`) does it: other roundings would give the
//! logits of another model at long contexts.

use qsf_format::RopeScaling;

/// Inverse frequencies, and what rotated values are multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeFrequencies {
    /// One per pair of values, in radians per position.
    pub inv_freq: Vec<f32>,
    /// Factor on rotated queries and keys; 1 for most.
    pub attention_factor: f32,
}

impl RopeFrequencies {
    /// Frequencies for `dims` rotated values per head and sequences of up to `context` positions, on which some scalings
    /// depend.
    ///
    /// # Panics
    /// When `dims` is 0 or odd, or a list of factors has another length than `dims / 2`.
    pub fn new(theta: f32, scaling: Option<&RopeScaling>, dims: usize, context: usize) -> RopeFrequencies {
        assert!(dims > 0 && dims.is_multiple_of(2), "{dims} values have no halves");
        let unscaled =
            |theta: f32| -> Vec<f32> { (0..dims / 2).map(|i| 1.0 / power(theta, i, dims)).collect() };
        let with_factors = |factors: &[f32]| -> Vec<f32> {
            assert_eq!(factors.len(), dims / 2, "one factor per frequency");
            factors.iter().enumerate().map(|(i, factor)| 1.0 / (factor * power(theta, i, dims))).collect()
        };
        let mut attention_factor = 1.0;
        let inv_freq = match scaling {
            None => unscaled(theta),
            Some(RopeScaling::Linear { factor }) => {
                unscaled(theta).iter().map(|freq| freq / factor).collect()
            }
            Some(scaling @ RopeScaling::Llama3 { .. }) => {
                unscaled(theta).iter().map(|&freq| llama3(freq, scaling)).collect()
            }
            Some(&RopeScaling::Dynamic { factor, original_positions }) => {
                unscaled(dynamic_theta(theta, factor, original_positions as usize, dims, context))
            }
            Some(scaling @ RopeScaling::Yarn { attention_factor: factor, .. }) => {
                attention_factor = *factor;
                yarn(theta, scaling, dims)
            }
            Some(RopeScaling::LongRope {
                original_positions,
                short_factors,
                long_factors,
                attention_factor: factor,
            }) => {
                attention_factor = *factor;
                let long = context > *original_positions as usize;
                with_factors(if long { long_factors } else { short_factors })
            }
            Some(RopeScaling::Factors { factors }) => {
                assert_eq!(factors.len(), dims / 2, "one factor per frequency");
                unscaled(theta).iter().zip(factors).map(|(freq, factor)| freq / factor).collect()
            }
        };
        RopeFrequencies { inv_freq, attention_factor }
    }
}

/// `theta^(2i / dims)`.
fn power(theta: f32, i: usize, dims: usize) -> f32 {
    let exponent = (2 * i) as f32 / dims as f32;
    libm::pow(f64::from(theta), f64::from(exponent)) as f32
}

fn llama3(freq: f32, scaling: &RopeScaling) -> f32 {
    let &RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } = scaling
    else {
        return freq;
    };
    let original = original_positions as f32;
    let wavelength = std::f32::consts::TAU / freq;
    if wavelength > original / low_freq_factor {
        freq / factor
    } else if wavelength < original / high_freq_factor {
        freq
    } else {
        let smooth = (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
        (1.0 - smooth) * freq / factor + smooth * freq
    }
}

/// The base that keeps the longest wave as long as the context is. It depends on the whole context from the start, where
/// `transformers` changes it while a sequence grows and leaves the keys that it has cached as they are.
fn dynamic_theta(theta: f32, factor: f32, original: usize, dims: usize, context: usize) -> f32 {
    if context <= original || dims <= 2 {
        return theta;
    }
    let (factor, dims) = (f64::from(factor), dims as f64);
    let stretch = factor * context as f64 / original as f64 - (factor - 1.0);
    (f64::from(theta) * libm::pow(stretch, dims / (dims - 2.0))) as f32
}

/// YaRN (arXiv 2309.00071, section 3.2 "NTK-by-parts").
fn yarn(theta: f32, scaling: &RopeScaling, dims: usize) -> Vec<f32> {
    let &RopeScaling::Yarn { factor, original_positions, beta_fast, beta_slow, truncate, .. } = scaling
    else {
        return Vec::new();
    };
    // The dimension whose wave makes so many rotations over the original context.
    let dimension_of = |rotations: f32| {
        let waves = f64::from(original_positions) / (f64::from(rotations) * std::f64::consts::TAU);
        dims as f64 * libm::log(waves) / (2.0 * libm::log(f64::from(theta)))
    };
    let (mut low, mut high) = (dimension_of(beta_fast), dimension_of(beta_slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let low = low.max(0.0) as f32;
    let mut high = high.min(dims as f64 - 1.0) as f32;
    if low == high {
        high += 0.001;
    }
    (0..dims / 2)
        .map(|i| {
            let power = power(theta, i, dims);
            let (extrapolated, interpolated) = (1.0 / power, 1.0 / (factor * power));
            let kept = 1.0 - ((i as f32 - low) / (high - low)).clamp(0.0, 1.0);
            interpolated * (1.0 - kept) + extrapolated * kept
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(theta: f32, scaling: Option<RopeScaling>, dims: usize, context: usize) -> Vec<f32> {
        RopeFrequencies::new(theta, scaling.as_ref(), dims, context).inv_freq
    }

    #[test]
    fn llama3_scaling_divides_long_waves_keeps_short_ones_and_ramps_between() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 8192,
        };
        let scaled = frequencies(500_000.0, Some(scaling), 128, 1);
        let plain = frequencies(500_000.0, None, 128, 1);
        let mut ramp = 0;
        for (scaled, plain) in scaled.iter().zip(&plain) {
            let wavelength = std::f64::consts::TAU / f64::from(*plain);
            if wavelength < 2048.0 {
                assert_eq!(scaled, plain);
            } else if wavelength > 8192.0 {
                assert_eq!(*scaled, plain / 8.0);
            } else {
                let smooth = (8192.0 / wavelength - 1.0) / 3.0;
                let exact = f64::from(*plain) * ((1.0 - smooth) / 8.0 + smooth);
                assert!((f64::from(*scaled) / exact - 1.0).abs() < 1e-6);
                ramp += 1;
            }
        }
        assert!(ramp > 0);
    }

    #[test]
    fn scalings_that_depend_on_the_context_leave_short_ones_alone() {
        let plain = frequencies(10_000.0, None, 64, 1);
        let dynamic = RopeScaling::Dynamic { factor: 2.0, original_positions: 128 };
        assert_eq!(frequencies(10_000.0, Some(dynamic.clone()), 64, 128), plain);
        let longer = frequencies(10_000.0, Some(dynamic), 64, 256);
        assert_eq!(longer[0], 1.0);
        // The base grows by (2 * 2 - 1)^(64 / 62), so the longest wave by that to the power of 62 / 64.
        assert!((plain[31] / longer[31] / 3.0 - 1.0).abs() < 1e-5);

        let long = RopeScaling::LongRope {
            original_positions: 128,
            short_factors: vec![1.0; 32],
            long_factors: (1..=32).map(|i| i as f32).collect(),
            attention_factor: 1.25,
        };
        assert_eq!(frequencies(10_000.0, Some(long.clone()), 64, 128), plain);
        let scaled = RopeFrequencies::new(10_000.0, Some(&long), 64, 129);
        assert!((plain[31] / scaled.inv_freq[31] / 32.0 - 1.0).abs() < 1e-6);
        assert_eq!(scaled.attention_factor, 1.25);
    }

    #[test]
    fn yarn_keeps_fast_waves_divides_slow_ones_and_ramps_between() {
        let yarn = RopeScaling::Yarn {
            factor: 4.0,
            original_positions: 4096,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.1,
            truncate: true,
        };
        let plain = frequencies(10_000.0, None, 128, 1);
        let scaled = frequencies(10_000.0, Some(yarn), 128, 1);
        for (i, (scaled, plain)) in scaled.iter().zip(&plain).enumerate() {
            // Rotations over 4096 positions: 4096 / wavelength.
            let rotations = 4096.0 * plain / std::f32::consts::TAU;
            match rotations {
                40.0.. => assert_eq!(scaled, plain, "{i}"),
                ..0.9 => assert!((plain / scaled / 4.0 - 1.0).abs() < 1e-6, "{i}"),
                _ => assert!(scaled <= plain && *scaled >= plain / 4.0, "{i}"),
            }
        }
    }

    #[test]
    fn factors_and_linear_scaling_divide_frequencies() {
        let plain = frequencies(10_000.0, None, 8, 1);
        let linear = frequencies(10_000.0, Some(RopeScaling::Linear { factor: 4.0 }), 8, 1);
        let factors = frequencies(10_000.0, Some(RopeScaling::Factors { factors: vec![4.0; 4] }), 8, 1);
        assert!(plain.iter().zip(&linear).all(|(plain, scaled)| *scaled == plain / 4.0));
        assert_eq!(linear, factors);
    }
}
