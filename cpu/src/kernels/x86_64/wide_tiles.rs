//! A pass of the wide product by a unit for tiles. Beside the products of the first half of a strip of tokens the sums of the strip
//! before are scaled, a few tokens after each product; beside those of the second half a part of the next pair of panels is recoded.
//!
//! While the unit is busy, Emerald Rapids starts one vector instruction a cycle, not two. So both halves of a token are scaled at once,
//! in registers. And as little as possible of the nearest cache is touched: there is one page of sums for each half.

use core::arch::x86_64::*;

use qsf_format::panels::PANEL_ROWS;

use super::tiles::Floats;
use super::wide::{Item, Pass, Results, Scratch, WideLoop, matmul};
use super::wide_units::{AmxWide, IntSums, PANELS, PRODUCTS, WideUnit};
use crate::int8x128_rows::{HALVES, Int8x128Rows, STEPS, STRIP_ROWS, Strip, TILE_ROWS};
use crate::kernels::panel::{PanelOut, PanelTask};

/// Steps of a half of the columns.
const HALF: usize = STEPS / HALVES;
/// Tokens that are scaled after each product of the first half.
const AT_ONCE: usize = STRIP_ROWS / (HALF * PRODUCTS);

/// A pass by `U`.
pub(super) struct ByTiles<U>(U);

/// Sums that wait, and what is done with them.
#[derive(Clone, Copy)]
struct Due<'a> {
    tokens: &'a Strip,
    of_rows: [Floats; PANELS],
    strip: usize,
    pair: usize,
    first: bool,
    last: bool,
}

/// `$body` for each of the numbers as the constant `$name`: a loop would not always be unrolled.
macro_rules! each {
    ($name:ident in $($number:literal)* => $body:expr) => {{
        $({
            const $name: usize = $number;
            $body
        })*
    }};
}

const _: () = assert!(HALF == 2 && STEPS == 4 && PRODUCTS == 4);

/// The product by tiles for the type with the id `QUANT`. Takes all tokens of the input.
///
/// # Safety
/// As for [`matmul`]; [`tiles_allowed`](crate::tile_permission::tiles_allowed) must have allowed tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul_amx<const QUANT: u8>(task: &PanelTask<'_, Int8x128Rows>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { matmul::<ByTiles<AmxWide>, QUANT>(task, out) }
}

impl<U: WideUnit> WideLoop for ByTiles<U> {
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn new() -> ByTiles<U> {
        // SAFETY: the caller's promise.
        ByTiles(unsafe { U::new() })
    }

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<const QUANT: u8>(&mut self, pass: &Pass<'_>, scratch: &mut Scratch, out: PanelOut) {
        let unit = &mut self.0;
        let (wide, pairs) = (pass.wide_groups(), pass.pairs());
        let Scratch { weights, sums, results } = scratch;
        let [mut now, mut next] = weights.each_mut();
        let mut item = Item::FIRST;
        // SAFETY: the caller's promises.
        unsafe { pass.recode_first::<Self, QUANT>(now) };
        let mut due: Option<Due<'_>> = None;
        while item.wide < wide {
            let next_item = item.next(pairs);
            let steps = pass.steps(item.wide);
            for (strip, tokens) in pass.tokens(item.wide).iter().enumerate() {
                let (first, last) = (item.wide == 0, item.wide + 1 == wide);
                unit.clear();
                each!(STEP in 0 1 => each!(PRODUCT in 0 1 2 3 => {
                    if STEP < steps {
                        unit.add::<PRODUCT>(&tokens.codes[STEP], &now.codes[STEP]);
                    }
                    if let Some(due) = &due {
                        const FIRST: usize = (STEP * PRODUCTS + PRODUCT) * AT_ONCE;
                        // SAFETY: the caller's promises.
                        unsafe { scale_tokens::<FIRST, AT_ONCE>(pass, due, sums, results, out) };
                    }
                }));
                unit.store(&mut sums[0]);
                unit.clear();
                each!(STEP in 2 3 => {
                    if STEP < steps {
                        each!(PRODUCT in 0 1 2 3 => unit.add::<PRODUCT>(&tokens.codes[STEP], &now.codes[STEP]));
                    }
                    if STEP == HALF {
                        // SAFETY: the caller's promises.
                        unsafe { pass.recode::<Self, QUANT>(next_item, pass.parts(strip), next) };
                    }
                });
                if last {
                    fetch_out(pass, strip, item.pair, out);
                }
                unit.store(&mut sums[1]);
                due = Some(Due { tokens, of_rows: now.scales, strip, pair: item.pair, first, last });
            }
            std::mem::swap(&mut now, &mut next);
            item = next_item;
        }
        if let Some(due) = &due {
            // SAFETY: the caller's promises.
            unsafe { scale_strip(pass, due, sums, results, out) };
        }
    }
}

/// Has the processor fetch where the results of a strip go: they are wanted there when the next strip is at work.
#[inline(always)]
fn fetch_out(pass: &Pass<'_>, strip: usize, pair: usize, out: PanelOut) {
    let row = PANEL_ROWS * (pass.panels.start + pair * PANELS);
    let first = out.start.wrapping_add(pass.first_token(strip).0 * out.stride + row);
    for token in 0..STRIP_ROWS {
        for panel in 0..PANELS {
            let line = first.wrapping_add(token * out.stride + PANEL_ROWS * panel);
            // SAFETY: nothing is read, wherever that is.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast()) };
        }
    }
}

/// [`scale_tokens`] of all tokens. A function of its own, as it is called once only.
///
/// # Safety
/// As for [`matmul`].
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn scale_strip(
    pass: &Pass<'_>,
    due: &Due<'_>,
    sums: &[IntSums; HALVES],
    results: &mut [Results],
    out: PanelOut,
) {
    // SAFETY: the caller's promises.
    unsafe {
        scale_tokens::<0, TILE_ROWS>(pass, due, sums, results, out);
        scale_tokens::<TILE_ROWS, TILE_ROWS>(pass, due, sums, results, out);
    }
}

/// Scales the sums of `COUNT` tokens of a tile from token `FIRST` of the strip on, and adds them to results. Those of the last group
/// go to where they are wanted: so that is done while the unit is busy too.
///
/// # Safety
/// As for [`matmul`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "one index for the panels of several arrays")]
unsafe fn scale_tokens<const FIRST: usize, const COUNT: usize>(
    pass: &Pass<'_>,
    due: &Due<'_>,
    sums: &[IntSums; HALVES],
    results: &mut [Results],
    out: PanelOut,
) {
    let tile = FIRST / TILE_ROWS;
    let results = &mut results[due.pair * pass.strips() + due.strip].0[tile];
    let (first, rest) = pass.first_token(due.strip);
    let panel = pass.panels.start + due.pair * PANELS;
    // By numbers: iterators and maps over arrays are not always compiled into this function, and a call costs half of the speed.
    for token in FIRST..FIRST + COUNT {
        let line = token % TILE_ROWS;
        // SAFETY: the caller's promise: there is room for the results of every token and panel; all is 64 bytes.
        unsafe {
            let (scale_a, scale_b) =
                (_mm512_set1_ps(due.tokens.scales[0][token]), _mm512_set1_ps(due.tokens.scales[1][token]));
            for p in 0..PANELS {
                let (a, b) = (floats(&sums[0].0[tile][p].0[line]), floats(&sums[1].0[tile][p].0[line]));
                let both = _mm512_fmadd_ps(b, scale_b, _mm512_mul_ps(a, scale_a));
                let result = results[p][line].as_mut_ptr();
                let before = if due.first { _mm512_setzero_ps() } else { _mm512_loadu_ps(result) };
                let sum = _mm512_fmadd_ps(both, _mm512_loadu_ps(due.of_rows[p].0.as_ptr()), before);
                if !due.last {
                    _mm512_storeu_ps(result, sum);
                } else if token < rest && panel + p < pass.panels.end {
                    let to = (first + token) * out.stride + PANEL_ROWS * (panel + p);
                    _mm512_storeu_ps(out.start.add(to), sum);
                }
            }
        }
    }
}

/// Sums as floats.
///
/// # Safety
/// To be called from a function compiled with AVX-512.
#[inline(always)]
unsafe fn floats(sums: &[i32; PANEL_ROWS]) -> __m512 {
    // SAFETY: the caller's promise; 64 bytes.
    unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(sums.as_ptr().cast())) }
}
