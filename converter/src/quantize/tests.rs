//! What a user would notice if a quantizer broke: larger errors, other bytes on another processor, bytes that a strict
//! reader refuses.

/// In a match over all types: those that have no blocks with scales of their own. They are named, so that the compiler asks for
/// a new type wherever these tests say something of each.
macro_rules! without_own_blocks {
    () => {
        QuantType::F16
            | QuantType::F32
            | QuantType::Bf16
            | QuantType::N2
            | QuantType::N3
            | QuantType::N4
            | QuantType::N5
            | QuantType::Q6
            | QuantType::T2
            | QuantType::T3
            | QuantType::X2
            | QuantType::X3
            | QuantType::X4
    };
}

mod bytes;
mod edge_cases;
mod feedback;
mod quality;

use half::f16;
use qsf_format::{BUILT_IN, BlockSize, QuantType, decode_row};
use qsf_runtime::cpu::Isa;

use super::*;

/// The types that have blocks with scales of their own.
fn block_types() -> impl Iterator<Item = QuantType> {
    QuantType::ALL.into_iter().filter(|quant| !quant.is_float() && !quant.is_learned())
}

/// Stored bytes of one row.
fn quantize(
    quant: QuantType,
    block: BlockSize,
    values: &[f32],
    importance: Option<&[f32]>,
) -> Result<Vec<u8>, ScaleOverflow> {
    let mut out = vec![0xA5; quant.row_bytes(block, values.len() as u64).unwrap() as usize];
    quantize_rows(Isa::best(), quant, block, values.len(), values, importance, &mut out)?;
    Ok(out)
}

/// What a reader gets back for one row.
fn round_trip(quant: QuantType, block: BlockSize, values: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let bytes = quantize(quant, block, values, importance).unwrap();
    let mut out = vec![f32::NAN; values.len()];
    decode_row(quant, block, &BUILT_IN, &bytes, &mut out);
    out
}

/// Sum of weight * (a - b)^2.
fn squares(a: &[f32], b: &[f32], weight: impl Fn(usize) -> f32) -> f64 {
    let term =
        |(i, (a, b)): (usize, (&f32, &f32))| f64::from(weight(i)) * (f64::from(*a) - f64::from(*b)).powi(2);
    a.iter().zip(b).enumerate().map(term).sum()
}

/// Norm of the difference over norm of the original.
fn relative_error(original: &[f32], decoded: &[f32]) -> f64 {
    let zeros = vec![0.0; original.len()];
    (squares(original, decoded, |_| 1.0) / squares(original, &zeros, |_| 1.0)).sqrt()
}

/// What the usual one-shot quantizer makes of a row: the scale from the extremes (from the mean magnitude for ternary,
/// as arXiv 2402.17764 does), each value to the nearest level.
fn plain(quant: QuantType, block: BlockSize, values: &[f32]) -> Vec<f32> {
    let half = |v: f32| f16::from_f32(v).to_f32();
    let affine = |block: &[f32], top: f32| -> Vec<f32> {
        let (low, high) = block.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        let (scale, min) = (half((high - low) / top), half(low));
        let code = |v: f32| if scale == 0.0 { 0.0 } else { ((v - min) / scale).round().clamp(0.0, top) };
        block.iter().map(|&v| scale * code(v) + min).collect()
    };
    let symmetric = |block: &[f32], scale: f32, levels: &[f32]| -> Vec<f32> {
        let nearest = |v: f32| {
            let distance = |l: &&f32| (v - scale * **l).abs();
            scale * levels.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
        };
        block.iter().map(|&v| nearest(v)).collect()
    };
    let largest = |block: &[f32]| block.iter().fold(0.0f32, |a, v| a.max(v.abs()));
    let mean = |block: &[f32]| block.iter().map(|v| v.abs()).sum::<f32>() / block.len() as f32;
    let eight: Vec<f32> = (-127..=127).map(|q| q as f32).collect();
    values
        .chunks(block.get())
        .flat_map(|block| match quant {
            QuantType::Q2 => affine(block, 3.0),
            QuantType::Q3 => affine(block, 7.0),
            QuantType::Q4 => affine(block, 15.0),
            QuantType::Q2Sym => symmetric(block, half(largest(block) / 3.0), &[-3.0, -1.0, 1.0, 3.0]),
            QuantType::Ternary => symmetric(block, half(mean(block)), &[-1.0, 0.0, 1.0]),
            QuantType::Q8 => symmetric(block, half(largest(block) / 127.0), &eight),
            without_own_blocks!() => unreachable!("no blocks of its own"),
        })
        .collect()
}

/// Numbers of a fixed pseudo-random sequence (SplitMix64), for tests that need many values of one distribution.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box-Muller, mean 0 and variance 1.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn gaussian(&mut self, n: usize, deviation: f64) -> Vec<f32> {
        (0..n).map(|_| (self.normal() * deviation) as f32).collect()
    }
}
