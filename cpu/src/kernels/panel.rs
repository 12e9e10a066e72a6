//! What a kernel is given, and the arithmetic that all of them share.
//!
//! Kernels multiply *panels*: 16 rows of a weight matrix whose blocks are interleaved (SPEC.md section 6, layout 3), so that
//! 64 bytes hold the codes of four columns of all 16 rows, and sums of columns need no additions across a register. Weights
//! in plain rows are brought into that order on the way ([`super::rows`]).
//!
//! A weight is `a * u + b` with an integer u; an activation is `dx * x` with a signed code x. For each group of 32 columns,
//! in ascending order, and each row and token of its own:
//!
//! ```text
//! isum = sum of u * x over the group              exact
//! acc  = fma(a * dx, isum, acc)                   a * dx is rounded once
//! accb = fma(b, sx, accb)                         sx = dx * (sum of x)
//! ```
//!
//! and the result is `acc + accb`. Of learned types, with the scale R of a row and the shift c of [`CodeTables`], it is
//! `R * 2^-12 * fma(accb, c, acc)` for a `Grid` and `R * 2^-7 * acc` for a `Trellis`: a and b are in these units. Every kernel does
//! exactly this, so all give the same bits, alone or in a batch. For table entries T, A and B:
//!
//! | [`Encoding`](qsf_format::Encoding) | u | a | b |
//! |---|---|---|---|
//! | `Affine` | code, unsigned | scale | min |
//! | `Symmetric` | code, unsigned | d times the step of levels | d times the first level |
//! | `SignedBytes` | code, signed | d | none: the result is `acc` |
//! | `Grid`, levels in a table | T\[code\] | s | s for the second grid; 0 for the first |
//! | `Grid`, even levels | 2 * code - 64 | s | s or 0, as with a table |
//! | `Trellis` | A\[newest\] + B\[oldest\] | 1 | none |
//!
//! Wide kernels ([`WideKernel`]) give 256 columns one scale, d of a token and s of a row of weights, whose a, b and u become a code c
//! of 8 bits, `s * c` being near `a * u + b`. For each such group, in ascending order:
//!
//! ```text
//! isum = sum of c * x over the group              exact
//! acc  = fma(s * isum, d, acc)                    s * isum is rounded once
//! ```
//!
//! and the result is `acc`: not that of other kernels, for codes are not.

use std::ops::Range;

use qsf_format::panels::panel_bytes;
use qsf_format::{BlockSize, CodeTables, QuantType};

use crate::activations::Int8Rows;
use crate::int8x128_rows::Int8x128Rows;

/// Activations in a form that kernels multiply.
pub trait Rows {
    /// Number of rows (tokens).
    fn rows(&self) -> usize;
    /// True columns of a row.
    fn cols(&self) -> usize;
    /// What a kernel sees of an activation.
    fn value(&self, row: usize, col: usize) -> f32;
}

macro_rules! rows {
    ($type:ident) => {
        impl Rows for $type {
            fn rows(&self) -> usize {
                self.rows()
            }

            fn cols(&self) -> usize {
                self.cols()
            }

            fn value(&self, row: usize, col: usize) -> f32 {
                self.value(row, col)
            }
        }
    };
}
rows!(Int8Rows);
rows!(Int8x128Rows);

/// Panels of a weight matrix of block type, and activations to multiply them with.
#[derive(Debug, Clone)]
pub struct PanelTask<'a, X = Int8Rows> {
    /// `panels` panels, one after the other.
    pub weights: &'a [u8],
    /// How many.
    pub panels: usize,
    /// Blocks of a row.
    pub blocks: usize,
    /// Values per block, of this type.
    pub block: BlockSize,
    /// What codes of a learned type stand for; other types do not look at it.
    pub tables: &'a CodeTables,
    /// Activations of all tokens of the call.
    pub input: &'a X,
    /// The tokens to compute.
    pub tokens: Range<usize>,
}

/// Where results go: that of row r of panel p with token t to `start + t * stride + 16 * p + r`.
#[derive(Debug, Clone, Copy)]
pub struct PanelOut {
    /// The result of the first row with the first token.
    pub start: *mut f32,
    /// Floats from the results of a token to those of the next.
    pub stride: usize,
}

/// Computes a task.
///
/// # Safety
/// The processor must have the instruction set that the function was compiled for. The weights must be the panels that the
/// task says, the input must have the tokens, and as many columns (padding included) as a panel. Behind `start` there must
/// be room for every result, which no other thread uses meanwhile.
pub(super) type PanelFn<X = Int8Rows> = unsafe fn(&PanelTask<'_, X>, PanelOut);

/// A kernel for one stored type, and activations in the form `X`.
#[derive(Debug)]
pub struct PanelKernel<X> {
    pub(super) quant: QuantType,
    pub(super) name: &'static str,
    // Private to the kernels: a table, and so a kernel, is only had from an `Isa`, which proves the instruction set.
    pub(super) matmul: PanelFn<X>,
}

impl<X> Clone for PanelKernel<X> {
    fn clone(&self) -> PanelKernel<X> {
        *self
    }
}

impl<X> Copy for PanelKernel<X> {}

/// A kernel that multiplies activations of 8 bits.
pub type Int8Kernel = PanelKernel<Int8Rows>;
/// A kernel that multiplies activations, and weights recoded, with a scale per 256 columns.
pub type WideKernel = PanelKernel<Int8x128Rows>;

impl<X> PanelKernel<X> {
    /// The name in reports.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The stored type of the weights.
    pub const fn quant(&self) -> QuantType {
        self.quant
    }
}

impl<X: Rows> PanelKernel<X> {
    /// Computes a task over whole panels.
    ///
    /// # Panics
    /// When the weights are not the panels that the task says, or the input has other columns or fewer tokens.
    ///
    /// # Safety
    /// There must be room for every result behind `out.start`, and no other thread may use it meanwhile.
    pub unsafe fn matmul(&self, task: &PanelTask<'_, X>, out: PanelOut) {
        assert_eq!(task.block, self.quant.block_size(task.block), "blocks of another size than the type's");
        assert_eq!(
            Some(task.weights.len()),
            task.panels.checked_mul(panel_bytes(self.quant, task.block, task.blocks)),
            "weights are not {} panels of {} blocks",
            task.panels,
            task.blocks
        );
        assert_eq!(task.blocks, task.input.cols().div_ceil(task.block.get()), "input of other columns");
        assert!(task.tokens.end <= task.input.rows(), "tokens {:?} of fewer", task.tokens);
        // SAFETY: a kernel comes from the table of an `Isa`, whose value proves the instruction set; sizes have just been
        // checked, and the input is padded to the largest block; the output is the caller's promise.
        unsafe { (self.matmul)(task, out) }
    }
}
