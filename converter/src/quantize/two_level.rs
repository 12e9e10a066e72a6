//! Ternary `d * {-1, 0, 1}` and symmetric 2-bit `d * {-3, -1, 1, 3}`: two magnitudes, and the sign of the value.
//!
//! For any scale the nearest level depends on the magnitude alone, weights or not: the largest magnitudes take the outer
//! level, the others the inner. So the optimum is among as many choices as there are values, and one pass over the
//! sorted magnitudes finds it: with the outer level on the first k, d = sum w a l / sum w l^2 lowers the error by
//! (sum w a l)^2 / sum w l^2, a the magnitude and l its level. (Ternary Weight Networks, arXiv 1605.04711, state this
//! objective and approximate it by a threshold of 0.7 of the mean.)

use super::block::{Block, Codes};
use super::half_scale::{ScaleOverflow, f16_spacing, round_to_f16};
use qsf_runtime::cpu::lanes::LANES;

/// The two magnitudes in units of the scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    inner: f32,
    outer: f32,
}

impl Levels {
    /// 0 and 1.
    pub(super) const TERNARY: Levels = Levels { inner: 0.0, outer: 1.0 };
    /// 1 and 3.
    pub(super) const SYMMETRIC: Levels = Levels { inner: 1.0, outer: 3.0 };

    /// The magnitude halfway between the levels.
    #[inline(always)]
    fn threshold(self, scale: f32) -> f32 {
        0.5 * (self.inner + self.outer) * scale
    }
}

/// The best scale, rounded to binary16; 0 or more: the levels are symmetric, so a negative one would gain nothing.
///
/// # Errors
/// When the best scale leaves the range of binary16.
#[inline(always)]
pub(super) fn fit(block: &Block<'_>, levels: Levels) -> Result<f32, ScaleOverflow> {
    let scale = round_to_f16(exact_scale(block, levels) as f32);
    if !scale.is_finite() {
        return Err(ScaleOverflow);
    }
    if scale >= 1024.0 * f16_spacing(0.0) {
        return Ok(scale);
    }
    // Neighbours in binary16 are far apart here, and another choice of codes may fit one of them better.
    let mut best = (error(block, levels, scale), scale);
    for step in [-2.0, -1.0, 1.0, 2.0] {
        let scale = round_to_f16((scale + step * f16_spacing(scale)).max(0.0));
        let error = error(block, levels, scale);
        if error < best.0 {
            best = (error, scale);
        }
    }
    Ok(best.1)
}

/// The scale of the optimum before rounding. Sums run in `f64` from the largest magnitude down, one after the other: an
/// order that no instruction set changes.
#[inline(always)]
fn exact_scale(block: &Block<'_>, levels: Levels) -> f64 {
    let mut sorted = [0u64; 256];
    let sorted = &mut sorted[..block.values.len() * LANES];
    for (i, (key, x)) in sorted.iter_mut().zip(block.values.as_flattened()).enumerate() {
        // Magnitudes of floats compare like their bits; the index below makes the order total.
        *key = (u64::from(!x.abs().to_bits()) << 32) | i as u64;
    }
    sorted.sort_unstable();

    let (inner, outer) = (f64::from(levels.inner), f64::from(levels.outer));
    let (mut product, mut square) = (0.0f64, 0.0f64); // of all at the inner level
    for (x, w) in block.lanes() {
        for i in 0..LANES {
            product += f64::from(w[i]) * f64::from(x[i].abs()) * inner;
            square += f64::from(w[i]) * inner * inner;
        }
    }
    let weights = block.weights.as_flattened();
    let (mut best_product, mut best_square) = (product, if square > 0.0 { square } else { 1.0 });
    for &key in &*sorted {
        let magnitude = f64::from(f32::from_bits(!(key >> 32) as u32));
        let weight = f64::from(weights[key as u8 as usize]);
        product += weight * magnitude * (outer - inner);
        square += weight * (outer * outer - inner * inner);
        // product^2 / square above the best, without dividing; fillers and zero weights change neither side.
        if product * product * best_square > best_product * best_product * square {
            (best_product, best_square) = (product, square);
        }
    }
    best_product / best_square
}

#[inline(always)]
fn error(block: &Block<'_>, levels: Levels, scale: f32) -> f32 {
    let threshold = levels.threshold(scale);
    let (inner, outer) = (levels.inner * scale, levels.outer * scale);
    block.weighted_squares(|x| x.abs() - if x.abs() > threshold { outer } else { inner })
}

/// Ternary codes: bit 0 is the sign plane (1 = negative), bit 1 the zero plane; 0 for fillers.
#[inline(always)]
pub(super) fn encode_ternary(block: &Block<'_>, scale: f32, codes: &mut Codes) {
    let threshold = Levels::TERNARY.threshold(scale);
    // A scale of 0 puts every value, zeros included, in the zero plane.
    block.write_codes(codes, |x| if x.abs() <= threshold || scale == 0.0 { 0b10 } else { u8::from(x < 0.0) });
}

/// Symmetric 2-bit codes, 0 for fillers.
#[inline(always)]
pub(super) fn encode_symmetric(block: &Block<'_>, scale: f32, codes: &mut Codes) {
    let threshold = Levels::SYMMETRIC.threshold(scale);
    block.write_codes(codes, |x| {
        let outer = u8::from(x.abs() > threshold);
        if x < 0.0 { 1 - outer } else { 2 + outer }
    });
}
