//! Panels times batches of tokens in wide groups: 256 columns share a scale, of a token as of a row of weights, whose own codes,
//! scales and offsets become codes of 8 bits for that, once for up to 512 tokens. So integers are summed up over 256 columns before
//! anything is scaled, which is what bounds the kernels of exact weights ([`super::amx`]).
//!
//! Order of the loops: a group of all tokens of a pass (128 KiB) stays in the second-level cache for 16 panels; that of a pair of
//! panels (8 KiB) in the first-level cache for all tokens. Results wait in between, and are read and written once per group. While
//! the unit multiplies a strip of tokens, the sums of the one before are scaled, a part after each step of the unit, and a part of the
//! next pair of panels is recoded: so both always have something to do. All of that is compiled into one function, as calls take the
//! registers of vectors, which costs much there.

use core::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use qsf_format::panels::PANEL_ROWS;

use super::avx512::Avx512;
use super::group::QUADS;
use super::recode::Recoder;
use super::tiles::Floats;
use super::wide_units::{AmxWide, IntSums, PANELS, Weights, WideUnit};
use crate::activations::ACT_BLOCK;
use crate::int8x256_rows::{Int8x256Rows, STEPS, STRIP_ROWS, TILE_COLS, TILE_ROWS, TILES, WIDE_GROUP};
use crate::kernels::form::Form;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::fetch;

/// Strips of 32 tokens of a pass, and panels: results of 512 KiB.
const PASS_STRIPS: usize = 16;
const PASS_PANELS: usize = 16;
/// Groups of a recoded weight's own that share a wide one.
const GROUPS: usize = WIDE_GROUP / ACT_BLOCK;
/// Parts that the work on a pair of panels is cut into: groups of panels.
const PARTS: usize = GROUPS * PANELS;

const _: () = assert!(STEPS == TILES * PANELS, "a part of the sums is scaled after each step");

/// Results of a strip of tokens and a pair of panels, in the order of sums, and a page as they are: so what is loaded never seems to
/// depend on what was just stored at the same place of another page.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4096))]
struct Results([[[[f32; PANEL_ROWS]; TILE_ROWS]; PANELS]; TILES]);

const NO_RESULTS: Results = Results([[[[0.0; PANEL_ROWS]; TILE_ROWS]; PANELS]; TILES]);

/// What a thread needs between the steps of a task. It only grows, and not with the number of tokens.
#[derive(Default)]
struct Scratch {
    /// The pair at work and the next.
    weights: Box<[Weights; 2]>,
    /// Of the last product.
    sums: Box<IntSums>,
    /// Pairs of panels x strips.
    results: Vec<Results>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The product by tiles for the type with the id `QUANT`. Takes all tokens of the input.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have AVX2, FMA, F16C and AVX-512 F, BW, DQ, VL and VNNI,
/// and [`tiles_allowed`](crate::tile_permission::tiles_allowed) must have allowed tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul_amx<const QUANT: u8>(task: &PanelTask<'_, Int8x256Rows>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { matmul::<AmxWide, QUANT>(task, out) }
}

/// # Safety
/// As for [`matmul_amx`] but for the tiles, which `U` may need.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn matmul<U: WideUnit, const QUANT: u8>(task: &PanelTask<'_, Int8x256Rows>, out: PanelOut) {
    assert_eq!(
        task.tokens,
        0..task.input.rows(),
        "a part of the tokens, of which strips would have others too"
    );
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: the caller's promise; the unit is set up once on this thread.
        let mut unit = unsafe { U::new() };
        let recoder = Recoder::new::<QUANT>(task.tables);
        let strips = task.input.strips();
        for strip in (0..strips).step_by(PASS_STRIPS) {
            for panel in (0..task.panels).step_by(PASS_PANELS) {
                let panels = panel..task.panels.min(panel + PASS_PANELS);
                let pass =
                    Pass { task, recoder: &recoder, strips: strip..strips.min(strip + PASS_STRIPS), panels };
                // SAFETY: the caller's promises; strips and panels are of the task.
                unsafe { pass.run::<U, QUANT>(&mut unit, scratch, out) };
            }
        }
    });
}

/// Some strips of tokens and some panels of a task.
struct Pass<'a> {
    task: &'a PanelTask<'a, Int8x256Rows>,
    recoder: &'a Recoder,
    strips: Range<usize>,
    panels: Range<usize>,
}

/// A wide group of a pair of panels. All pairs of the first group come first, then those of the next.
#[derive(Clone, Copy)]
struct Item {
    wide: usize,
    pair: usize,
}

/// Sums that wait, and what is done with them.
#[derive(Clone, Copy)]
struct Due<'a> {
    of_tokens: &'a [f32; STRIP_ROWS],
    of_rows: [Floats; PANELS],
    strip: usize,
    pair: usize,
    first: bool,
    last: bool,
}

impl Pass<'_> {
    /// # Safety
    /// As for [`matmul`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<U: WideUnit, const QUANT: u8>(&self, unit: &mut U, scratch: &mut Scratch, out: PanelOut) {
        let (strips, pairs) = (self.strips.len(), self.pairs());
        if scratch.results.len() < pairs * strips {
            scratch.results.resize(pairs * strips, NO_RESULTS);
        }
        let Scratch { weights, sums, results } = scratch;
        let [mut now, mut next] = weights.each_mut();
        let wide = self.groups().div_ceil(GROUPS);
        let mut item = Item { wide: 0, pair: 0 };
        // SAFETY: the caller's promises.
        unsafe { self.recode::<QUANT>(item, 0..PARTS, now) };
        let parts = PARTS.div_ceil(strips);
        let mut due: Option<Due<'_>> = None;
        while item.wide < wide {
            let next_item = if item.pair + 1 < pairs {
                Item { pair: item.pair + 1, ..item }
            } else {
                Item { wide: item.wide + 1, pair: 0 }
            };
            let steps = ((self.groups() - item.wide * GROUPS).min(GROUPS) * ACT_BLOCK).div_ceil(TILE_COLS);
            for (strip, tokens) in self.task.input.group(item.wide)[self.strips.clone()].iter().enumerate() {
                let part = PARTS.min(strip * parts)..PARTS.min((strip + 1) * parts);
                unit.clear();
                for step in 0..STEPS {
                    if step < steps {
                        unit.add(&tokens.codes[step], &now.codes[step]);
                    }
                    if let Some(due) = &due {
                        // SAFETY: the caller's promises.
                        unsafe { self.scale(due, step, sums, results, out) };
                    }
                    if step == STEPS / 2 - 1 {
                        // SAFETY: the caller's promises.
                        unsafe { self.recode::<QUANT>(next_item, part.clone(), next) };
                    }
                }
                unit.store(sums);
                let (first, last) = (item.wide == 0, item.wide + 1 == wide);
                let (of_tokens, of_rows) = (&tokens.scales, now.scales);
                due = Some(Due { of_tokens, of_rows, strip, pair: item.pair, first, last });
            }
            std::mem::swap(&mut now, &mut next);
            item = next_item;
        }
        if let Some(due) = &due {
            // SAFETY: the caller's promises.
            (0..STEPS).for_each(|part| unsafe { self.scale(due, part, sums, results, out) });
        }
    }

    /// Pairs of panels.
    fn pairs(&self) -> usize {
        self.panels.len().div_ceil(PANELS)
    }

    /// Groups of 32 columns of a row of weights.
    fn groups(&self) -> usize {
        self.task.blocks * self.task.block.get() / ACT_BLOCK
    }

    /// Recodes parts of what an item multiplies. `part` counts the panels of a group of 32 columns, then those groups; what is not there
    /// is left out.
    ///
    /// # Safety
    /// As for [`matmul`].
    #[inline(always)]
    unsafe fn recode<const QUANT: u8>(&self, item: Item, part: Range<usize>, weights: &mut Weights) {
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
                fetch::<Avx512>(panel.wrapping_add(PANELS * bytes + head + group * of_group), of_group);
                if j == 0 {
                    (weights.scales[slot], weights.inverse[slot]) =
                        self.recoder.scale::<QUANT>(panel, n, groups.clone());
                }
                let codes = self.recoder.codes::<QUANT>(panel, n, group, &weights.inverse[slot]);
                let tile = &mut weights.codes[j * ACT_BLOCK / TILE_COLS][slot].0;
                let lines = &mut tile[j * QUADS % TILE_ROWS..][..QUADS];
                for i in 0..QUADS {
                    _mm512_storeu_si512(lines[i].as_mut_ptr().cast(), codes[i]);
                }
            }
        }
    }

    /// Adds part `part` of sums, a tile of tokens times a panel, to results with the scales of tokens and rows. Those of the last group
    /// go to where they are wanted: so that is done while the unit is busy too.
    ///
    /// # Safety
    /// As for [`matmul`].
    #[inline(always)]
    unsafe fn scale(
        &self,
        due: &Due<'_>,
        part: usize,
        sums: &IntSums,
        results: &mut [Results],
        out: PanelOut,
    ) {
        let (tile, panel) = (part / PANELS, part % PANELS);
        let sums = &sums.0[tile][panel].0;
        let of_tokens = &due.of_tokens[tile * TILE_ROWS..][..TILE_ROWS];
        let results = &mut results[due.pair * self.strips.len() + due.strip].0[tile][panel];
        // SAFETY: 16 floats.
        let of_rows = unsafe { _mm512_loadu_ps(due.of_rows[panel].0.as_ptr()) };
        // By numbers: iterators over several arrays are not always compiled into this function.
        if !due.last {
            for token in 0..TILE_ROWS {
                // SAFETY: the caller's promise; all is 64 bytes.
                unsafe {
                    let before = if due.first { None } else { Some(&results[token]) };
                    let result = scaled(&sums[token], of_rows, of_tokens[token], before);
                    _mm512_storeu_ps(results[token].as_mut_ptr(), result);
                }
            }
            return;
        }
        let panel = self.panels.start + due.pair * PANELS + panel;
        if panel < self.panels.end {
            let first = (self.strips.start + due.strip) * STRIP_ROWS + tile * TILE_ROWS;
            for token in 0..self.task.input.rows().saturating_sub(first).min(TILE_ROWS) {
                // SAFETY: the caller's promise: there is room for the results of every token and panel.
                unsafe {
                    let before = if due.first { None } else { Some(&results[token]) };
                    let result = scaled(&sums[token], of_rows, of_tokens[token], before);
                    let out = out.start.add((first + token) * out.stride + PANEL_ROWS * panel);
                    _mm512_storeu_ps(out, result);
                }
            }
        }
    }
}

/// Sums of a token times the scales of rows and token, plus what was before.
///
/// # Safety
/// To be called from a function compiled with AVX-512.
#[inline(always)]
unsafe fn scaled(
    sums: &[i32; PANEL_ROWS],
    of_rows: __m512,
    of_token: f32,
    before: Option<&[f32; PANEL_ROWS]>,
) -> __m512 {
    // SAFETY: the caller's promise; all is 64 bytes.
    unsafe {
        let sums = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums.as_ptr().cast())), of_rows);
        let before = match before {
            Some(before) => _mm512_loadu_ps(before.as_ptr()),
            None => _mm512_setzero_ps(),
        };
        _mm512_fmadd_ps(sums, _mm512_set1_ps(of_token), before)
    }
}

#[cfg(test)]
mod tests {
    use super::super::amx::tests::random_panels;
    use super::super::wide_units::EmulatedWide;
    use super::*;
    use crate::isa::Isa;
    use crate::kernels::WideKernel;
    use crate::tile_permission::tiles_allowed;
    use crate::{Cpu, decode_panel_row};
    use qsf_format::{BUILT_IN, BlockSize, QuantType};

    static EMULATED: &[Option<WideKernel>] = &kernels!("emulated", emulated);
    static AMX: &[Option<WideKernel>] = &kernels!("amx", matmul_amx);

    /// # Safety
    /// As for [`matmul`]; the processor must have these instructions.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn emulated<const QUANT: u8>(task: &PanelTask<'_, Int8x256Rows>, out: PanelOut) {
        // SAFETY: the caller's promises.
        unsafe { matmul::<EmulatedWide, QUANT>(task, out) }
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
        fn run(&self, kernels: &[Option<WideKernel>], input: &Int8x256Rows) -> Vec<f32> {
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

    fn quantized(x: &[f32], cols: usize) -> Int8x256Rows {
        let mut input = Int8x256Rows::new();
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
        if tiles_allowed() {
            check_all(AMX);
        } else {
            eprintln!("the tile unit itself is not tested: this processor has none");
        }
    }
}
