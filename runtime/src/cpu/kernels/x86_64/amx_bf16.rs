//! Panels times batches of tokens in bfloat16 with the tile unit of Intel AMX. Weights are rounded to bfloat16 with their scales and
//! offsets, once for up to 512 tokens, so that sums need no scaling, which bounds the kernel of bytes ([`super::amx`]).
//!
//! Order of the loops: 256 columns of all tokens of a pass (256 KiB) stay in the second-level cache for 16 panels; those of a pair of
//! panels (16 KiB) in the first-level cache for all tokens. Sums wait in between, and are read and written once per 256 columns.
//! While the unit multiplies a pair, the next one is rounded, a group with every strip of tokens.

use core::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use qsf_format::panels::PANEL_ROWS;

use super::avx512::Avx512;
use super::group::Group;
use super::tiles_bf16::{AmxBf16, Bf16Unit, NO_SUMS, PANELS, Sums};
use crate::cpu::activations::ACT_BLOCK;
use crate::cpu::bf16_rows::{Bf16Rows, CHUNK, TILE_COLS, TILE_ROWS, TILES, Tile};
use crate::cpu::kernels::learned::Levels;
use crate::cpu::kernels::panel::{PanelOut, PanelTask};
use crate::cpu::kernels::unpack::{fetch, has_offset, head_bytes, is_signed, superblock_bytes};

/// Strips of 32 tokens of a pass, and panels: sums of 512 KiB.
const PASS_STRIPS: usize = 16;
const PASS_PANELS: usize = 16;

const _: () = assert!(ACT_BLOCK == TILE_COLS, "a group is what a tile has columns");

/// 256 columns of a pair of panels.
type Weights = [[Tile; PANELS]; CHUNK];

/// What a thread needs between the steps of a task. It only grows, and not with the number of tokens.
struct Scratch {
    /// The pair at work and the next.
    weights: Box<[Weights; 2]>,
    /// Pairs of panels x strips.
    sums: Vec<Sums>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { weights: Box::new([[[Tile::ZERO; PANELS]; CHUNK]; 2]), sums: Vec::new() }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The product in bfloat16 for the type with the id `QUANT`. Takes all tokens of the input.
///
/// # Safety
/// As for [`PanelFn`](crate::cpu::kernels::panel::PanelFn); the processor must have AVX2, FMA, F16C and AVX-512 F, BW, DQ, VL, VNNI
/// and BF16, and [`available`](super::tiles::available) must have allowed tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_, Bf16Rows>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { matmul_tiles::<AmxBf16, QUANT>(task, out) }
}

/// # Safety
/// As for [`matmul`] but for the tiles, which `T` may need.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
unsafe fn matmul_tiles<T: Bf16Unit, const QUANT: u8>(task: &PanelTask<'_, Bf16Rows>, out: PanelOut) {
    assert_eq!(
        task.tokens,
        0..task.input.rows(),
        "a part of the tokens, of which strips would have others too"
    );
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: the caller's promise; the unit is set up once on this thread.
        let mut unit = unsafe { T::new() };
        let strips = task.input.strips();
        for strip in (0..strips).step_by(PASS_STRIPS) {
            for panel in (0..task.panels).step_by(PASS_PANELS) {
                let panels = panel..task.panels.min(panel + PASS_PANELS);
                let pass = Pass { task, strips: strip..strips.min(strip + PASS_STRIPS), panels };
                // SAFETY: the caller's promises; strips and panels are of the task.
                unsafe { pass.run::<T, QUANT>(&mut unit, scratch, out) };
            }
        }
    });
}

/// Some strips of tokens and some panels of a task.
struct Pass<'a> {
    task: &'a PanelTask<'a, Bf16Rows>,
    strips: Range<usize>,
    panels: Range<usize>,
}

impl Pass<'_> {
    /// # Safety
    /// As for [`matmul_tiles`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
    unsafe fn run<T: Bf16Unit, const QUANT: u8>(&self, unit: &mut T, scratch: &mut Scratch, out: PanelOut) {
        let (strips, pairs) = (self.strips.len(), self.panels.len().div_ceil(PANELS));
        if scratch.sums.len() < pairs * strips {
            scratch.sums.resize(pairs * strips, NO_SUMS);
        }
        let levels = Levels::new::<QUANT>(self.task.tables, 0);
        let [mut now, mut next] = scratch.weights.each_mut();
        // SAFETY: the caller's promises.
        unsafe { self.round::<QUANT>(&levels, 0, 0..CHUNK * PANELS, now) };
        for item in 0..pairs * self.groups().div_ceil(CHUNK) {
            let (chunk, pair) = (item / pairs, item % pairs);
            let count = CHUNK.min(self.groups() - chunk * CHUNK);
            let tokens = &self.task.input.chunk(chunk)[self.strips.clone()];
            let sums = &mut scratch.sums[pair * strips..][..strips];
            for (i, (tokens, sums)) in tokens.iter().zip(sums).enumerate() {
                if chunk == 0 {
                    unit.clear();
                } else {
                    unit.load(sums);
                }
                for (tokens, weights) in tokens.0.iter().zip(&now[..count]) {
                    unit.step(tokens, weights);
                }
                unit.store(sums);
                let part = i * CHUNK * PANELS / strips..(i + 1) * CHUNK * PANELS / strips;
                // SAFETY: the caller's promises.
                unsafe { self.round::<QUANT>(&levels, item + 1, part, next) };
            }
            std::mem::swap(&mut now, &mut next);
        }
        // SAFETY: the caller's promise.
        unsafe { self.write(&scratch.sums, out) };
    }

    /// Groups of a row of weights.
    fn groups(&self) -> usize {
        self.task.blocks * self.task.block.get() / ACT_BLOCK
    }

    /// Rounds tiles of an item, which is all pairs of panels of the first chunk, then those of the second, and so on. `part` counts
    /// the panels of a group, then groups; what is not there is left out.
    ///
    /// # Safety
    /// As for [`matmul_tiles`].
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
    unsafe fn round<const QUANT: u8>(
        &self,
        levels: &Levels,
        item: usize,
        part: Range<usize>,
        weights: &mut Weights,
    ) {
        let n = self.task.block.get();
        let bytes = head_bytes(QUANT) + self.task.blocks * superblock_bytes(QUANT, n);
        let pairs = self.panels.len().div_ceil(PANELS);
        let (chunk, pair) = (item / pairs, item % pairs);
        for i in part {
            let (group, panel) = (chunk * CHUNK + i / PANELS, self.panels.start + pair * PANELS + i % PANELS);
            if group >= self.groups() || panel >= self.panels.end {
                continue;
            }
            // SAFETY: the caller's promises; the panel is one of the task and has the group; a line is 64 bytes.
            unsafe {
                let panel = self.task.weights.as_ptr().add(panel * bytes);
                // The same of the pair after this one comes next.
                let of_group = superblock_bytes(QUANT, n) * ACT_BLOCK / n;
                fetch::<Avx512>(
                    panel.wrapping_add(PANELS * bytes + head_bytes(QUANT) + group * of_group),
                    of_group,
                );
                let group = Group::unpack::<QUANT>(levels, panel, n, group);
                let lines = weights[i / PANELS][i % PANELS].0.chunks_exact_mut(2);
                for (lines, codes) in lines.zip(group.codes) {
                    let [first, second] = rounded::<QUANT>(codes, group.a, group.b);
                    _mm512_storeu_si512(lines[0].as_mut_ptr().cast(), first);
                    _mm512_storeu_si512(lines[1].as_mut_ptr().cast(), second);
                }
            }
        }
    }

    /// Writes the sums of the pass to where results go.
    ///
    /// # Safety
    /// As for [`matmul_tiles`].
    unsafe fn write(&self, sums: &[Sums], out: PanelOut) {
        let strips = self.strips.len();
        let tokens = self.strips.start * TILES * TILE_ROWS..self.task.input.rows();
        // Token by token, as rows of results are pages apart.
        for (i, token) in tokens.take(strips * TILES * TILE_ROWS).enumerate() {
            let (strip, tile, row) = (i / (TILES * TILE_ROWS), i / TILE_ROWS % TILES, i % TILE_ROWS);
            for (j, panel) in self.panels.clone().enumerate() {
                let sums = &sums[j / PANELS * strips + strip][tile][j % PANELS].0[row];
                // SAFETY: the caller's promise: there is room for the results of every token and panel.
                unsafe {
                    let out = out.start.add(token * out.stride + PANEL_ROWS * panel);
                    std::ptr::copy_nonoverlapping(sums.as_ptr(), out, PANEL_ROWS);
                }
            }
        }
    }
}

/// The weights of four columns of 16 rows, as two lines of two columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn rounded<const QUANT: u8>(codes: __m512i, a: __m512, b: __m512) -> [__m512i; 2] {
    // Row r has its four columns in the bytes of number r.
    let columns = if const { is_signed(QUANT) } {
        [
            _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(codes)),
            _mm512_srai_epi32::<24>(_mm512_slli_epi32::<16>(codes)),
            _mm512_srai_epi32::<24>(_mm512_slli_epi32::<8>(codes)),
            _mm512_srai_epi32::<24>(codes),
        ]
    } else {
        let byte = _mm512_set1_epi32(0xFF);
        [
            _mm512_and_si512(codes, byte),
            _mm512_and_si512(_mm512_srli_epi32::<8>(codes), byte),
            _mm512_and_si512(_mm512_srli_epi32::<16>(codes), byte),
            _mm512_srli_epi32::<24>(codes),
        ]
    };
    let weight = |column: __m512i| {
        let u = _mm512_cvtepi32_ps(column);
        if const { has_offset(QUANT) } { _mm512_fmadd_ps(a, u, b) } else { _mm512_mul_ps(a, u) }
    };
    let [c0, c1, c2, c3] = columns;
    [line(weight(c0), weight(c1)), line(weight(c2), weight(c3))]
}

/// Two columns, rounded, next to each other in each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn line(first: __m512, second: __m512) -> __m512i {
    let order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
        2, 17, 1, 16, 0,
    );
    // SAFETY: both are 64 bytes without invalid values.
    let rounded = unsafe { core::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) };
    _mm512_permutexvar_epi16(order, rounded)
}

#[cfg(test)]
mod tests {
    use super::super::amx::tests::random_panels;
    use super::super::tiles::available;
    use super::super::tiles_bf16::EmulatedBf16;
    use super::*;
    use crate::cpu::isa::Isa;
    use crate::cpu::kernels::Bf16Kernel;
    use crate::cpu::{Cpu, decode_panel_row};
    use qsf_format::{BUILT_IN, BlockSize, QuantType};

    static EMULATED: &[Bf16Kernel] = bf16_table!("emulated", emulated);
    static AMX: &[Bf16Kernel] = bf16_table!("amx", matmul);

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
    unsafe fn emulated<const QUANT: u8>(task: &PanelTask<'_, Bf16Rows>, out: PanelOut) {
        // SAFETY: the caller's promises.
        unsafe { matmul_tiles::<EmulatedBf16, QUANT>(task, out) }
    }

    fn rounded(v: f32) -> f64 {
        half::bf16::from_f32(v).to_f64()
    }

    /// Against the decoded weights, in f64.
    fn check(kernels: &[Bf16Kernel], block: BlockSize, panels: usize, cols: usize, rows: usize) {
        let x: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1009) as f32 * 0.013 - 6.0).collect();
        let input = &mut Bf16Rows::new();
        input.round(&Cpu::new(Isa::best()), &x, rows, cols);
        for kernel in kernels {
            let (quant, tables) = (kernel.quant(), &BUILT_IN);
            let block = quant.block_size(block);
            let blocks = cols.div_ceil(block.get());
            let weights = random_panels(quant, block, panels, blocks);
            // A stride larger than the rows, and nothing may be written between.
            let stride = panels * PANEL_ROWS + 3;
            let mut out = vec![f32::NAN; rows * stride];
            let to = PanelOut { start: out.as_mut_ptr(), stride };
            let task = PanelTask { weights: &weights, panels, blocks, block, tables, input, tokens: 0..rows };
            // SAFETY: there is room for all results.
            unsafe { kernel.matmul(&task, to) };
            let mut w = vec![0.0; cols];
            for row in 0..stride {
                let panel = weights.chunks_exact(weights.len() / panels).nth(row / PANEL_ROWS);
                if let Some(panel) = panel {
                    decode_panel_row(Isa::SCALAR, quant, block, tables, panel, row % PANEL_ROWS, &mut w);
                }
                for (token, x) in x.chunks_exact(cols).enumerate() {
                    let found = out[token * stride + row];
                    if panel.is_none() {
                        assert!(found.is_nan(), "{quant}: written behind the rows of a token");
                        continue;
                    }
                    let (mut sum, mut size, mut largest) = (0.0, 0.0, 0.0f64);
                    for (w, x) in w.iter().zip(x) {
                        let product = rounded(*w) * rounded(*x);
                        (sum, size, largest) =
                            (sum + product, size + product.abs(), largest.max(product.abs()));
                    }
                    // One of the weights may be rounded to the other side: decoding it rounds otherwise in its last bit.
                    let bound = 1e-5 * size + largest / 128.0;
                    assert!(
                        (f64::from(found) - sum).abs() <= bound,
                        "{quant} {block}: row {row}, token {token} of {rows}: {found}, expected {sum} +- {bound}"
                    );
                }
            }
        }
    }

    fn check_all(kernels: &[Bf16Kernel]) {
        for block in BlockSize::ALL {
            check(kernels, block, 1, 1, 1);
            check(kernels, block, 3, 300, 35);
            check(kernels, block, 2, 545, 64);
        }
        check(kernels, BlockSize::B64, PASS_PANELS + 1, 63, 18);
        check(kernels, BlockSize::B64, 1, 65, PASS_STRIPS * TILES * TILE_ROWS + 3);
        let some = [QuantType::Q4, QuantType::T3];
        for kernel in kernels.iter().filter(|kernel| some.contains(&kernel.quant())) {
            let (panels, rows) = (PASS_PANELS + 3, PASS_STRIPS * TILES * TILE_ROWS + 3);
            check(std::slice::from_ref(kernel), BlockSize::B64, panels, 300, rows);
        }
    }

    #[test]
    fn products_in_bfloat16_are_those_of_the_rounded_weights_and_activations() {
        if !Isa::available().iter().any(|isa| isa.name() == "avx512")
            || !is_x86_feature_detected!("avx512bf16")
        {
            eprintln!("skipped: needs AVX-512 with bfloat16");
            return;
        }
        check_all(EMULATED);
        if available() {
            check_all(AMX);
        } else {
            eprintln!("the tile unit itself is not tested: this processor has none");
        }
    }
}
