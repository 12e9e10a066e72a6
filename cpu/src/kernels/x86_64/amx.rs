//! Panels times batches of tokens with the tile unit of Intel AMX, which multiplies one group of 16 tokens and 16 rows in
//! one instruction; AVX-512 scales the sums. Batches of fewer than 16 tokens are for the AVX-512 kernel.
//!
//! On Emerald Rapids (Xeon, model 207; 2026-11) vector instructions run at half their rate while instructions on tiles are
//! under way, so what does not need tiles, the offsets, is done apart. What bounds the rest is not the product (16 cycles a
//! tile) but 48 vector instructions and the store of the sums for each: hence the products of the next groups are started
//! before the sums of this one are scaled.

use core::arch::asm;
use core::arch::x86_64::*;
use core::array;
use std::cell::RefCell;
use std::ops::Range;

use qsf_format::panels::PANEL_ROWS;

use super::amx_scratch::{CHUNK, PAIR, Scratch, grow};
use super::avx512::{self, Avx512};
use super::group::Group;
use super::tiles::{Amx, Codes, Floats, SLOTS, STORE_LAG, Sums, TOKENS, TileUnit};
use crate::activations::ACT_BLOCK;
use crate::kernels::form::Form;
use crate::kernels::learned::{self, Levels};
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::scales;

/// Tokens whose results wait in a scratch for the next chunk, and panels of which they do: half of a second-level cache.
const PASS_TOKENS: usize = 512;
const PASS_PANELS: usize = 16;
/// Products that are started before the sums at work.
const AHEAD: usize = SLOTS - 1;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have AVX2, FMA, F16C and AVX-512 F, BW, DQ, VL,
/// VNNI, VBMI and VBMI2, and [`tiles_allowed`](crate::tile_permission::tiles_allowed) must have allowed tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe {
        if task.tokens.len() < TOKENS {
            avx512::matmul_vbmi::<QUANT>(task, out);
        } else {
            matmul_tiles::<Amx, QUANT>(task, out);
        }
    }
}

/// # Safety
/// As for [`matmul`] but for the tiles, which `T` may need; there must be at least 16 tokens.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn matmul_tiles<T: TileUnit, const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    let parts = task.tokens.len().div_ceil(PASS_TOKENS);
    let step = task.tokens.len().div_ceil(parts).next_multiple_of(TOKENS).min(task.tokens.len());
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: the caller's promise; the unit is set up once on this thread.
        let mut unit = unsafe { T::new() };
        for first in task.tokens.clone().step_by(step) {
            // The last tokens again rather than fewer.
            let first = first.min(task.tokens.end - step);
            for panel in (0..task.panels).step_by(PASS_PANELS) {
                let panels = panel..task.panels.min(panel + PASS_PANELS);
                let pass = Pass { task, tokens: first..first + step, panels };
                // SAFETY: the caller's promises; tokens and panels are of the task.
                unsafe { pass.run::<T, QUANT>(&mut unit, scratch, out) };
            }
        }
    });
}

/// Some tokens, at least 16, and some panels of a task.
struct Pass<'a> {
    task: &'a PanelTask<'a>,
    tokens: Range<usize>,
    panels: Range<usize>,
}

impl Pass<'_> {
    /// Tiles of tokens.
    fn tiles(&self) -> usize {
        self.tokens.len().div_ceil(TOKENS)
    }

    /// The first token of a tile. The last tile ends with the last token, and so may share some with the one before: they
    /// are computed twice.
    fn token(&self, tile: usize) -> usize {
        self.tokens.end.min(self.tokens.start + (tile + 1) * TOKENS) - TOKENS
    }

    /// Groups of a row of weights.
    fn groups(&self) -> usize {
        self.task.blocks * self.task.block.get() / ACT_BLOCK
    }

    /// # Safety
    /// As for [`matmul_tiles`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<T: TileUnit, const QUANT: u8>(&self, unit: &mut T, scratch: &mut Scratch, out: PanelOut) {
        let (groups, tiles) = (self.groups(), self.tiles());
        let levels = Levels::new::<QUANT>(self.task.tables, 0);
        grow(&mut scratch.acc, self.panels.len() * tiles, [Floats::ZERO; TOKENS]);
        // SAFETY: the caller's promises; chunks start below the number of groups, pairs and panels are of the pass.
        unsafe {
            for first in (0..groups).step_by(CHUNK) {
                for panel in self.panels.clone().step_by(PAIR) {
                    let pair = panel..self.panels.end.min(panel + PAIR);
                    for (i, panel) in pair.clone().enumerate() {
                        self.unpack::<QUANT>(panel, i, first, &levels, scratch);
                    }
                    if Form::<QUANT>::IS_SIGNED {
                        self.products::<T, true>(unit, pair, first, scratch);
                    } else {
                        self.products::<T, false>(unit, pair, first, scratch);
                    }
                }
            }
            self.finish::<QUANT>(scratch, out);
        }
    }

    /// Codes and scales of a panel in the chunk from group `first` on, as panel `index` of its pair. What is missing to a
    /// multiple of four groups are zeros, which change no result.
    ///
    /// # Safety
    /// As for [`matmul_tiles`]; `first` must be a multiple of `CHUNK` below the number of groups.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn unpack<const QUANT: u8>(
        &self,
        panel: usize,
        index: usize,
        first: usize,
        levels: &Levels,
        scratch: &mut Scratch,
    ) {
        let count = CHUNK.min(self.groups() - first);
        let (codes, a) = (&mut scratch.codes.0[index], &mut scratch.a.0[index]);
        for (group, (codes, a)) in (first..).zip(codes[..count].iter_mut().zip(&mut *a)) {
            // SAFETY: the caller's promises; the panel is one of the task and has the group, whose codes are eight quads.
            unsafe {
                let panel = self.panel::<QUANT>(panel);
                let group = Group::unpack::<QUANT>(levels, panel, self.task.block.get(), group);
                _mm512_store_ps(a.0.as_mut_ptr(), group.a);
                for (line, quad) in codes.0.chunks_exact_mut(4 * PANEL_ROWS).zip(group.codes) {
                    _mm512_store_si512(line.as_mut_ptr().cast(), quad);
                }
            }
        }
        let end = count.next_multiple_of(SLOTS);
        codes[count..end].fill(Codes::ZERO);
        a[count..end].fill(Floats::ZERO);
    }

    /// Where a panel starts.
    ///
    /// # Safety
    /// It must be one of the task, which must be of the type with the id `QUANT`.
    unsafe fn panel<const QUANT: u8>(&self, panel: usize) -> *const u8 {
        let size = Form::<QUANT>::superblock_bytes(self.task.block.get());
        // SAFETY: the caller's promise.
        unsafe {
            self.task.weights.as_ptr().add(panel * (Form::<QUANT>::HEAD_BYTES + self.task.blocks * size))
        }
    }

    /// Adds to the results of a pair of panels, whose chunk is unpacked, what the products in the chunk from group `first`
    /// on give.
    ///
    /// # Safety
    /// As for [`Pass::unpack`]; the scratch must hold the results of the pass.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn products<T: TileUnit, const SIGNED: bool>(
        &self,
        unit: &mut T,
        pair: Range<usize>,
        first: usize,
        scratch: &mut Scratch,
    ) {
        let (input, tiles) = (self.task.input, self.tiles());
        let (rows, stride) = (input.rows(), input.stride());
        let end = CHUNK.min(self.groups() - first).next_multiple_of(SLOTS);
        let ring = scratch.ring.0.as_mut_ptr();
        // SAFETY: tokens and groups are inside the input, whose rows are padded to a multiple of eight groups, `end` is at
        // most 16, and the ring has four places; the unit is the caller's.
        unsafe {
            let operands = |tile: usize, i: usize| {
                let tokens = input.codes().as_ptr().add(self.token(tile) * stride + first * ACT_BLOCK);
                (tokens, scratch.codes.0[i].as_ptr())
            };
            let step = |(tokens, codes): (*const i8, *const Codes), group: usize| {
                (tokens.add(group * ACT_BLOCK), codes.add(group))
            };
            let mut now = operands(0, 0);
            macro_rules! start {
                ($slot:literal: $operands:expr) => {
                    let (tokens, codes) = $operands;
                    let stored = ring.add(($slot + SLOTS - STORE_LAG) % SLOTS);
                    unit.step::<$slot, SIGNED>(tokens, stride, codes, stored);
                };
            }
            start!(0: step(now, 0));
            start!(1: step(now, 1));
            start!(2: step(now, 2));
            for tile in 0..tiles {
                let scales = input.scales().as_ptr().add(first * rows + self.token(tile));
                for (i, panel) in pair.clone().enumerate() {
                    // After the last tile products are started that nobody reads.
                    let next = match i + 1 < pair.len() {
                        true => operands(tile, i + 1),
                        false => operands((tile + 1).min(tiles - 1), 0),
                    };
                    let results = &mut scratch.acc[(panel - self.panels.start) * tiles + tile];
                    let mut acc = match first {
                        0 => [_mm512_setzero_ps(); TOKENS],
                        _ => array::from_fn(|t| _mm512_load_ps(results[t].0.as_ptr())),
                    };
                    let a = scratch.a.0[i].as_ptr();
                    for group in (0..end).step_by(SLOTS) {
                        let later = if group + SLOTS < end { step(now, group + SLOTS) } else { next };
                        macro_rules! scale {
                            ($slot:literal) => {
                                let group = group + $slot;
                                scale_sums(&mut acc, a.add(group), scales.add(group * rows), ring.add($slot));
                            };
                        }
                        start!(3: step(now, group + AHEAD));
                        scale!(0);
                        start!(0: step(later, 0));
                        scale!(1);
                        start!(1: step(later, 1));
                        scale!(2);
                        start!(2: step(later, 2));
                        scale!(3);
                    }
                    for (result, acc) in results.iter_mut().zip(acc) {
                        _mm512_store_ps(result.0.as_mut_ptr(), acc);
                    }
                    now = next;
                }
            }
        }
    }

    /// Adds the offsets to the results and writes them out.
    ///
    /// # Safety
    /// As for [`matmul_tiles`]; the scratch must hold the results of the pass.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn finish<const QUANT: u8>(&self, scratch: &mut Scratch, out: PanelOut) {
        let (groups, tiles) = (self.groups(), self.tiles());
        let levels = Levels::new::<QUANT>(self.task.tables, 0);
        let (blocks, size) = (self.task.blocks, Form::<QUANT>::superblock_bytes(self.task.block.get()));
        if Form::<QUANT>::HAS_OFFSET {
            grow(&mut scratch.sx, tiles * groups, Floats::ZERO);
            grow(&mut scratch.b, self.panels.len() * blocks, Floats::ZERO);
            let (input, all) = (self.task.input, self.task.input.rows());
            for (i, sx) in scratch.sx[..tiles * groups].iter_mut().enumerate() {
                let sums = &input.sums()[i % groups * all + self.token(i / groups)..];
                sx.0.copy_from_slice(&sums[..TOKENS]);
            }
            let of_panels = scratch.b[..self.panels.len() * blocks].chunks_exact_mut(blocks);
            for (panel, b) in self.panels.clone().zip(of_panels) {
                // SAFETY: the panel is one of the task and has the superblocks.
                unsafe {
                    let panel = self.panel::<QUANT>(panel);
                    for (j, b) in b.iter_mut().enumerate() {
                        let block = panel.add(Form::<QUANT>::HEAD_BYTES + j * size);
                        let offset = if Form::<QUANT>::IS_LEARNED {
                            learned::scales::<Avx512, QUANT>(block).1
                        } else {
                            scales::<Avx512, QUANT>(block).1
                        };
                        _mm512_store_ps(b.0.as_mut_ptr(), offset);
                    }
                }
            }
        }
        // By pairs, so that the sums of a tile are in the first-level cache for the second panel.
        for pair in (0..self.panels.len()).step_by(PAIR) {
            for tile in 0..tiles {
                for panel in pair..self.panels.len().min(pair + PAIR) {
                    let mut acc_b = [_mm512_setzero_ps(); TOKENS];
                    if Form::<QUANT>::HAS_OFFSET {
                        let sx = scratch.sx[tile * groups..][..groups].chunks_exact(groups / blocks);
                        for (b, sx) in scratch.b[panel * blocks..][..blocks].iter().zip(sx) {
                            for sx in sx {
                                add_offsets(&mut acc_b, b, sx);
                            }
                        }
                    }
                    let start = self.token(tile) * out.stride + PANEL_ROWS * (self.panels.start + panel);
                    // SAFETY: the panel is one of the task.
                    let weights = unsafe { self.panel::<QUANT>(self.panels.start + panel) };
                    for (t, (acc, acc_b)) in scratch.acc[panel * tiles + tile].iter().zip(acc_b).enumerate() {
                        // SAFETY: the caller's promise: there is room for the results of every token and panel.
                        unsafe {
                            let acc = _mm512_load_ps(acc.0.as_ptr());
                            let sum = learned::result::<Avx512, QUANT>(&levels, weights, acc, acc_b);
                            _mm512_storeu_ps(out.start.add(start + t * out.stride), sum);
                        }
                    }
                }
            }
        }
    }
}

/// `acc = fma(a * dx, sums, acc)` for every token of a tile. In assembly, because the compiler moves the loads before the
/// instructions on tiles around it, and then has too few registers.
///
/// # Safety
/// There must be an `a` per row, a `dx` per token, and sums.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scale_sums(acc: &mut [__m512; TOKENS], a: *const Floats, dx: *const f32, sums: *const Sums) {
    // With names: for a register of no type the compiler writes that of a byte.
    let (scale, sum): (__m512, __m512);
    macro_rules! tokens {
        ($($t:literal)*) => {
            asm!(
                $(
                    concat!("vmulps {scale}, {a}, dword ptr [{dx} + 4*", $t, "]{{1to16}}"),
                    concat!("vcvtdq2ps {sum}, zmmword ptr [{sums} + 64*", $t, "]"),
                    concat!("vfmadd231ps {", $t, "}, {scale}, {sum}"),
                )*
                $(inout(zmm_reg) acc[$t],)*
                a = in(zmm_reg) _mm512_load_ps((*a).0.as_ptr()),
                scale = out(zmm_reg) scale,
                sum = out(zmm_reg) sum,
                dx = in(reg) dx,
                sums = in(reg) sums,
                options(nostack, preserves_flags, readonly)
            )
        };
    }
    // SAFETY: the caller's promises.
    unsafe { tokens!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    let _ = (scale, sum);
}

/// `acc = fma(b, sx, acc)` for every token of a tile. In assembly, because the compiler spills the sums.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_offsets(acc: &mut [__m512; TOKENS], b: &Floats, sx: &Floats) {
    macro_rules! tokens {
        ($($t:literal)*) => {
            asm!(
                $(concat!("vfmadd231ps {", $t, "}, {b}, dword ptr [{sx} + 4*", $t, "]{{1to16}}"),)*
                $(inout(zmm_reg) acc[$t],)*
                b = in(zmm_reg) _mm512_load_ps(b.0.as_ptr()),
                sx = in(reg) sx,
                options(nostack, preserves_flags, readonly)
            )
        };
    }
    // SAFETY: reads sixteen floats of each, which are there.
    unsafe { tokens!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::kernels::x86_64::tiles::Emulated;
    use crate::kernels::{Int8Kernel, KernelTable};
    use crate::tile_permission::tiles_allowed;
    use crate::{Cpu, activations::Int8Rows};
    use qsf_format::panels::{panel_bytes, superblock_bytes};
    use qsf_format::{BUILT_IN, BlockSize, QuantType};

    static EMULATED: &[Option<Int8Kernel>] = &kernels!("emulated", emulated);
    static AMX: &[Option<Int8Kernel>] = &kernels!("amx", by_unit);

    /// # Safety
    /// As for [`matmul_tiles`]; the processor must have these instructions.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn emulated<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
        // SAFETY: the caller's promises.
        unsafe { matmul_tiles::<Emulated, QUANT>(task, out) }
    }

    /// # Safety
    /// As for [`matmul_tiles`]; the processor must have these instructions, and the tile unit.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn by_unit<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
        // SAFETY: the caller's promises.
        unsafe { matmul_tiles::<Amx, QUANT>(task, out) }
    }

    /// Panels of a type: all bytes random but for tame scales.
    pub(in crate::kernels::x86_64) fn random_panels(
        quant: QuantType,
        block: BlockSize,
        panels: usize,
        blocks: usize,
    ) -> Vec<u8> {
        let panel = panel_bytes(quant, block, blocks);
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        };
        let mut weights: Vec<u8> = (0..panels * panel).map(|_| random()).collect();
        let (size, halves) = match quant.is_learned() {
            true => (panel, PANEL_ROWS * quant.row_head_bytes()),
            false => (superblock_bytes(quant, block), PANEL_ROWS * quant.encoding().scale_bytes()),
        };
        for scaled in weights.chunks_exact_mut(size) {
            // The second byte of a half has sign and exponent: below 2.
            scaled[1..halves].iter_mut().step_by(2).for_each(|high| *high &= 0xBF);
        }
        weights
    }

    /// Results of the tokens from the third on, and zeros.
    fn run(kernel: &Int8Kernel, block: BlockSize, panels: usize, input: &Int8Rows) -> Vec<u32> {
        let block = kernel.quant().block_size(block);
        let blocks = input.cols().div_ceil(block.get());
        let weights = random_panels(kernel.quant(), block, panels, blocks);
        let tokens = 2..input.rows();
        let mut out = vec![0.0f32; input.rows() * panels * PANEL_ROWS];
        let start = PanelOut { start: out.as_mut_ptr(), stride: panels * PANEL_ROWS };
        let task = PanelTask { weights: &weights, panels, blocks, block, tables: &BUILT_IN, input, tokens };
        // SAFETY: there is room for all results.
        unsafe { kernel.matmul(&task, start) };
        out.into_iter().map(f32::to_bits).collect()
    }

    /// All but the first two of `rows` tokens.
    pub(in crate::kernels::x86_64) fn check(
        kernels: &[Option<Int8Kernel>],
        block: BlockSize,
        panels: usize,
        cols: usize,
        rows: usize,
    ) {
        let x: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1009) as f32 * 0.013 - 6.0).collect();
        let mut input = Int8Rows::new();
        input.quantize(&Cpu::new(Isa::SCALAR), &x, rows, cols);
        for kernel in kernels.iter().flatten() {
            let quant = kernel.quant();
            let oracle = KernelTable::of(Isa::SCALAR).int8(quant).unwrap();
            let expected = run(oracle, block, panels, &input);
            assert!(
                run(kernel, block, panels, &input) == expected,
                "{quant} {block}: {panels} panels, {rows} rows of {cols}"
            );
        }
    }

    fn check_all(kernels: &[Option<Int8Kernel>]) {
        for block in BlockSize::ALL {
            check(kernels, block, 1, 1, 18);
            check(kernels, block, 3, 300, 35);
            check(kernels, block, 2, 1100, 50);
        }
        check(kernels, BlockSize::B64, PASS_PANELS + 1, 64, 18);
        check(kernels, BlockSize::B64, 1, 64, PASS_TOKENS + 3);
        check(kernels, BlockSize::B64, 1, 64, 2 * PASS_TOKENS + 3);
    }

    #[test]
    fn a_batch_of_any_size_has_the_oracles_bits() {
        if !Isa::available().iter().any(|isa| isa.name() == "avx512") {
            eprintln!("skipped: needs AVX-512");
            return;
        }
        check_all(EMULATED);
        if tiles_allowed() {
            check_all(AMX);
        } else {
            eprintln!("the tile unit itself is not tested: this processor has none");
        }
    }
}
