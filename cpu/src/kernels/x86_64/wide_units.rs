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
/// Products of a step: tiles of tokens x panels.
pub(super) const PRODUCTS: usize = TILES * PANELS;
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

    /// Adds the product over 64 columns of tile `PRODUCT / PANELS` of tokens with panel `PRODUCT % PANELS` to the sums. All of a step
    /// follow each other in the order of their numbers: the earlier load what the later use.
    fn add<const PRODUCT: usize>(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]);

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
    fn add<const PRODUCT: usize>(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]) {
        macro_rules! product {
            ($sums:tt = $tokens:tt * $weights:tt, $($load:literal),*) => {
                asm!(
                    $(concat!("tileloadd ", $load),)*
                    concat!("tdpbssd ", $sums, ", ", $tokens, ", ", $weights),
                    "/* {tokens} {weights} {line} */",
                    tokens = in(reg) tokens,
                    weights = in(reg) weights,
                    line = in(reg) LINE,
                    out($sums) _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, preserves_flags, readonly)
                )
            };
        }
        // SAFETY: as above; the tiles are 16 lines of 64 bytes each.
        unsafe {
            match PRODUCT {
                0 => product!(
                    "tmm0" = "tmm4" * "tmm6",
                    "tmm4, [{tokens} + {line}]",
                    "tmm6, [{weights} + {line}]"
                ),
                1 => product!("tmm1" = "tmm4" * "tmm7", "tmm7, [{weights} + {line} + 1024]"),
                2 => product!("tmm2" = "tmm5" * "tmm6", "tmm5, [{tokens} + {line} + 1024]"),
                _ => product!("tmm3" = "tmm5" * "tmm7",),
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

    fn add<const PRODUCT: usize>(&mut self, tokens: &[Tile; TILES], weights: &[Tile; PANELS]) {
        let (tile, panel) = (PRODUCT / PANELS, PRODUCT % PANELS);
        let (tokens, weights) = (&tokens[tile].0, &weights[panel].0);
        for (sums, token) in self.sums.0[tile][panel].0.iter_mut().zip(tokens) {
            for (row, sum) in sums.iter_mut().enumerate() {
                let product =
                    |col: usize| i32::from(token[col]) * i32::from(weights[col / 4][4 * row + col % 4]);
                *sum += (0..TILE_COLS).map(product).sum::<i32>();
            }
        }
    }

    fn store(&mut self, sums: &mut IntSums) {
        *sums = self.sums;
    }
}
