//! Matrices as MLX packs them. For a layer `X` with `in` inputs and `out` outputs (of experts in one tensor, a dimension
//! more in front):
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X.weight` | out, in * bits / 32 | codes, the first in the lowest bits; one may begin in one word and end in the next |
//! | `X.scales` | out, in / group | floats; in the mode mxfp4 one byte, the exponent of a power of two plus 127 |
//! | `X.biases` | out, in / group | floats; none in the mode mxfp4 |
//!
//! Everything is used in place.

use std::sync::Arc;

use super::gptq::contradiction;
use super::matrix::PackedMatrix;
use super::packed_part::PackedPart;
use super::rows::{Groups, Meaning, PackedRows, WIDTHS};
use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::tensor::ForeignType;
use crate::tensor::{StoredType, Tensor};

/// How a matrix is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Mlx {
    /// Bits of a code.
    pub bits: u32,
    /// Inputs of a group.
    pub group_size: usize,
    /// What codes and scales mean.
    pub mode: Mode,
}

/// What codes and scales mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mode {
    /// `scale * code + bias`.
    Affine,
    /// Codes are floats of 4 bits, scales powers of two (OCP Microscaling Formats Specification 1.0, section 5.3).
    Mxfp4,
}

/// Widths of affine codes.
pub(super) const BITS: [u32; 6] = WIDTHS;

/// Sizes of affine groups.
pub(super) const GROUP_SIZES: [usize; 3] = [32, 64, 128];

/// Bits and group size of the mode mxfp4.
pub(super) const MXFP4: (u32, usize) = (4, 32);

/// The values of floats of 4 bits: sign, two bits of exponent, one of mantissa (section 5.3.3 there).
pub(super) static E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

#[derive(Debug)]
struct Matrix {
    weight: String,
    scales: String,
    biases: String,
    /// Experts where there are some, outputs, inputs.
    shape: Vec<usize>,
    format: Mlx,
}

impl Mlx {
    /// The matrix of the layer `stem`.
    pub fn matrix(self, stem: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
        let name = |end: &str| format!("{stem}.{end}");
        let (weight, scales, biases) = (name("weight"), name("scales"), name("biases"));
        let codes = PackedPart::new(store, &weight, &scales)?;
        codes.need_words()?;
        let found = || format!("shape {:?}", codes.shape());
        let Some((&columns, outer)) = codes.shape().split_last().filter(|(_, outer)| !outer.is_empty())
        else {
            return Err(codes.wrong("at least two dimensions", found()));
        };
        let all_bits = columns.checked_mul(32).filter(|_| !codes.shape().contains(&0));
        let inputs = all_bits.filter(|all| all.is_multiple_of(self.bits as usize));
        let inputs = inputs.map(|all| all / self.bits as usize);
        let inputs = inputs.filter(|inputs| inputs.is_multiple_of(self.group_size)).ok_or_else(|| {
            let expected =
                format!("columns for whole groups of {} codes of {} bits", self.group_size, self.bits);
            codes.wrong(expected, found())
        })?;
        let shape_of = |last: usize| [outer, &[last]].concat();
        let why = format!("{inputs} inputs in groups of {}", self.group_size);
        let factors = PackedPart::new(store, &scales, &weight)?;
        factors.need_shape(&shape_of(inputs / self.group_size), &why)?;
        match self.mode {
            Mode::Affine => {
                factors.need_floats()?;
                let offsets = PackedPart::new(store, &biases, &weight)?;
                offsets.need_shape(factors.shape(), "that of the scales")?;
                offsets.need_floats()?;
            }
            Mode::Mxfp4 => factors.need_bytes()?,
        }
        Ok(Box::new(Matrix { shape: shape_of(inputs), weight, scales, biases, format: self }))
    }
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        let name = match (self.format.mode, self.format.bits) {
            (Mode::Mxfp4, _) => "MLX mxfp4",
            (_, 2) => "MLX 2-bit",
            (_, 3) => "MLX 3-bit",
            (_, 4) => "MLX 4-bit",
            (_, 5) => "MLX 5-bit",
            (_, 6) => "MLX 6-bit",
            _ => "MLX 8-bit",
        };
        StoredType::Foreign(ForeignType { name, quantized: true })
    }

    fn parts(&self) -> Vec<&str> {
        let mut parts = vec![self.weight.as_str(), &self.scales];
        parts.extend((self.format.mode == Mode::Affine).then_some(self.biases.as_str()));
        parts
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let weight = PackedPart::new(store, &self.weight, &self.weight)?;
        let factors = PackedPart::new(store, &self.scales, &self.weight)?;
        let (scales, meaning) = match self.format.mode {
            Mode::Affine => {
                let offsets = PackedPart::new(store, &self.biases, &self.weight)?;
                (factors.floats()?, Meaning::Biases(offsets.floats()?))
            }
            Mode::Mxfp4 => (powers(factors)?, Meaning::Table(&E2M1)),
        };
        let (outputs, inputs) = (scales.rows(), self.shape.last().copied().unwrap_or(0));
        let groups = Groups::Runs(self.format.group_size);
        let bits = self.format.bits;
        let rows =
            PackedRows::new(self.stored_type(), bits, inputs, weight.words()?, scales, meaning, groups);
        match rows {
            Some(rows) => Ok(Tensor::foreign(outputs, inputs, Arc::new(rows))),
            None => Err(contradiction(weight)),
        }
    }
}

/// Powers of two by their exponents; the highest exponent stands for what is no number.
pub(super) fn powers(exponents: PackedPart<'_>) -> Result<Tensor> {
    let bytes = exponents.bytes()?;
    let power = |byte: &u8| match byte {
        0 => 0.5 * f32::MIN_POSITIVE,
        255 => f32::NAN,
        &exponent => f32::from_bits(u32::from(exponent) << 23),
    };
    // As floats: four bytes for the one of a group of 32 codes, which take 16.
    let values: Vec<f32> = bytes.as_slice().iter().map(power).collect();
    let cols = exponents.shape().last().copied().unwrap_or(0);
    let rows = values.len().checked_div(cols).unwrap_or(0);
    Ok(Tensor::from_f32(rows, cols, &values[..rows * cols]))
}
