//! Matrices as transformers packs them in MXFP4 (gpt-oss). For the experts `X` of a layer with `in` inputs and `out` outputs:
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X_blocks` | experts, out, in / 32, 16 | bytes of two floats of 4 bits each, the first in the lower half |
//! | `X_scales` | experts, out, in / 32 | bytes, the exponent of a power of two plus 127 |
//!
//! Both are used in place (OCP Microscaling Formats Specification 1.0, section 5.3).

use std::sync::Arc;

use super::gptq::contradiction;
use super::matrix::PackedMatrix;
use super::mlx::{E2M1, powers};
use super::packed_part::PackedPart;
use super::rows::{Groups, Meaning, PackedRows};
use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::tensor::{ForeignType, StoredType, Tensor};

/// Inputs that have a scale in common, and the bytes of their floats.
const GROUP: usize = 32;
const GROUP_BYTES: usize = GROUP / 2;

#[derive(Debug)]
struct Matrix {
    blocks: String,
    scales: String,
    /// Experts, outputs, inputs.
    shape: Vec<usize>,
}

/// The matrix whose codes are the tensor `blocks`.
pub(super) fn matrix(blocks: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
    let stem = blocks.strip_suffix("_blocks").unwrap_or(blocks);
    let scales = format!("{stem}_scales");
    let codes = PackedPart::new(store, blocks, &scales)?;
    codes.need_bytes()?;
    let found = || format!("shape {:?}", codes.shape());
    let [outer @ .., groups, GROUP_BYTES] = codes.shape() else {
        return Err(codes.wrong(format!("a shape that ends in {GROUP_BYTES}"), found()));
    };
    let inputs = groups.checked_mul(GROUP).filter(|_| !codes.shape().contains(&0) && !outer.is_empty());
    let inputs = inputs.ok_or_else(|| codes.wrong("outputs and groups, none of them 0", found()))?;
    let shape_of = |last: usize| [outer, &[last]].concat();
    let factors = PackedPart::new(store, &scales, blocks)?;
    factors.need_shape(&shape_of(*groups), &format!("{inputs} inputs in groups of {GROUP}"))?;
    factors.need_bytes()?;
    Ok(Box::new(Matrix { shape: shape_of(inputs), blocks: blocks.to_owned(), scales }))
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        // These models were trained in it: there is no original that another file would be nearer to.
        StoredType::Foreign(ForeignType { name: "MXFP4", quantized: false })
    }

    fn parts(&self) -> Vec<&str> {
        vec![&self.blocks, &self.scales]
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let codes = PackedPart::new(store, &self.blocks, &self.blocks)?;
        let scales = powers(PackedPart::new(store, &self.scales, &self.blocks)?)?;
        let (outputs, inputs) = (scales.rows(), self.shape.last().copied().unwrap_or(0));
        let (groups, meaning) = (Groups::Runs(GROUP), Meaning::Table(&E2M1));
        let rows = PackedRows::new(self.stored_type(), 4, inputs, codes.bytes()?, scales, meaning, groups);
        match rows {
            Some(rows) => Ok(Tensor::foreign(outputs, inputs, Arc::new(rows))),
            None => Err(contradiction(codes)),
        }
    }
}
