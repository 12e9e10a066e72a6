//! The tile unit of Intel AMX: its set-up, and the one product that the kernel makes with it.
//!
//! Rust has no intrinsics for AMX (issue 126622 of rust-lang/rust), so the instructions are assembly. A tile register is
//! up to 16 rows of 64 bytes; the shapes are set once for all eight. Everything here is from the manual: Intel 64 and IA-32
//! Architectures Software Developer's Manual, volume 1 chapter 18 and volume 2 (LDTILECFG, TDPBSUD, TILELOADD, TILESTORED).

use core::arch::asm;

use qsf_format::panels::PANEL_ROWS;

use crate::activations::ACT_BLOCK;

/// Tokens of a tile.
pub(super) const TOKENS: usize = 16;
/// Products that are under way at a time: tile registers for sums.
pub(super) const SLOTS: usize = 4;
/// Steps from the start of a product to its store, which would otherwise wait for it.
pub(super) const STORE_LAG: usize = 2;

/// One f32 per weight row of a panel, or per token of a tile.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Floats(pub(super) [f32; PANEL_ROWS]);

impl Floats {
    pub(super) const ZERO: Floats = Floats([0.0; PANEL_ROWS]);
}

/// The codes of one group of 16 rows as bytes: eight quads, each four columns of every row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Codes(pub(super) [u8; ACT_BLOCK * PANEL_ROWS]);

impl Codes {
    pub(super) const ZERO: Codes = Codes([0; ACT_BLOCK * PANEL_ROWS]);
}

/// Sums of products over one group: tokens x rows.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Sums(pub(super) [[i32; PANEL_ROWS]; TOKENS]);

impl Sums {
    pub(super) const ZERO: Sums = Sums([[0; PANEL_ROWS]; TOKENS]);
}

/// A pipeline of products of tiles. A trait so that all around it is tested on processors without the unit.
pub(super) trait TileUnit {
    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use the unit ([`tiles_allowed`](crate::tile_permission::tiles_allowed)); there must be no other value on this
    /// thread.
    unsafe fn new() -> Self;

    /// Starts the product of one group of 16 tokens and 16 rows in slot `SLOT`, and stores to `stored` the sums of the step
    /// [`STORE_LAG`] before, which was in slot `SLOT - 2` of the ring of four; anything if there was none.
    ///
    /// # Safety
    /// `tokens` must point to 32 codes for each of 16 tokens, `stride` bytes apart, `codes` to the codes of the rows, signed
    /// if `SIGNED`, and `stored` to room for sums.
    unsafe fn step<const SLOT: usize, const SIGNED: bool>(
        &mut self,
        tokens: *const i8,
        stride: usize,
        codes: *const Codes,
        stored: *mut Sums,
    );
}

/// The unit itself.
pub(super) struct Amx(());

/// Rows and bytes per row of each tile register.
#[repr(C, align(64))]
pub(super) struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    pub(super) const fn new(shapes: [(usize, usize); 8]) -> Config {
        let mut config =
            Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let mut tile = 0;
        while tile < shapes.len() {
            (config.rows[tile], config.row_bytes[tile]) = (shapes[tile].0 as u8, shapes[tile].1 as u16);
            tile += 1;
        }
        config
    }

    /// Sets the tiles of this thread up.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use tiles ([`tiles_allowed`](crate::tile_permission::tiles_allowed)).
    #[inline(always)]
    pub(super) unsafe fn load(&self) {
        // SAFETY: the caller's promise; the shapes are valid.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags, readonly)) }
    }
}

/// Gives the tiles of this thread back: without contents the kernel has 8 KiB less to save when it switches threads.
///
/// # Safety
/// [`Config::load`] must have been called on this thread.
#[inline(always)]
pub(super) unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) }
}

/// Tiles 0 to 3 are sums, 4 and 5 codes of tokens, 6 and 7 codes of rows, in whose rows the columns are four by four.
static CONFIG: Config = {
    let (sums, tokens) = ((TOKENS, 4 * PANEL_ROWS), (TOKENS, ACT_BLOCK));
    let rows = (ACT_BLOCK / 4, 4 * PANEL_ROWS);
    Config::new([sums, sums, sums, sums, tokens, tokens, rows, rows])
};

impl TileUnit for Amx {
    #[inline(always)]
    unsafe fn new() -> Amx {
        // SAFETY: the caller's promise.
        unsafe { CONFIG.load() };
        Amx(())
    }

    #[inline(always)]
    unsafe fn step<const SLOT: usize, const SIGNED: bool>(
        &mut self,
        tokens: *const i8,
        stride: usize,
        codes: *const Codes,
        stored: *mut Sums,
    ) {
        // Tile registers keep their contents from one block to the next: the compiler uses none itself.
        macro_rules! product {
            ($dot:literal: $sums:tt = $tokens:tt * $codes:tt, $before:tt) => {
                asm!(
                    concat!("tileloadd ", $tokens, ", [{tokens} + {stride}]"),
                    concat!("tileloadd ", $codes, ", [{codes} + {line}]"),
                    concat!("tilestored [{stored} + {line}], ", $before),
                    concat!("tilezero ", $sums),
                    concat!($dot, " ", $sums, ", ", $tokens, ", ", $codes),
                    tokens = in(reg) tokens,
                    stride = in(reg) stride,
                    codes = in(reg) codes,
                    stored = in(reg) stored,
                    line = in(reg) size_of::<Floats>(),
                    out($sums) _, out($tokens) _, out($codes) _,
                    options(nostack, preserves_flags)
                )
            };
        }
        macro_rules! slots {
            ($dot:literal) => {
                match SLOT % SLOTS {
                    0 => product!($dot: "tmm0" = "tmm4" * "tmm6", "tmm2"),
                    1 => product!($dot: "tmm1" = "tmm5" * "tmm7", "tmm3"),
                    2 => product!($dot: "tmm2" = "tmm4" * "tmm6", "tmm0"),
                    _ => product!($dot: "tmm3" = "tmm5" * "tmm7", "tmm1"),
                }
            };
        }
        // SAFETY: the tiles have the shapes of `CONFIG`, and the memory is the caller's promise.
        unsafe { if SIGNED { slots!("tdpbssd") } else { slots!("tdpbsud") } }
    }
}

impl Drop for Amx {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value was made on this thread.
        unsafe { release() }
    }
}

/// What the matrix unit does with bytes, in plain Rust.
#[cfg(test)]
pub(super) struct Emulated {
    sums: [Sums; SLOTS],
}

#[cfg(test)]
impl TileUnit for Emulated {
    unsafe fn new() -> Emulated {
        Emulated { sums: [Sums([[i32::MIN; PANEL_ROWS]; TOKENS]); SLOTS] }
    }

    unsafe fn step<const SLOT: usize, const SIGNED: bool>(
        &mut self,
        tokens: *const i8,
        stride: usize,
        codes: *const Codes,
        stored: *mut Sums,
    ) {
        // SAFETY: the caller's promises.
        unsafe { *stored = self.sums[(SLOT + SLOTS - STORE_LAG) % SLOTS] };
        for t in 0..TOKENS {
            for r in 0..PANEL_ROWS {
                let product = |k: usize| {
                    // SAFETY: as above; element k of row r is byte k % 4 of its word in quad k / 4.
                    let (x, u) = unsafe {
                        (*tokens.add(t * stride + k), (*codes).0[4 * PANEL_ROWS * (k / 4) + 4 * r + k % 4])
                    };
                    i32::from(x) * if SIGNED { i32::from(u as i8) } else { i32::from(u) }
                };
                self.sums[SLOT % SLOTS].0[t][r] = (0..ACT_BLOCK).map(product).sum();
            }
        }
    }
}
