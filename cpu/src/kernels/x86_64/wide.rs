//! Panels times batches of tokens in wide groups: 256 columns of a row of weights share a scale, for which their codes, scales and
//! offsets become codes of 8 bits, once for up to 512 tokens; 128 columns of a token share one too. So integers are summed up over 128
//! columns before anything is scaled, which is what bounds the kernels of exact weights ([`super::amx`], [`super::batch`]).
//!
//! Order of the loops: a group of all tokens of a pass (128 KiB) stays in the second-level cache for 16 panels; that of a pair of
//! panels (8 KiB) in the first-level cache for all tokens. Results wait in between, and are read and written once per group. All of
//! that is compiled into one function, as calls take the registers of vectors, which costs much there.

use core::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use qsf_format::panels::PANEL_ROWS;

use super::avx512::Avx512;
use super::group::QUADS;
use super::recode::Recoder;
use super::wide_units::{IntSums, PANELS, Weights};
use crate::activations::ACT_BLOCK;
use crate::int8x128_rows::{
    CODE_OFFSET, HALVES, Int8x128Rows, STRIP_ROWS, Strip, TILE_COLS, TILE_ROWS, TILES, WIDE_GROUP,
};
use crate::kernels::form::Form;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::PanelIsa;
use crate::vector::CacheLevel;

/// Strips of 32 tokens of a pass, and panels: results of 512 KiB.
const PASS_STRIPS: usize = 16;
const PASS_PANELS: usize = 16;
/// Groups of a recoded weight's own that share a wide one.
const GROUPS: usize = WIDE_GROUP / ACT_BLOCK;
/// Parts that the work on a pair of panels is cut into: groups of panels.
const PARTS: usize = GROUPS * PANELS;

/// Results of a strip of tokens and a pair of panels, in the order of sums, and a page as they are: so what is loaded never seems to
/// depend on what was just stored at the same place of another page.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4096))]
pub(super) struct Results(pub(super) [[[[f32; PANEL_ROWS]; TILE_ROWS]; PANELS]; TILES]);

const NO_RESULTS: Results = Results([[[[0.0; PANEL_ROWS]; TILE_ROWS]; PANELS]; TILES]);

/// What a thread needs between the steps of a task. It only grows, and not with the number of tokens.
#[derive(Default)]
pub(super) struct Scratch {
    /// The pair at work and the next.
    pub(super) weights: Box<[Weights; 2]>,
    /// Of the last product, for each half of its columns.
    pub(super) sums: Box<[IntSums; HALVES]>,
    /// Pairs of panels x strips.
    pub(super) results: Vec<Results>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// How a pass is multiplied.
pub(super) trait WideLoop {
    /// Whether it multiplies unsigned codes: [`CODE_OFFSET`] is added to those of weights then.
    const UNSIGNED: bool;

    /// Sets it up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use its instructions; there must be no other value on this thread.
    unsafe fn new() -> Self;

    /// Computes a pass.
    ///
    /// # Safety
    /// As for [`matmul`].
    unsafe fn run<const QUANT: u8>(&mut self, pass: &Pass<'_>, scratch: &mut Scratch, out: PanelOut);
}

/// The product by `L` for the type with the id `QUANT`. Takes all tokens of the input.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have AVX2, FMA, F16C and AVX-512 F, BW, DQ, VL and VNNI,
/// and what `L` may need.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul<L: WideLoop, const QUANT: u8>(task: &PanelTask<'_, Int8x128Rows>, out: PanelOut) {
    assert_eq!(
        task.tokens,
        0..task.input.rows(),
        "a part of the tokens, of which strips would have others too"
    );
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: the caller's promise; it is set up once on this thread.
        let mut by = unsafe { L::new() };
        let recoder = Recoder::new::<QUANT>(task.tables);
        let strips = task.input.strips();
        for strip in (0..strips).step_by(PASS_STRIPS) {
            for panel in (0..task.panels).step_by(PASS_PANELS) {
                let panels = panel..task.panels.min(panel + PASS_PANELS);
                let strips = strip..strips.min(strip + PASS_STRIPS);
                let pass = Pass { task, recoder: &recoder, strips, panels };
                let results = pass.pairs() * pass.strips.len();
                if scratch.results.len() < results {
                    scratch.results.resize(results, NO_RESULTS);
                }
                // SAFETY: the caller's promises; strips and panels are of the task.
                unsafe { by.run::<QUANT>(&pass, scratch, out) };
            }
        }
    });
}

/// Some strips of tokens and some panels of a task.
pub(super) struct Pass<'a> {
    task: &'a PanelTask<'a, Int8x128Rows>,
    recoder: &'a Recoder,
    strips: Range<usize>,
    pub(super) panels: Range<usize>,
}

/// A wide group of a pair of panels. All pairs of the first group come first, then those of the next.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) wide: usize,
    pub(super) pair: usize,
}

impl Item {
    pub(super) const FIRST: Item = Item { wide: 0, pair: 0 };

    /// The one behind it, with so many pairs of panels.
    #[inline(always)]
    pub(super) fn next(self, pairs: usize) -> Item {
        if self.pair + 1 < pairs {
            Item { pair: self.pair + 1, ..self }
        } else {
            Item { wide: self.wide + 1, pair: 0 }
        }
    }
}

impl Pass<'_> {
    /// Pairs of panels.
    #[inline(always)]
    pub(super) fn pairs(&self) -> usize {
        self.panels.len().div_ceil(PANELS)
    }

    /// Groups of 32 columns of a row of weights.
    #[inline(always)]
    fn groups(&self) -> usize {
        self.task.blocks * self.task.block.get() / ACT_BLOCK
    }

    /// Wide groups of a row of weights.
    #[inline(always)]
    pub(super) fn wide_groups(&self) -> usize {
        self.groups().div_ceil(GROUPS)
    }

    /// Tiles of 64 columns that a wide group has.
    #[inline(always)]
    pub(super) fn steps(&self, wide: usize) -> usize {
        ((self.groups() - wide * GROUPS).min(GROUPS) * ACT_BLOCK).div_ceil(TILE_COLS)
    }

    /// Strips of tokens.
    #[inline(always)]
    pub(super) fn strips(&self) -> usize {
        self.strips.len()
    }

    /// A wide group of the tokens.
    #[inline(always)]
    pub(super) fn tokens(&self, wide: usize) -> &[Strip] {
        &self.task.input.group(wide)[self.strips.clone()]
    }

    /// Where the tokens of strip `strip` of the pass begin, and how many there are up to the end.
    #[inline(always)]
    pub(super) fn first_token(&self, strip: usize) -> (usize, usize) {
        let first = (self.strips.start + strip) * STRIP_ROWS;
        (first, self.task.input.rows().saturating_sub(first))
    }

    /// The parts of recoding that are done beside strip `strip`, so that they are spread over all.
    #[inline(always)]
    pub(super) fn parts(&self, strip: usize) -> Range<usize> {
        let parts = PARTS.div_ceil(self.strips.len());
        PARTS.min(strip * parts)..PARTS.min((strip + 1) * parts)
    }

    /// Recodes all of the first item.
    ///
    /// # Safety
    /// As for [`matmul`].
    #[inline(always)]
    pub(super) unsafe fn recode_first<L: WideLoop, const QUANT: u8>(&self, weights: &mut Weights) {
        // SAFETY: the caller's promise.
        unsafe { self.recode::<L, QUANT>(Item::FIRST, 0..PARTS, weights) }
    }

    /// Recodes parts of what an item multiplies. `part` counts the panels of a group of 32 columns, then those groups; what is not there
    /// is left out.
    ///
    /// # Safety
    /// As for [`matmul`].
    #[inline(always)]
    pub(super) unsafe fn recode<L: WideLoop, const QUANT: u8>(
        &self,
        item: Item,
        part: Range<usize>,
        weights: &mut Weights,
    ) {
        let n = self.task.block.get();
        let (head, block) = (Form::<QUANT>::HEAD_BYTES, Form::<QUANT>::superblock_bytes(n));
        // Sizes of blocks are powers of two, by which nothing is divided here: that takes longer than the rest.
        let (bytes, of_group) = (head + self.task.blocks * block, (block * ACT_BLOCK) >> n.trailing_zeros());
        let groups = item.wide * GROUPS..self.groups().min((item.wide + 1) * GROUPS);
        for i in part {
            let (j, slot) = (i / PANELS, i % PANELS);
            let (group, panel) = (groups.start + j, self.panels.start + item.pair * PANELS + slot);
            if group >= groups.end || panel >= self.panels.end {
                continue;
            }
            // SAFETY: the caller's promises; the panel is one of the task and has the groups.
            unsafe {
                let panel = self.task.weights.as_ptr().add(panel * bytes);
                // What comes next is this group of the pair after this one.
                Avx512::fetch(
                    panel.wrapping_add(PANELS * bytes + head + group * of_group),
                    of_group,
                    CacheLevel::Second,
                );
                if j == 0 {
                    (weights.scales[slot], weights.inverse[slot]) =
                        self.recoder.scale::<QUANT>(panel, n, groups.clone());
                }
                let codes = self.recoder.codes::<QUANT>(panel, n, group, &weights.inverse[slot]);
                let tile = &mut weights.codes[j * ACT_BLOCK / TILE_COLS][slot].0;
                let lines = &mut tile[j * QUADS % TILE_ROWS..][..QUADS];
                for i in 0..QUADS {
                    let codes = if L::UNSIGNED {
                        Avx512::add_codes(codes[i], Avx512::splat_codes(CODE_OFFSET as u8))
                    } else {
                        codes[i]
                    };
                    _mm512_storeu_si512(lines[i].as_mut_ptr().cast(), codes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::amx::tests::random_panels;
    use super::super::wide_tiles::{ByTiles, matmul_amx};
    use super::super::wide_units::EmulatedWide;
    use super::super::wide_vnni::matmul_vnni;
    use super::*;
    use crate::isa::Isa;
    use crate::kernels::WideKernel;
    use crate::tile_permission::tiles_allowed;
    use crate::{Cpu, decode_panel_row};
    use qsf_format::{BUILT_IN, BlockSize, QuantType};

    static EMULATED: &[Option<WideKernel>] = &kernels!("emulated", emulated);
    static VNNI: &[Option<WideKernel>] = &kernels!("vnni", matmul_vnni);
    static AMX: &[Option<WideKernel>] = &kernels!("amx", matmul_amx);

    /// # Safety
    /// As for [`matmul`]; the processor must have these instructions.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn emulated<const QUANT: u8>(task: &PanelTask<'_, Int8x128Rows>, out: PanelOut) {
        // SAFETY: the caller's promises.
        unsafe { matmul::<ByTiles<EmulatedWide>, QUANT>(task, out) }
    }

    /// Random panels of one type.
    struct Case {
        quant: QuantType,
        block: BlockSize,
        panels: usize,
        cols: usize,
        weights: Vec<u8>,
    }

    impl Case {
        fn new(quant: QuantType, block: BlockSize, panels: usize, cols: usize) -> Case {
            let block = quant.block_size(block);
            let mut weights = random_panels(quant, block, panels, cols.div_ceil(block.get()));
            // Codes that the format does not have would go beyond the scale: 3 and -128. Scales lose a bit with them.
            weights.iter_mut().for_each(|byte| match quant {
                QuantType::Ternary => *byte &= !(*byte >> 1 & *byte & 0x55),
                QuantType::Q8 if *byte == 0x80 => *byte = 0x81,
                _ => (),
            });
            Case { quant, block, panels, cols, weights }
        }

        /// Results with a stride larger than the rows, of which nothing may be written between.
        fn run(&self, kernels: &[Option<WideKernel>], input: &Int8x128Rows) -> Vec<f32> {
            let rows = self.panels * PANEL_ROWS;
            let mut out = vec![f32::NAN; input.rows() * (rows + 3)];
            let to = PanelOut { start: out.as_mut_ptr(), stride: rows + 3 };
            let task = PanelTask {
                weights: &self.weights,
                panels: self.panels,
                blocks: self.cols.div_ceil(self.block.get()),
                block: self.block,
                tables: &BUILT_IN,
                input,
                tokens: 0..input.rows(),
            };
            let kernel = kernels.iter().flatten().find(|kernel| kernel.quant() == self.quant).unwrap();
            // SAFETY: there is room for all results.
            unsafe { kernel.matmul(&task, to) };
            for behind in out.chunks_exact(rows + 3).map(|token| &token[rows..]) {
                assert!(
                    behind.iter().all(|v| v.is_nan()),
                    "{}: written behind the rows of a token",
                    self.quant
                );
            }
            out.chunks_exact(rows + 3).flat_map(|token| &token[..rows]).copied().collect()
        }

        /// The weights of a row, and those of the padding.
        fn row(&self, row: usize) -> Vec<f32> {
            let panel = self.weights.chunks_exact(self.weights.len() / self.panels).nth(row / PANEL_ROWS);
            let mut w = vec![0.0; self.cols.next_multiple_of(self.block.get())];
            let (quant, block) = (self.quant, self.block);
            decode_panel_row(Isa::SCALAR, quant, block, &BUILT_IN, panel.unwrap(), row % PANEL_ROWS, &mut w);
            w
        }

        /// The weights that a kernel multiplies, row by row: what one activation at a time gives.
        fn seen(&self, kernels: &[Option<WideKernel>]) -> Vec<Vec<f64>> {
            let mut x = vec![0.0; self.cols * self.cols];
            x.iter_mut().step_by(self.cols + 1).for_each(|x| *x = 127.0);
            let out = self.run(kernels, &quantized(&x, self.cols));
            let rows = self.panels * PANEL_ROWS;
            let column = |row: usize, col: usize| f64::from(out[col * rows + row]) / 127.0;
            (0..rows).map(|row| (0..self.cols).map(|col| column(row, col)).collect()).collect()
        }
    }

    fn quantized(x: &[f32], cols: usize) -> Int8x128Rows {
        let mut input = Int8x128Rows::new();
        input.quantize(&Cpu::new(Isa::best()), x, x.len() / cols, cols);
        input
    }

    /// A product: of a matrix, and of so many rows of activations.
    #[derive(Clone, Copy)]
    struct Shape {
        panels: usize,
        cols: usize,
        rows: usize,
    }

    fn check(kernels: &[Option<WideKernel>], quant: QuantType, block: BlockSize, shape: Shape) {
        let Shape { panels, cols, rows } = shape;
        let case = Case::new(quant, block, panels, cols);
        let seen = case.seen(kernels);
        // Codes of learned types need not come near the largest that a scale is made for.
        let most = if quant.is_learned() { 0.95 } else { 0.56 };
        for (row, seen) in seen.iter().enumerate() {
            let w = case.row(row);
            for (group, seen) in seen.chunks(WIDE_GROUP).enumerate() {
                let w = &w[group * WIDE_GROUP..w.len().min((group + 1) * WIDE_GROUP)];
                let largest = w.iter().fold(0.0, |top: f64, w| top.max(f64::from(*w).abs()));
                for (w, seen) in w.iter().zip(seen) {
                    let off = (seen - f64::from(*w)).abs() / (largest / 127.0);
                    assert!(off <= most, "{quant} {block}: row {row}: {w} became {seen}, {off} steps off");
                }
            }
        }
        let x: Vec<f32> = (0..rows * cols)
            .map(|i| (((i * 7919) % 1009) as f32 * 0.013 - 6.0) * (1 + i % cols / WIDE_GROUP * 5) as f32)
            .collect();
        let input = quantized(&x, cols);
        let out = case.run(kernels, &input);
        for (token, out) in out.chunks_exact(panels * PANEL_ROWS).enumerate() {
            for (row, (found, seen)) in out.iter().zip(&seen).enumerate() {
                let products = seen.iter().enumerate().map(|(i, w)| w * f64::from(input.value(token, i)));
                let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
                let error = (f64::from(*found) - sum).abs();
                assert!(
                    error <= 1e-6 * size,
                    "{quant} {block}: row {row}, token {token} of {rows}: {found}, expected {sum}"
                );
            }
        }
    }

    fn check_all(kernels: &[Option<WideKernel>]) {
        let some = [QuantType::Q4, QuantType::T3];
        // Beyond what one pass takes.
        let (many_panels, many_rows) = (PASS_PANELS + 3, PASS_STRIPS * STRIP_ROWS + 3);
        for quant in kernels.iter().flatten().map(WideKernel::quant) {
            for block in BlockSize::ALL {
                check(kernels, quant, block, Shape { panels: 1, cols: 1, rows: 1 });
                check(kernels, quant, block, Shape { panels: 3, cols: 300, rows: 35 });
                check(kernels, quant, block, Shape { panels: 2, cols: 545, rows: 64 });
            }
            let check = |shape| check(kernels, quant, BlockSize::B64, shape);
            check(Shape { panels: PASS_PANELS + 1, cols: 63, rows: 18 });
            check(Shape { panels: 1, cols: 65, rows: many_rows });
            if some.contains(&quant) {
                check(Shape { panels: many_panels, cols: 300, rows: many_rows });
            }
        }
    }

    #[test]
    fn a_scale_that_is_no_number_shows_in_its_row_only() {
        if !Isa::available().iter().any(|isa| isa.name() == "avx512") {
            eprintln!("skipped: needs AVX-512");
            return;
        }
        for bad in [0x7C00u16, 0x7E00] {
            let mut case = Case::new(QuantType::Q4, BlockSize::B64, 1, 512);
            // Scale of row 3 in the first block.
            case.weights[6..8].copy_from_slice(&bad.to_le_bytes());
            let out = case.run(EMULATED, &quantized(&[1.0; 512], 512));
            assert!(out.iter().enumerate().all(|(row, v)| v.is_finite() == (row != 3)), "{bad:x}: {out:?}");
        }
    }

    #[test]
    fn products_are_those_of_the_weights_rounded_to_eight_bits() {
        if !Isa::available().iter().any(|isa| isa.name() == "avx512") {
            eprintln!("skipped: needs AVX-512");
            return;
        }
        check_all(EMULATED);
        check_all(VNNI);
        for quant in EMULATED.iter().flatten().map(WideKernel::quant) {
            for (panels, cols, rows) in [(3, 700, 45), (2, 96, 33), (1, 160, 7)] {
                let case = Case::new(quant, BlockSize::B32, panels, cols);
                let x: Vec<f32> =
                    (0..rows * cols).map(|i| ((i * 7919) % 1009) as f32 * 0.013 - 6.0).collect();
                let [tiles, registers] =
                    [EMULATED, VNNI].map(|kernels| case.run(kernels, &quantized(&x, cols)));
                let same = tiles.iter().zip(&registers).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{quant}: processors with tiles and without would give other texts");
            }
        }
        if tiles_allowed() {
            check_all(AMX);
        } else {
            eprintln!("the tile unit itself is not tested: this processor has none");
        }
    }
}
