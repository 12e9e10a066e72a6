//! A stored tensor with its factors, and what is reported of it then.

use qsf_calibration::tuning::{Factors, is_gain, multiplied_gains};
use qsf_format::TensorId;
use qsf_runtime::tensor::{float_bytes, multiply_row_scales};

use crate::encode::{StoredTensor, TensorBlocks, TensorEncoder};
use crate::error::{ConvertError, Result};

/// What tensors are multiplied by before they are written.
pub(crate) struct Multiplied<'a, 'e> {
    pub encoder: &'a TensorEncoder<'e>,
    /// `None`: they stay as they are.
    pub factors: Option<&'a Factors>,
}

impl Multiplied<'_, '_> {
    /// The tensor as it is to be written. One that would be less near to the original than was asked for stays as it is.
    ///
    /// # Errors
    /// When it is from a journal and has not the bytes of its shape, or the source is damaged.
    pub fn tensor(&self, stored: StoredTensor) -> Result<StoredTensor> {
        let Some(factors) = self.factors.and_then(|factors| factors.of(stored.id)) else { return Ok(stored) };
        let mut changed = stored.clone();
        if is_gain(stored.id.kind) {
            let gains = self.encoder.as_read(&stored)?.to_f32();
            let gains = multiplied_gains(self.encoder.source.config(), &gains, factors);
            let Some(bytes) = stored.encoded.quant.qsf().and_then(|quant| float_bytes(quant, &gains)) else {
                return Ok(stored);
            };
            changed.encoded.data = bytes;
        } else if let Some(split) = &mut changed.split {
            let rows = &split.rows;
            let of_part = |part: usize| rows.rows_in(part).map(|row| factors[row]).collect::<Vec<f32>>();
            multiply_blocks(stored.id, &mut changed.encoded, &of_part(0))?;
            for (part, other) in (1..).zip(&mut split.others) {
                multiply_blocks(stored.id, &mut other.encoded, &of_part(part))?;
            }
        } else {
            multiply_blocks(stored.id, &mut changed.encoded, factors)?;
        }
        self.encoder.report_again(&mut changed)?;
        let wanted = self.encoder.min_cosine.filter(|_| stored.id.kind.is_matrix());
        let is_near = wanted.is_none_or(|wanted| changed.cosine_or_zero() >= wanted);
        Ok(if is_near { changed } else { stored })
    }
}

fn multiply_blocks(id: TensorId, blocks: &mut TensorBlocks, factors: &[f32]) -> Result<()> {
    let broken = || ConvertError::BrokenJournal { what: id.to_string() };
    let Some(quant) = blocks.quant.qsf() else { return Ok(()) };
    let row_bytes = blocks.data.len().checked_div(factors.len()).unwrap_or(0);
    if row_bytes * factors.len() != blocks.data.len() || row_bytes < quant.row_head_bytes() {
        return Err(broken());
    }
    multiply_row_scales(quant, blocks.layout, row_bytes, &mut blocks.data, factors);
    Ok(())
}
