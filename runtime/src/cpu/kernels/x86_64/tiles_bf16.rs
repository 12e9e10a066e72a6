//! The products of bfloat16 of Intel AMX: two tiles of tokens times two panels of weights, whose sums stay in registers.
//! Everything here is from the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBF16PS, TILELOADD,
//! TILESTORED).

use core::arch::asm;

use qsf_format::panels::PANEL_ROWS;

use super::tiles::{Config, release};
use crate::cpu::bf16_rows::{TILE_COLS, TILE_ROWS, TILES, Tile};

/// Panels that are multiplied together.
pub(super) const PANELS: usize = 2;
/// Bytes of a line of every tile.
const LINE: usize = 64;

/// Sums of the products of a tile of tokens with a panel: tokens x rows.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct SumTile(pub(super) [[f32; PANEL_ROWS]; TILE_ROWS]);

/// Sums of all pairs: tiles of tokens x panels.
pub(super) type Sums = [[SumTile; PANELS]; TILES];

/// No sums.
pub(super) const NO_SUMS: Sums = [[SumTile([[0.0; PANEL_ROWS]; TILE_ROWS]); PANELS]; TILES];

/// Sums of products of tiles. A trait so that all around it is tested on processors without the unit.
pub(super) trait Bf16Unit {
    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use the unit ([`available`](super::tiles::available)); there must be no other
    /// value of a unit on this thread.
    unsafe fn new() -> Self;

    /// Makes all sums zero.
    fn clear(&mut self);

    /// Makes the sums these.
    fn load(&mut self, sums: &Sums);

    /// Adds the products over 32 columns. In line p of the tile of a panel are the columns 2p and 2p + 1 of its 16 rows, row after
    /// row.
    fn step(&mut self, tokens: &[Tile; TILES], panels: &[Tile; PANELS]);

    /// Writes the sums out.
    fn store(&mut self, sums: &mut Sums);
}

/// The unit itself.
pub(super) struct AmxBf16(());

/// Tiles 0 to 3 are sums, 4 and 5 tokens, 6 and 7 panels.
static CONFIG: Config = Config::new([(TILE_ROWS, LINE); 8]);

const _: () = assert!(2 * TILE_COLS == LINE && 4 * PANEL_ROWS == LINE && TILE_COLS / 2 == TILE_ROWS);

// Tile registers keep their contents from one block to the next: the compiler uses none itself.
impl Bf16Unit for AmxBf16 {
    #[inline(always)]
    unsafe fn new() -> AmxBf16 {
        // SAFETY: the caller's promise.
        unsafe { CONFIG.load() };
        AmxBf16(())
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
    fn load(&mut self, sums: &Sums) {
        // SAFETY: as above; the tiles are 16 lines of 64 bytes each.
        unsafe {
            asm!(
                "tileloadd tmm0, [{sums} + {line}]",
                "tileloadd tmm1, [{sums} + {line} + 1024]",
                "tileloadd tmm2, [{sums} + {line} + 2048]",
                "tileloadd tmm3, [{sums} + {line} + 3072]",
                sums = in(reg) sums,
                line = in(reg) LINE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    #[inline(always)]
    fn step(&mut self, tokens: &[Tile; TILES], panels: &[Tile; PANELS]) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tileloadd tmm4, [{tokens} + {line}]",
                "tileloadd tmm6, [{panels} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{panels} + {line} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{tokens} + {line} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                tokens = in(reg) tokens,
                panels = in(reg) panels,
                line = in(reg) LINE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    #[inline(always)]
    fn store(&mut self, sums: &mut Sums) {
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

impl Drop for AmxBf16 {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value was made on this thread.
        unsafe { release() }
    }
}

/// The same in plain Rust.
#[cfg(test)]
pub(super) struct EmulatedBf16 {
    sums: Box<Sums>,
}

#[cfg(test)]
impl Bf16Unit for EmulatedBf16 {
    unsafe fn new() -> EmulatedBf16 {
        EmulatedBf16 { sums: Box::new([[SumTile([[f32::NAN; PANEL_ROWS]; TILE_ROWS]); PANELS]; TILES]) }
    }

    fn clear(&mut self) {
        *self.sums = NO_SUMS;
    }

    fn load(&mut self, sums: &Sums) {
        *self.sums = *sums;
    }

    fn step(&mut self, tokens: &[Tile; TILES], panels: &[Tile; PANELS]) {
        let float = crate::cpu::decode::bf16_to_f32;
        for (sums, tokens) in self.sums.iter_mut().zip(tokens) {
            for (sums, panel) in sums.iter_mut().zip(panels) {
                for (sums, x) in sums.0.iter_mut().zip(&tokens.0) {
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let w = |col: usize| panel.0[col / 2][2 * row + col % 2];
                        *sum += (0..TILE_COLS).map(|col| float(x[col]) * float(w(col))).sum::<f32>();
                    }
                }
            }
        }
    }

    fn store(&mut self, sums: &mut Sums) {
        *sums = *self.sums;
    }
}
