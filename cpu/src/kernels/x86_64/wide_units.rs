//! Products of 8-bit codes by the tile unit of Intel AMX: two tiles of tokens times two panels of weights, whose sums stay in
//! registers.
//! Everything here is from the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBSSD, TILELOADD,
//! TILESTORED).

use core::arch::asm;

use qsf_format::panels::PANEL_ROWS;

use super::tiles::{Config, Floats, release};
use crate::int8x128_rows::{STEPS, TILE_COLS, TILE_ROWS, TILES, Tile};

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

/// Sums of all pairs: tiles of tokens x panels. A page.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4096))]
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

    /// Makes the sums zero.
    fn clear(&mut self);

    /// Adds the products over 64 columns to the sums.
    fn add(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]);

    /// Writes the sums out.
    fn store(&mut self, sums: &mut IntSums);
}

/// The unit of AMX ([`tiles_allowed`](crate::tile_permission::tiles_allowed)).
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
    fn clear(&mut self) {
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
    }

    #[inline(always)]
    fn add(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]) {
        // SAFETY: as above; the tiles are 16 lines of 64 bytes each.
        unsafe {
            asm!(
                "tileloadd tmm4, [{tokens} + {line}]",
                "tileloadd tmm6, [{weights} + {line}]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{weights} + {line} + 1024]",
                "tdpbssd tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{tokens} + {line} + 1024]",
                "tdpbssd tmm2, tmm5, tmm6",
                "tdpbssd tmm3, tmm5, tmm7",
                tokens = in(reg) tokens,
                weights = in(reg) weights,
                line = in(reg) LINE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, readonly)
            );
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

/// What the matrix unit does with recoded weights, in plain Rust.
#[cfg(test)]
pub(super) struct EmulatedWide {
    sums: IntSums,
}

#[cfg(test)]
impl WideUnit for EmulatedWide {
    unsafe fn new() -> EmulatedWide {
        EmulatedWide { sums: IntSums([[IntTile([[i32::MIN; PANEL_ROWS]; TILE_ROWS]); PANELS]; TILES]) }
    }

    fn clear(&mut self) {
        self.sums = IntSums::default();
    }

    fn add(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]) {
        for (sums, tokens) in self.sums.0.iter_mut().zip(tokens) {
            for (sums, panel) in sums.iter_mut().zip(weights) {
                for (sums, token) in sums.0.iter_mut().zip(&tokens.0) {
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let product = |col: usize| {
                            i32::from(token[col]) * i32::from(panel.0[col / 4][4 * row + col % 4])
                        };
                        *sum += (0..TILE_COLS).map(product).sum::<i32>();
                    }
                }
            }
        }
    }

    fn store(&mut self, sums: &mut IntSums) {
        *sums = self.sums;
    }
}
