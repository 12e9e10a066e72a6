//! The (scale, min) types, 2, 3 and 4 bits: `scale * q + min` with both in binary16.
//!
//! Search, not min/max: the outermost values of a block are worth clipping when that makes the step of all others finer.
//! Each trial clips the ends of the range by some fraction, rounds, solves the weighted least squares for scale and min
//! with the codes held (as llama.cpp's `make_qkx2_quants` does, ggml-quants.c), rounds both to binary16, and is then
//! judged by what a decoder would make of it. The trial of no clipping at all takes part, so no block is worse for the
//! search; alternating fit and rounding from the best trial finds the local optimum (Lloyd, IEEE Trans. Inf. Theory
//! 28(2), 1982).

use qsf_runtime::cpu::lanes::LANES;

use super::block::{Block, Codes, clamp, inverse, round, round_to_byte, total};
use super::half_scale::{ScaleOverflow, f16_spacing, round_to_f16};

/// Fits from the best trial that are tried at most.
const ALTERNATIONS: usize = 4;

/// Steps between binary16 neighbours that are tried at most.
const NEIGHBOUR_STEPS: usize = 16;

/// Scale and min of a block; what [`fit`] returns is representable in binary16.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScaleAndMin {
    /// Distance between two levels, 0 or more.
    pub scale: f32,
    /// Value of code 0.
    pub min: f32,
}

/// A grid and the weighted squared error of the block under it.
#[derive(Clone, Copy)]
struct Scored {
    grid: ScaleAndMin,
    error: f32,
}

/// Fractions of a block's range to cut off at either end. Chosen on Gaussian and heavier-tailed blocks of 64 and 256:
/// fewer levels want more clipping, and with 16 levels reaching slightly beyond the range pays as often as clipping does.
/// Ten fractions instead of five, at four times the work, lower the error by another 0.1 to 0.35 %.
const fn clips<const TOP: usize>() -> &'static [f32] {
    match TOP {
        3 => &[0.0, 0.08, 0.16, 0.24, 0.32],
        7 => &[0.0, 0.04, 0.08, 0.13, 0.19],
        _ => &[-0.015, 0.0, 0.02, 0.045, 0.08],
    }
}

/// The best grid found for codes `0..=TOP`.
///
/// # Errors
/// When the range of the block needs a scale or min that binary16 cannot hold.
#[inline(always)]
pub(super) fn fit<const TOP: usize>(block: &Block<'_>) -> Result<ScaleAndMin, ScaleOverflow> {
    let (low, high) = block.range();
    let range = high - low;
    let plain = ScaleAndMin { scale: range / TOP as f32, min: low }.rounded().ok_or(ScaleOverflow)?;
    if range == 0.0 {
        return Ok(plain);
    }
    let fitter = Fitter::<TOP>::new(block, low);
    let mut best = fitter.score(plain);
    for &clip_low in clips::<TOP>() {
        for &clip_high in clips::<TOP>() {
            let scale = range * (1.0 - clip_low - clip_high) / TOP as f32;
            fitter.improve(&mut best, ScaleAndMin { scale, min: low + clip_low * range });
        }
    }
    for _ in 0..ALTERNATIONS {
        let start = best.grid;
        if !fitter.improve(&mut best, start) {
            break;
        }
    }
    if best.grid.is_coarse() {
        fitter.search_neighbours(&mut best);
    }
    Ok(best.grid)
}

/// The codes of a block under `grid`, 0 for fillers.
#[inline(always)]
pub(super) fn encode<const TOP: usize>(block: &Block<'_>, grid: ScaleAndMin, codes: &mut Codes) {
    let inverse = inverse(grid.scale);
    block.write_codes(codes, |x| round_to_byte(clamp((x - grid.min) * inverse, 0.0, TOP as f32)));
}

impl ScaleAndMin {
    /// Both numbers rounded to binary16; `None` when one leaves its range.
    #[inline(always)]
    fn rounded(self) -> Option<ScaleAndMin> {
        let grid = ScaleAndMin { scale: round_to_f16(self.scale), min: round_to_f16(self.min) };
        (grid.scale.is_finite() && grid.min.is_finite()).then_some(grid)
    }

    /// Whether the spacing of binary16 is no longer fine beside the step, so that its neighbours differ visibly: tiny
    /// scales, and offsets much larger than the range.
    #[inline(always)]
    fn is_coarse(self) -> bool {
        self.scale < 1024.0 * f16_spacing(0.0) || f16_spacing(self.min) > 0.25 * self.scale
    }
}

/// A block with the sums that no choice of codes changes.
struct Fitter<'a, const TOP: usize> {
    block: &'a Block<'a>,
    /// Subtracted before products are summed, lest an offset larger than the range eats the digits.
    origin: f32,
    weight: f32,
    weighted: f32,
}

impl<'a, const TOP: usize> Fitter<'a, TOP> {
    #[inline(always)]
    fn new(block: &'a Block<'a>, origin: f32) -> Self {
        let mut weight = [0.0; LANES];
        let mut weighted = [0.0; LANES];
        for (x, w) in block.lanes() {
            for i in 0..LANES {
                weight[i] += w[i];
                weighted[i] = w[i].mul_add(x[i] - origin, weighted[i]);
            }
        }
        Fitter { block, origin, weight: total(weight), weighted: total(weighted) }
    }

    /// The error that a decoder would see. `scale * q` has at most 15 significant bits, so the fused product and sum
    /// here is the decoder's value to the bit.
    #[inline(always)]
    fn score(&self, grid: ScaleAndMin) -> Scored {
        let inverse = inverse(grid.scale);
        let error = self.block.weighted_squares(|x| {
            let q = round(clamp((x - grid.min) * inverse, 0.0, TOP as f32));
            x - q.mul_add(grid.scale, grid.min)
        });
        Scored { grid, error }
    }

    /// Replaces `best` by the least-squares fit to the codes that `start` gives, if that is better.
    #[inline(always)]
    fn improve(&self, best: &mut Scored, start: ScaleAndMin) -> bool {
        self.least_squares(start).is_some_and(|grid| self.keep_better(best, grid))
    }

    #[inline(always)]
    fn keep_better(&self, best: &mut Scored, grid: ScaleAndMin) -> bool {
        let scored = self.score(grid);
        let better = scored.error < best.error;
        if better {
            *best = scored;
        }
        better
    }

    /// Minimises `sum w (x - scale * q - min)^2` for the codes q of `start`: first over both, then, with min rounded,
    /// over scale alone, which takes up what the rounding of min left.
    #[inline(always)]
    fn least_squares(&self, start: ScaleAndMin) -> Option<ScaleAndMin> {
        let inverse = inverse(start.scale);
        let mut sum_q = [0.0; LANES];
        let mut sum_qq = [0.0; LANES];
        let mut sum_qx = [0.0; LANES];
        for (x, w) in self.block.lanes() {
            for i in 0..LANES {
                let q = round(clamp((x[i] - start.min) * inverse, 0.0, TOP as f32));
                let wq = w[i] * q;
                sum_q[i] += wq;
                sum_qq[i] = wq.mul_add(q, sum_qq[i]);
                sum_qx[i] = wq.mul_add(x[i] - self.origin, sum_qx[i]);
            }
        }
        let (q, qq, qx) = (total(sum_q), total(sum_qq), total(sum_qx));
        let determinant = self.weight * qq - q * q;
        if determinant <= 0.0 {
            // All weight on one code, as where one column carries all importance: no slope to fit, only a shift.
            let shift = (self.weighted - start.scale * q) / self.weight;
            return ScaleAndMin { scale: start.scale, min: self.origin + shift }.rounded();
        }
        let min = round_to_f16(self.origin + (self.weighted * qq - qx * q) / determinant);
        let scale = (qx - (min - self.origin) * q) / qq;
        ScaleAndMin { scale: if scale > 0.0 { scale } else { 0.0 }, min }.rounded()
    }

    /// Walks to better binary16 neighbours until there is none.
    #[inline(always)]
    fn search_neighbours(&self, best: &mut Scored) {
        for _ in 0..NEIGHBOUR_STEPS {
            let ScaleAndMin { scale, min } = best.grid;
            let (scale_step, min_step) = (f16_spacing(scale), f16_spacing(min));
            let mut better = false;
            for neighbour in 0..9 {
                let scale = scale + (neighbour % 3 - 1) as f32 * scale_step;
                let min = min + (neighbour / 3 - 1) as f32 * min_step;
                if scale >= 0.0
                    && let Some(grid) = (ScaleAndMin { scale, min }).rounded()
                {
                    better |= self.keep_better(best, grid);
                }
            }
            if !better {
                break;
            }
        }
    }
}
