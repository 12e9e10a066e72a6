//! Products of 8-bit codes, two tiles of tokens times two panels of weights, whose sums stay in registers: by the tile unit of Intel
//! AMX, and by the VNNI instructions of AVX-512.
//! What is said of AMX is from the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBSSD, TILELOADD,
//! TILESTORED).

use core::arch::asm;
use core::arch::x86_64::*;

use qsf_format::panels::PANEL_ROWS;

use super::tiles::{Config, Floats, release};
use crate::cpu::wide_rows::{STEPS, Strip, TILE_COLS, TILE_ROWS, TILES, Tile};

/// Panels that are multiplied together.
pub(super) const PANELS: usize = 2;
/// Bytes of a line of every tile.
const LINE: usize = 64;

/// A wide group of a pair of panels. In line p of a tile are the columns 4 p to 4 p + 3 of the 16 rows of a panel, row after row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) codes: [[Tile; PANELS]; STEPS],
    /// What the codes of a row stand for, and what weights were multiplied with to become codes.
    pub(super) scales: [Floats; PANELS],
    pub(super) inverse: [Floats; PANELS],
}

impl Default for Weights {
    fn default() -> Weights {
        let none = [Floats::ZERO; PANELS];
        Weights { codes: [[Tile::ZERO; PANELS]; STEPS], scales: none, inverse: none }
    }
}

/// Sums of the products of a tile of tokens with a panel: tokens x rows.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct IntTile(pub(super) [[i32; PANEL_ROWS]; TILE_ROWS]);

/// Sums of all pairs: tiles of tokens x panels.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntSums(pub(super) [[IntTile; PANELS]; TILES]);

impl Default for IntSums {
    fn default() -> IntSums {
        IntSums([[IntTile([[0; PANEL_ROWS]; TILE_ROWS]); PANELS]; TILES])
    }
}

/// What multiplies codes. Sums are exact.
pub(super) trait WideUnit {
    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use the unit; there must be no other value of a unit on this thread.
    unsafe fn new() -> Self;

    /// Makes the sums those of the products over the first `steps` times 64 columns.
    fn multiply(&mut self, tokens: &Strip, weights: &Weights, steps: usize);

    /// Writes the sums out.
    fn store(&mut self, sums: &mut IntSums);
}

/// The unit of AMX ([`available`](super::tiles::available)).
pub(super) struct AmxWide(());

/// Tiles 0 to 3 are sums, 4 and 5 tokens, 6 and 7 panels.
static CONFIG: Config = Config::new([(TILE_ROWS, LINE); 8]);

const _: () = assert!(TILE_COLS == LINE && 4 * PANEL_ROWS == LINE && TILE_COLS / 4 == TILE_ROWS);

// Tile registers keep their contents from one block to the next: the compiler uses none itself.
impl WideUnit for AmxWide {
    #[inline(always)]
    unsafe fn new() -> AmxWide {
        // SAFETY: the caller's promise.
        unsafe { CONFIG.load() };
        AmxWide(())
    }

    #[inline(always)]
    fn multiply(&mut self, tokens: &Strip, weights: &Weights, steps: usize) {
        // SAFETY: the value proves that tiles may be used and are set up.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, preserves_flags, nomem)
            );
        }
        for (tokens, panels) in tokens.codes.iter().zip(&weights.codes).take(steps) {
            // SAFETY: as above; the tiles are 16 lines of 64 bytes each.
            unsafe {
                asm!(
                    "tileloadd tmm4, [{tokens} + {line}]",
                    "tileloadd tmm6, [{panels} + {line}]",
                    "tdpbssd tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panels} + {line} + 1024]",
                    "tdpbssd tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{tokens} + {line} + 1024]",
                    "tdpbssd tmm2, tmm5, tmm6",
                    "tdpbssd tmm3, tmm5, tmm7",
                    tokens = in(reg) tokens,
                    panels = in(reg) panels,
                    line = in(reg) LINE,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }

    #[inline(always)]
    fn store(&mut self, sums: &mut IntSums) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tilestored [{sums} + {line}], tmm0",
                "tilestored [{sums} + {line} + 1024], tmm1",
                "tilestored [{sums} + {line} + 2048], tmm2",
                "tilestored [{sums} + {line} + 3072], tmm3",
                sums = in(reg) sums,
                line = in(reg) LINE,
                options(nostack, preserves_flags)
            );
        }
    }
}

impl Drop for AmxWide {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value was made on this thread.
        unsafe { release() }
    }
}

/// The vector instructions of AVX-512.
pub(super) struct VnniWide {
    sums: IntSums,
}

/// Rows of tokens whose sums are in registers at a time.
const ROWS: usize = 8;

impl VnniWide {
    /// Some rows of a tile of tokens times both panels.
    ///
    /// # Safety
    /// The processor must have AVX-512 F and VNNI.
    #[inline(always)]
    unsafe fn rows(&mut self, tokens: &Strip, weights: &Weights, steps: usize, tile: usize, first: usize) {
        // SAFETY: the caller's promise; loads and stores are of whole lines and of four codes.
        unsafe {
            // Unsigned codes times signed ones: weights are taken 128 too large.
            let start = |row: usize| _mm512_set1_epi32(-128 * tokens.sums[tile * TILE_ROWS + first + row]);
            let mut sums: [[__m512i; PANELS]; ROWS] = std::array::from_fn(|row| [start(row); PANELS]);
            let offset = _mm512_set1_epi8(i8::MIN);
            for (tokens, panels) in tokens.codes.iter().zip(&weights.codes).take(steps) {
                let tokens = &tokens[tile].0[first..][..ROWS];
                for quad in 0..TILE_ROWS {
                    let weights = |panel: usize| {
                        let codes: &Tile = &panels[panel];
                        _mm512_xor_si512(_mm512_loadu_si512(codes.0[quad].as_ptr().cast()), offset)
                    };
                    let weights: [__m512i; PANELS] = std::array::from_fn(weights);
                    for (sums, tokens) in sums.iter_mut().zip(tokens) {
                        let x = tokens.as_ptr().add(4 * quad).cast::<i32>().read_unaligned();
                        let x = _mm512_set1_epi32(x);
                        for (sums, weights) in sums.iter_mut().zip(weights) {
                            *sums = _mm512_dpbusd_epi32(*sums, weights, x);
                        }
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (to, sums) in self.sums.0[tile].iter_mut().zip(sums) {
                    _mm512_storeu_si512(to.0[first + row].as_mut_ptr().cast(), sums);
                }
            }
        }
    }
}

impl WideUnit for VnniWide {
    #[inline(always)]
    unsafe fn new() -> VnniWide {
        VnniWide { sums: IntSums::default() }
    }

    #[inline(always)]
    fn multiply(&mut self, tokens: &Strip, weights: &Weights, steps: usize) {
        for tile in 0..TILES {
            for first in (0..TILE_ROWS).step_by(ROWS) {
                // SAFETY: the value proves that the processor has the instructions.
                unsafe { self.rows(tokens, weights, steps, tile, first) };
            }
        }
    }

    #[inline(always)]
    fn store(&mut self, sums: &mut IntSums) {
        *sums = self.sums;
    }
}
