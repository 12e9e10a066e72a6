//! 8 bits: `d * q`, q in -127..=127.
//!
//! With 255 levels there is nothing to clip; what the search gains is a scale on which the largest values fall well, and
//! least squares (d = sum w x q / sum w q^2) over codes that belong to it.

use qsf_runtime::cpu::lanes::LANES;

use super::block::{Block, Codes, clamp, inverse, round, round_to_byte, total};
use super::half_scale::{ScaleOverflow, f16_spacing, round_to_f16};

/// Largest code.
const TOP: f32 = 127.0;

/// Codes that the largest magnitude is tried at, before clamping to 127.
const TRIAL_TOPS: [f32; 12] =
    [122.0, 123.0, 124.0, 125.0, 126.0, 126.5, 127.0, 127.4, 127.8, 128.2, 128.8, 129.5];

/// The best scale found, representable in binary16.
///
/// # Errors
/// When the largest magnitude needs a scale that binary16 cannot hold.
#[inline(always)]
pub(super) fn fit(block: &Block<'_>) -> Result<f32, ScaleOverflow> {
    let largest = block.largest();
    let plain = round_to_f16(largest / TOP);
    if !plain.is_finite() {
        return Err(ScaleOverflow);
    }
    let mut best = (error(block, plain), plain);
    for top in TRIAL_TOPS {
        keep_better(block, &mut best, least_squares(block, largest / top));
    }
    if plain < 1024.0 * f16_spacing(0.0) {
        // The spacing of binary16 is coarse here, and rounding may have passed over the best scale.
        let middle = best.1;
        for step in [-2.0, -1.0, 1.0, 2.0] {
            let scale = middle + step * f16_spacing(middle);
            keep_better(block, &mut best, if scale > 0.0 { round_to_f16(scale) } else { 0.0 });
        }
    }
    Ok(best.1)
}

/// Replaces `best`, an error and its scale, by `scale` if that has less.
#[inline(always)]
fn keep_better(block: &Block<'_>, best: &mut (f32, f32), scale: f32) {
    let error = error(block, scale);
    if scale.is_finite() && error < best.0 {
        *best = (error, scale);
    }
}

/// The codes of a block under `scale`, two's complement, 0 for fillers.
#[inline(always)]
pub(super) fn encode(block: &Block<'_>, scale: f32, codes: &mut Codes) {
    let inverse = inverse(scale);
    block.write_codes(codes, |x| round_to_byte(clamp(x * inverse, -TOP, TOP)));
}

#[inline(always)]
fn error(block: &Block<'_>, scale: f32) -> f32 {
    let inverse = inverse(scale);
    block.weighted_squares(|x| x - round(clamp(x * inverse, -TOP, TOP)) * scale)
}

/// The binary16 scale nearest to the least-squares scale for the codes that `start` gives; 0 when all codes are 0.
#[inline(always)]
fn least_squares(block: &Block<'_>, start: f32) -> f32 {
    let inverse = inverse(start);
    let mut sum_qq = [0.0; LANES];
    let mut sum_qx = [0.0; LANES];
    for (x, w) in block.lanes() {
        for i in 0..LANES {
            let q = round(clamp(x[i] * inverse, -TOP, TOP));
            let wq = w[i] * q;
            sum_qq[i] = wq.mul_add(q, sum_qq[i]);
            sum_qx[i] = wq.mul_add(x[i], sum_qx[i]);
        }
    }
    let qq = total(sum_qq);
    if qq > 0.0 { round_to_f16(total(sum_qx) / qq) } else { 0.0 }
}
