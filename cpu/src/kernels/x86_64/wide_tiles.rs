//! A pass of the wide product by a unit for tiles. While it multiplies a strip of tokens, the sums of the one before are scaled, a
//! part after each step, and a part of the next pair of panels is recoded: so both always have something to do.

use core::arch::x86_64::*;

use qsf_format::panels::PANEL_ROWS;

use super::tiles::Floats;
use super::wide::{Item, Pass, Results, Scratch, WideLoop, matmul};
use super::wide_units::{AmxWide, IntSums, PANELS, WideUnit};
use crate::int8x128_rows::{HALVES, Int8x128Rows, STEPS, Strip, TILE_ROWS, TILES};
use crate::kernels::panel::{PanelOut, PanelTask};

/// Parts that sums are cut into: a tile of tokens times a panel.
const PARTS: usize = TILES * PANELS;
/// Steps of a half of the columns.
const HALF: usize = STEPS / HALVES;
/// Parts that are scaled after each step, where the parts of a half are for the steps of one.
const AT_ONCE: usize = PARTS / HALF;

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
                let now_due = Due { tokens, of_rows: now.scales, strip, pair: item.pair, first, last };
                unit.clear();
                for step in 0..STEPS {
                    if step < steps {
                        unit.add(&tokens.codes[step], &now.codes[step]);
                    }
                    for part in step % HALF * AT_ONCE..(step % HALF + 1) * AT_ONCE {
                        // SAFETY: the caller's promises.
                        unsafe {
                            if step >= HALF {
                                scale_first_half(&now_due, part, &mut sums[0]);
                            } else if let Some(due) = &due {
                                add_second_half(pass, due, part, sums, results, out);
                            }
                        }
                    }
                    if step == HALF - 1 {
                        // SAFETY: the caller's promises.
                        unsafe { pass.recode::<Self, QUANT>(next_item, pass.parts(strip), next) };
                        unit.store(&mut sums[0]);
                        unit.clear();
                    }
                }
                unit.store(&mut sums[1]);
                due = Some(now_due);
            }
            std::mem::swap(&mut now, &mut next);
            item = next_item;
        }
        if let Some(due) = &due {
            // SAFETY: the caller's promises.
            (0..PARTS).for_each(|part| unsafe { add_second_half(pass, due, part, sums, results, out) });
        }
    }
}

/// Replaces part `part` of the sums of the first half by floats: times the scales of tokens.
///
/// # Safety
/// To be called from a function compiled with AVX-512.
#[inline(always)]
unsafe fn scale_first_half(due: &Due<'_>, part: usize, sums: &mut IntSums) {
    let (tile, panel) = (part / PANELS, part % PANELS);
    let sums = &mut sums.0[tile][panel].0;
    let of_tokens = &due.tokens.scales[0][tile * TILE_ROWS..][..TILE_ROWS];
    for token in 0..TILE_ROWS {
        // SAFETY: the caller's promise; all is 64 bytes.
        unsafe {
            let floats = _mm512_mul_ps(floats(&sums[token]), _mm512_set1_ps(of_tokens[token]));
            _mm512_storeu_si512(sums[token].as_mut_ptr().cast(), _mm512_castps_si512(floats));
        }
    }
}

/// Adds part `part` of the sums of the second half to that of the first, and both to results with the scales of rows. Those of the
/// last group go to where they are wanted: so that is done while the unit is busy too.
///
/// # Safety
/// As for [`matmul`].
#[inline(always)]
unsafe fn add_second_half(
    pass: &Pass<'_>,
    due: &Due<'_>,
    part: usize,
    sums: &[IntSums; HALVES],
    results: &mut [Results],
    out: PanelOut,
) {
    let (tile, panel) = (part / PANELS, part % PANELS);
    let [halves, sums] = sums.each_ref().map(|sums| &sums.0[tile][panel].0);
    let of_tokens = &due.tokens.scales[1][tile * TILE_ROWS..][..TILE_ROWS];
    let results = &mut results[due.pair * pass.strips() + due.strip].0[tile][panel];
    // SAFETY: 16 floats.
    let of_rows = unsafe { _mm512_loadu_ps(due.of_rows[panel].0.as_ptr()) };
    let (first, rest) = pass.first_token(due.strip);
    let (first, rest) = (first + tile * TILE_ROWS, rest.saturating_sub(tile * TILE_ROWS));
    let panel = pass.panels.start + due.pair * PANELS + panel;
    // By numbers: iterators over several arrays are not always compiled into this function.
    let tokens = match due.last {
        false => TILE_ROWS,
        true if panel < pass.panels.end => rest.min(TILE_ROWS),
        true => 0,
    };
    for token in 0..tokens {
        // SAFETY: the caller's promise: there is room for the results of every token and panel; all is 64 bytes.
        unsafe {
            let half = _mm512_loadu_ps(halves[token].as_ptr().cast());
            let both = _mm512_fmadd_ps(floats(&sums[token]), _mm512_set1_ps(of_tokens[token]), half);
            let before =
                if due.first { _mm512_setzero_ps() } else { _mm512_loadu_ps(results[token].as_ptr()) };
            let result = _mm512_fmadd_ps(both, of_rows, before);
            if due.last {
                let out = out.start.add((first + token) * out.stride + PANEL_ROWS * panel);
                _mm512_storeu_ps(out, result);
            } else {
                _mm512_storeu_ps(results[token].as_mut_ptr(), result);
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
