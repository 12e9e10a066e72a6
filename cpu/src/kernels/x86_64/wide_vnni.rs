//! A pass of the wide product by the instructions of AVX-512 VNNI: eight tokens times two panels, whose sums stay in registers over
//! 128 columns. So a line of weights is loaded once for eight products, and the codes of a token for two.

use core::arch::x86_64::*;

use qsf_format::panels::PANEL_ROWS;

use super::batch::opaque;
use super::wide::{Item, Pass, Results, Scratch, WideLoop, matmul};
use super::wide_units::{PANELS, Weights};
use crate::int8x128_rows::{HALVES, Int8x128Rows, STEPS, STRIP_ROWS, Strip, TILE_ROWS, Tile};
use crate::kernels::panel::{PanelOut, PanelTask};

/// Tokens that are multiplied at a time.
const TOKENS: usize = 8;
/// Steps of a half of the columns.
const HALF: usize = STEPS / HALVES;

/// A pass by registers.
pub(super) struct ByRegisters(());

/// Sums, or what they became, of some tokens and a pair of panels.
type Of<T> = [[T; PANELS]; TOKENS];

/// The product by registers for the type with the id `QUANT`. Takes all tokens of the input.
///
/// # Safety
/// As for [`matmul`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul_vnni<const QUANT: u8>(task: &PanelTask<'_, Int8x128Rows>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { matmul::<ByRegisters, QUANT>(task, out) }
}

impl WideLoop for ByRegisters {
    const UNSIGNED: bool = true;

    #[inline(always)]
    unsafe fn new() -> ByRegisters {
        ByRegisters(())
    }

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<const QUANT: u8>(&mut self, pass: &Pass<'_>, scratch: &mut Scratch, out: PanelOut) {
        let (wide, pairs) = (pass.wide_groups(), pass.pairs());
        let Scratch { weights, results, .. } = scratch;
        let [mut now, mut next] = weights.each_mut();
        let mut item = Item::FIRST;
        // SAFETY: the caller's promises.
        unsafe { pass.recode_first::<Self, QUANT>(now) };
        while item.wide < wide {
            let next_item = item.next(pairs);
            for strip in 0..pass.strips() {
                // SAFETY: the caller's promises.
                unsafe {
                    pass.recode::<Self, QUANT>(next_item, pass.parts(strip), next);
                    let results = &mut results[item.pair * pass.strips() + strip];
                    multiply(pass, item, strip, now, results, out);
                }
            }
            std::mem::swap(&mut now, &mut next);
            item = next_item;
        }
    }
}

/// Adds the products of strip `strip` with an item to results, or with what is there already to `out` where it is the last group.
///
/// # Safety
/// As for [`matmul`].
#[inline(always)]
unsafe fn multiply(
    pass: &Pass<'_>,
    item: Item,
    strip: usize,
    weights: &Weights,
    results: &mut Results,
    out: PanelOut,
) {
    let tokens = &pass.tokens(item.wide)[strip];
    let steps = pass.steps(item.wide);
    let (first_token, rest) = pass.first_token(strip);
    let (first, last) = (item.wide == 0, item.wide + 1 == pass.wide_groups());
    let panel = pass.panels.start + item.pair * PANELS;
    for token in (0..rest.min(STRIP_ROWS)).step_by(TOKENS) {
        // SAFETY: the caller's promises; vectors are 64 bytes.
        unsafe {
            let mut sums = half(tokens, weights, token, 0, steps.min(HALF));
            let mut floats = [[_mm512_setzero_ps(); PANELS]; TOKENS];
            for t in 0..TOKENS {
                let of_token = _mm512_set1_ps(tokens.scales[0][token + t]);
                for p in 0..PANELS {
                    floats[t][p] = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[t][p]), of_token);
                }
            }
            sums = half(tokens, weights, token, 1, steps.saturating_sub(HALF));
            let results = &mut results.0[token / TILE_ROWS];
            for t in 0..TOKENS {
                let of_token = _mm512_set1_ps(tokens.scales[1][token + t]);
                for p in 0..PANELS {
                    let both = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][p]), of_token, floats[t][p]);
                    let of_rows = _mm512_loadu_ps(weights.scales[p].0.as_ptr());
                    let result = results[p][token % TILE_ROWS + t].as_mut_ptr();
                    let before = if first { _mm512_setzero_ps() } else { _mm512_loadu_ps(result) };
                    let sum = _mm512_fmadd_ps(both, of_rows, before);
                    if !last {
                        _mm512_storeu_ps(result, sum);
                    } else if token + t < rest && panel + p < pass.panels.end {
                        let to = (first_token + token + t) * out.stride + PANEL_ROWS * (panel + p);
                        _mm512_storeu_ps(out.start.add(to), sum);
                    }
                }
            }
        }
    }
}

/// Sums over half `half` of the columns, of which `steps` steps are there, of the tokens from `token` on.
///
/// # Safety
/// To be called from a function compiled with AVX-512 VNNI.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
unsafe fn half(tokens: &Strip, weights: &Weights, token: usize, half: usize, steps: usize) -> Of<__m512i> {
    // SAFETY: the caller's promise; vectors are 64 bytes, and a line of every tile of a step has so many.
    unsafe {
        let mut sums = [[_mm512_setzero_si512(); PANELS]; TOKENS];
        for t in 0..TOKENS {
            sums[t] = [_mm512_set1_epi32(tokens.starts[half][token + t]); PANELS];
        }
        for step in half * HALF..half * HALF + steps {
            let codes = tokens.codes[step][token / TILE_ROWS].0[token % TILE_ROWS].as_ptr();
            let mut lines = weights.codes[step][0].0.as_ptr();
            let (end, mut codes) = (opaque(lines.add(TILE_ROWS)), codes.cast::<i32>());
            while lines != end {
                let of_panels: [__m512i; PANELS] = [
                    _mm512_loadu_si512(lines.cast()),
                    _mm512_loadu_si512(lines.byte_add(size_of::<Tile>()).cast()),
                ];
                for t in 0..TOKENS {
                    let of_token =
                        _mm512_set1_epi32(codes.byte_add(t * size_of::<[i8; 64]>()).read_unaligned());
                    for p in 0..PANELS {
                        sums[t][p] = _mm512_dpbusd_epi32(sums[t][p], of_panels[p], of_token);
                    }
                }
                (lines, codes) = (lines.add(1), codes.add(1));
            }
        }
        sums
    }
}
