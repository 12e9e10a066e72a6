//! Matrices times the rows of a step: on matrix units where there are many rows and the device has such units, else a few rows at a
//! time.

use std::sync::Arc;

use wgpu::Buffer;

use super::command::{Command, MANY, TILE};
use super::recorder::Recorder;
use crate::gpu::device::Abilities;
use crate::gpu::experts::{GpuStack, StackPiece};
use crate::gpu::kernels::Kernel;
use crate::gpu::linears::GpuLinear;
use crate::gpu::weights::GpuMatrix;
use crate::gpu::wgsl::mat_mat::{self, MatMat};
use crate::gpu::wgsl::mat_vec::{Inputs, MAX_GROUPS, MatVec, Output};
use crate::gpu::wgsl::pointwise;

/// Tokens that a kernel for few takes at once.
pub(super) const FEW: usize = 4;

/// Rows of tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenRows {
    /// The first in the input.
    pub input: usize,
    /// The first in the output.
    pub output: usize,
    /// How many.
    pub count: usize,
}

/// Choices of experts that the tokens of a step have made.
#[derive(Debug, Clone, Copy)]
pub struct Choices {
    /// How many.
    pub count: usize,
    /// Which vector an expert reads.
    pub inputs: Inputs,
    /// How many tiles of them there may be, where those of the same expert are multiplied together.
    pub tiles: Option<usize>,
}

/// Where a matrix reads and writes.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub input: &'a Arc<Buffer>,
    /// Floats from one input row to the next.
    pub input_stride: usize,
    pub output: &'a Arc<Buffer>,
    pub output_stride: usize,
    /// First float of the outputs in their rows.
    pub first: usize,
}

impl Recorder<'_> {
    pub(super) fn linear(&mut self, linear: &GpuLinear, tokens: usize, way: &Way<'_>) {
        self.linear_from(linear, 0, tokens, way);
    }

    /// A matrix over the input rows from `start` on, as many as `tokens`.
    pub(super) fn linear_from(&mut self, linear: &GpuLinear, start: usize, tokens: usize, way: &Way<'_>) {
        let square = self.abilities.square.filter(|_| start == 0 && tokens >= MANY);
        self.all_pieces(linear, square.map(|square| (square, None)), start, tokens, way);
    }

    /// A matrix over inputs of which some may be larger than f16 has: where these are rounded to it, the inputs of such a token are first
    /// multiplied with a power of two, which rounds nothing else.
    pub(super) fn linear_within_f16(&mut self, linear: &GpuLinear, tokens: usize, way: &Way<'_>) {
        let Some(square) = self.abilities.square.filter(|_| tokens >= MANY) else {
            return self.linear(linear, tokens, way);
        };
        let factors = &self.state.buffers.factors;
        let job = [linear.matrix.cols, way.input_stride as u32];
        self.push(Kernel::Limit, &[way.input, factors], &job, (tokens as u32, 1, 1));
        self.all_pieces(linear, Some((square, Some(factors))), 0, tokens, way);
    }

    /// A matrix over inputs that are as large as they happen to be, and so never rounded to f16, which has nothing above 65504.
    pub(super) fn linear_of_any_size(&mut self, linear: &GpuLinear, tokens: usize, way: &Way<'_>) {
        self.all_pieces(linear, None, 0, tokens, way);
    }

    /// All rows of a matrix, on matrix units where these are given, with what is added to them.
    fn all_pieces(
        &mut self,
        linear: &GpuLinear,
        units: Option<Units<'_>>,
        start: usize,
        tokens: usize,
        way: &Way<'_>,
    ) {
        let mut of_piece = *way;
        for (matrix, bias) in linear.pieces() {
            match units {
                Some(units) => {
                    let vectors = &self.model.vectors;
                    self.commands.push(many(units, (matrix, bias), tokens, &of_piece, vectors));
                }
                None => self.by_few((matrix, bias), start, tokens, Output::Store, &of_piece),
            }
            self.add_outliers(matrix, start, tokens, None, &of_piece);
            of_piece.first += matrix.rows as usize;
        }
        self.add_low_rank(linear, start, tokens, way);
    }

    /// Whether so many tokens are multiplied on matrix units.
    pub(super) fn on_matrix_units(&self, tokens: usize) -> bool {
        tokens >= MANY && self.abilities.square.is_some()
    }

    /// A matrix, with where its bias begins, over input rows from `start` on, a few at a time.
    pub(super) fn by_few(
        &mut self,
        linear: (&GpuMatrix, Option<u32>),
        start: usize,
        tokens: usize,
        output: Output,
        way: &Way<'_>,
    ) {
        let mut first = 0;
        while first < tokens {
            let left = tokens - first;
            // All full tiles in one dispatch: those of several would wait for each other.
            let now = if left >= FEW { (left / FEW).min(MAX_GROUPS) * FEW } else { 1 };
            let rows = TokenRows { input: start + first, output: first, count: now };
            self.commands.push(few(self.abilities, linear, rows, output, way, &self.model.vectors));
            first += now;
        }
    }

    /// The matrices of the experts that were chosen.
    pub(super) fn chosen(&mut self, stack: &GpuStack, choices: Choices, output: Output, way: &Way<'_>) {
        let GpuStack { matrix, pieces, places, bias, update } = stack;
        let tokens = if choices.tiles.is_some() { TILE } else { 1 };
        let buffers = &self.state.buffers;
        let which = if choices.tiles.is_some() { &buffers.tiles } else { &buffers.chosen };
        let together = choices.tiles.unwrap_or(choices.count) as u32;
        // Each of them does what was chosen of its experts, and leaves the rest to the others.
        for StackPiece { first, words, experts } in pieces {
            let (kernel, groups) = shape(self.abilities, first, first.rows, tokens, output);
            let listed = places.is_some();
            let kernel = MatVec { experts: Some(choices.inputs), bias: bias.is_some(), listed, ..kernel };
            let job = [
                first.at,
                first.at + first.words(first.rows),
                first.superblocks(),
                first.rows,
                0,
                (way.input_stride / 4) as u32,
                way.output_stride as u32,
                way.first as u32,
                bias.unwrap_or(0),
                *words,
                self.used(),
                0,
                0,
                experts.start,
                experts.end,
            ];
            let mut bound = vec![&first.buffer, way.input, way.output, &self.model.vectors, which];
            bound.extend(places);
            self.push(Kernel::MatVec(kernel), &bound, &job, (groups.0, groups.1, together));
        }
        self.add_outliers(matrix, 0, choices.count, Some(choices.inputs), way);
        if let Some(update) = update {
            self.add_update_of_chosen(update, choices, way);
        }
    }

    /// Adds the outliers of a matrix, over the input rows from `start` on or those of each choice.
    fn add_outliers(
        &mut self,
        matrix: &GpuMatrix,
        start: usize,
        rows: usize,
        experts: Option<Inputs>,
        way: &Way<'_>,
    ) {
        let Some(outliers) = &matrix.outliers else { return };
        let job = [
            matrix.rows,
            way.input_stride as u32,
            way.output_stride as u32,
            way.first as u32,
            (start * way.input_stride) as u32,
            outliers.starts,
            outliers.weights,
            self.used(),
            0,
        ];
        let mut bound = vec![way.input, way.output, &outliers.places, &self.model.vectors];
        bound.extend(experts.map(|_| &self.state.buffers.chosen));
        let groups = (matrix.rows.div_ceil(pointwise::THREADS as u32), rows as u32, 1);
        self.push(Kernel::Outliers(experts), &bound, &job, groups);
    }

    /// Experts that each token goes through; 0 without any.
    pub(super) fn used(&self) -> u32 {
        self.model.config.experts.as_ref().map_or(0, |experts| experts.used)
    }
}

/// Matrix units: the side of their squares, and what inputs of each token are multiplied with where they can be too large.
pub type Units<'a> = (usize, Option<&'a Arc<Buffer>>);

/// A matrix times many rows, on matrix units.
pub fn many(
    (square, factors): Units<'_>,
    (matrix, bias): (&GpuMatrix, Option<u32>),
    tokens: usize,
    way: &Way<'_>,
    vectors: &Arc<Buffer>,
) -> Command {
    let kernel = MatMat { codes: matrix.codes, bias: bias.is_some(), scaled: factors.is_some(), square };
    let job = [
        matrix.at,
        matrix.superblocks(),
        matrix.rows,
        tokens as u32,
        (way.input_stride / 4) as u32,
        way.output_stride as u32,
        way.first as u32,
        bias.unwrap_or(0),
    ];
    let tiles = |count: usize| count.div_ceil(mat_mat::TILE) as u32;
    let groups = (tiles(matrix.rows as usize), tiles(tokens), 1);
    let mut bound = vec![&matrix.buffer, way.input, way.output, vectors];
    bound.extend(factors);
    Command::new(Kernel::MatMat(kernel), &bound, &job, groups)
}

/// A matrix over rows of a few tokens, or of any number of whole tiles of [`FEW`].
pub fn few(
    abilities: Abilities,
    (matrix, bias): (&GpuMatrix, Option<u32>),
    token_rows: TokenRows,
    output: Output,
    way: &Way<'_>,
    vectors: &Arc<Buffer>,
) -> Command {
    let tokens = token_rows.count.min(FEW);
    let tiles = token_rows.count / tokens;
    // Half of the rows are those of the gate.
    let rows = if output == Output::Store { matrix.rows } else { matrix.rows / 2 };
    let (kernel, groups) = shape(abilities, matrix, rows, tokens, output);
    // Tiles are as the tokens of one head.
    let experts = (tiles > 1).then_some(Inputs::EachHead);
    let kernel = MatVec { bias: bias.is_some(), experts, ..kernel };
    let groups = (groups.0, groups.1, tiles as u32);
    let job = [
        matrix.at,
        matrix.at + matrix.words(rows),
        matrix.superblocks(),
        rows,
        (token_rows.input * way.input_stride / 4) as u32,
        (way.input_stride / 4) as u32,
        way.output_stride as u32,
        (token_rows.output * way.output_stride + way.first) as u32,
        bias.unwrap_or(0),
        0,
        1,
        0,
        0,
        0,
        0,
    ];
    Command::new(Kernel::MatVec(kernel), &[&matrix.buffer, way.input, way.output, vectors], &job, groups)
}

/// Threads that keep a large device busy.
const THREADS: usize = 1 << 18;
/// More threads than this for the same inputs, of which each workgroup makes integers for itself, do not pay.
const MOST_FOR_INTEGERS: usize = 512;

/// The kernel for `rows` outputs, and its workgroups: those of large matrices share inputs among more panels, small ones are
/// spread over the device by more threads for each panel.
pub(super) fn shape(
    abilities: Abilities,
    matrix: &GpuMatrix,
    rows: u32,
    tokens: usize,
    output: Output,
) -> (MatVec, (u32, u32, u32)) {
    let panels = rows.div_ceil(16) as usize;
    let integers = tokens == 1 && abilities.integer_dot && matrix.codes.is_linear();
    let most = if integers { MOST_FOR_INTEGERS } else { usize::MAX }.min(abilities.max_threads).max(64);
    let (own, threads) = match (panels, tokens) {
        (_, 2..) => (1, 128),
        (4096.., 1) if output == Output::Store => (4, 256),
        (1024.., 1) if integers => (2, 256),
        (2048.., 1) => (2, 256),
        // No more than have a superblock.
        _ => {
            let busy = (THREADS / panels).max(256).min(16 * matrix.superblocks() as usize);
            (1, busy.next_power_of_two().clamp(64, most))
        }
    };
    let parts = if output == Output::Store { 1 } else { 2 };
    let kernel = MatVec {
        codes: matrix.codes,
        tokens,
        panels: own * parts,
        threads,
        bias: false,
        output,
        integers,
        experts: None,
        listed: false,
    };
    let groups = panels.div_ceil(own);
    (kernel, (groups.min(MAX_GROUPS) as u32, groups.div_ceil(MAX_GROUPS) as u32, 1))
}
