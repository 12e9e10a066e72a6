//! Tensors multiplied by factors, as they can be stored: rows whose type stores a scale for each, and vectors of floats.

use half::{bf16, f16};
use qsf_format::panels::PANEL_ROWS;
use qsf_format::{Layout, QuantType};

use super::matrix::{Tensor, Values};
use super::native_rows::NativeRows;

/// Multiplies the scales of rows that are stored one behind the other as `quant` in `layout`, `row_bytes` each, by `factors`, and
/// rounds them to what is stored. Nothing happens to types without scales of rows.
///
/// # Panics
/// When there are other than as many factors as rows.
pub fn multiply_row_scales(
    quant: QuantType,
    layout: Layout,
    row_bytes: usize,
    bytes: &mut [u8],
    factors: &[f32],
) {
    let head = quant.row_head_bytes();
    if head == 0 {
        return;
    }
    assert_eq!(bytes.len(), row_bytes * factors.len(), "bytes of {} rows", factors.len());
    let panel_rows = layout.panel_rows(factors.len());
    for (row, factor) in factors.iter().enumerate() {
        // The heads of the rows of a panel stand before its blocks (SPEC.md section 6.2).
        let at = match row < panel_rows {
            true => (row - row % PANEL_ROWS) * row_bytes + row % PANEL_ROWS * head,
            false => row * row_bytes,
        };
        let scale = &mut bytes[at..at + size_of::<f16>()];
        let product = f32::from(f16::from_le_bytes([scale[0], scale[1]])) * factor;
        let largest = f32::from(f16::MAX);
        scale.copy_from_slice(&f16::from_f32(product.clamp(-largest, largest)).to_le_bytes());
    }
}

/// Values as little-endian floats of type `quant`, rounded; `None` where that is none of f32, f16 and bf16.
pub fn float_bytes(quant: QuantType, values: &[f32]) -> Option<Vec<u8>> {
    Some(match quant {
        QuantType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        QuantType::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        QuantType::Bf16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
        _ => return None,
    })
}

impl Tensor {
    /// A tensor of this type and shape with these values, rounded to what is stored; `None` where it is of no floats.
    ///
    /// # Panics
    /// When there are other than as many values.
    pub fn with_values(&self, values: &[f32]) -> Option<Tensor> {
        assert_eq!(values.len(), self.rows * self.cols, "values");
        let native = self.native()?;
        let bytes = float_bytes(native.quant, values)?;
        let native = NativeRows { bytes: bytes.into(), ..native.clone() };
        Some(Tensor { values: Values::Native(native), ..self.clone() })
    }

    /// Whether its type stores a scale for each row; of a matrix in parts, whether that of one of them does.
    pub fn has_row_scales(&self) -> bool {
        self.stored_parts()
            .iter()
            .any(|part| part.native().is_some_and(|rows| rows.quant().row_head_bytes() > 0))
    }

    /// This matrix with the blocks of every row times the row's factor. Scales are rounded as they are stored. Rows whose type
    /// stores no scale of rows, and what is stored apart from the blocks, stay as they are.
    ///
    /// # Panics
    /// When there are other than as many factors as rows.
    #[must_use]
    pub fn with_row_factors(&self, factors: &[f32]) -> Tensor {
        assert_eq!(factors.len(), self.rows, "factors of rows");
        if let Some(split) = self.split() {
            let parts = split.parts().iter().enumerate().map(|(part, tensor)| {
                let own: Vec<f32> = split.rows().rows_in(part).map(|row| factors[row]).collect();
                tensor.with_row_factors(&own)
            });
            return Tensor::of_parts(parts.collect(), split.rows().clone());
        }
        let Values::Native(native) = &self.values else { return self.clone() };
        let mut bytes = native.bytes.as_slice().to_vec();
        multiply_row_scales(native.quant, native.layout, native.row_bytes, &mut bytes, factors);
        let native = NativeRows { bytes: bytes.into(), ..native.clone() };
        Tensor { values: Values::Native(native), ..self.clone() }
    }

    /// Without what is stored apart from its blocks.
    #[must_use]
    pub fn without_outliers(&self) -> Tensor {
        Tensor { outliers: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::panels::interleave;
    use qsf_format::{BlockSize, RowParts};

    use super::*;

    const COLS: usize = 64;

    /// Rows whose scales are numbers of ordinary size, and whose codes are anything.
    fn plain(quant: QuantType, rows: usize) -> Vec<u8> {
        let row_bytes = quant.row_bytes(BlockSize::B32, COLS as u64).unwrap() as usize;
        let mut bytes: Vec<u8> = (0..rows * row_bytes).map(|i| (i * 131 + i / 3) as u8).collect();
        if quant.row_head_bytes() > 0 {
            for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
                bytes[..2].copy_from_slice(&f16::from_f32(0.5 + row as f32 / 16.0).to_le_bytes());
            }
        }
        bytes
    }

    fn tensor(quant: QuantType, rows: usize, layout: Layout) -> Tensor {
        let plain = plain(quant, rows);
        let bytes = match layout {
            Layout::Rows => plain,
            Layout::Panels16 => interleave(quant, BlockSize::B32, COLS, &plain),
        };
        Tensor::with_layout(rows, COLS, quant, BlockSize::B32, layout, bytes.into()).unwrap()
    }

    /// What a user would lose by a scale at another place: every value of the row.
    #[test]
    fn every_row_of_both_layouts_is_multiplied_by_its_own_factor() {
        let factors: Vec<f32> = (0..37).map(|row| 0.5 + row as f32 / 32.0).collect();
        for quant in [QuantType::N2, QuantType::N4, QuantType::T3, QuantType::X2, QuantType::X4] {
            for layout in [Layout::Rows, Layout::Panels16] {
                let before = tensor(quant, 37, layout);
                assert!(before.has_row_scales());
                let after = before.with_row_factors(&factors).to_f32();
                for (row, factor) in factors.iter().enumerate() {
                    for (value, was) in after[row * COLS..][..COLS].iter().zip(&before.to_f32()[row * COLS..])
                    {
                        let expected = was * factor;
                        assert!(
                            (value - expected).abs() <= expected.abs() / 1024.0,
                            "{quant} {layout} {row}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn rows_without_a_scale_and_outliers_stay_as_they_are() {
        let floats = Tensor::from_f32(2, 2, &[1.0, 2.0, 3.0, 4.0]);
        assert!(!floats.has_row_scales());
        assert_eq!(floats.with_row_factors(&[2.0, 3.0]).to_f32(), floats.to_f32());
        let blocks = tensor(QuantType::Q4, 3, Layout::Rows);
        assert_eq!(blocks.with_row_factors(&[2.0; 3]).to_f32(), blocks.to_f32());
        // Rows 0 and 2 are in a type with scales, row 1 is not.
        let rows = RowParts::of([0, 1, 0]).unwrap();
        let parts = vec![tensor(QuantType::N3, 2, Layout::Rows), tensor(QuantType::Q4, 1, Layout::Rows)];
        let before = Tensor::of_parts(parts, rows);
        let (was, is) = (before.to_f32(), before.with_row_factors(&[2.0, 2.0, 4.0]).to_f32());
        let doubled: Vec<f32> = was[..COLS].iter().map(|value| 2.0 * value).collect();
        assert_eq!((&is[..COLS], &is[COLS..2 * COLS]), (&doubled[..], &was[COLS..2 * COLS]));
        assert_eq!(is[2 * COLS], 4.0 * was[2 * COLS]);
    }

    #[test]
    fn floats_are_rounded_to_their_type() {
        let values = [1.0, -2.5, 0.1];
        for (quant, bytes) in [(QuantType::F32, 4), (QuantType::F16, 2), (QuantType::Bf16, 2)] {
            let plain = vec![0; 3 * bytes];
            let tensor = Tensor::new(1, 3, quant, BlockSize::B32, plain.into()).unwrap();
            let found = tensor.with_values(&values).unwrap();
            assert_eq!((found.stored_type(), found.stored_bytes()), (quant.into(), 3 * bytes as u64));
            for (found, value) in found.to_f32().iter().zip(values) {
                assert!((found - value).abs() <= value.abs() / 256.0, "{quant}: {found} {value}");
            }
        }
        assert!(tensor(QuantType::Q4, 1, Layout::Rows).with_values(&[0.0; COLS]).is_none());
    }

    /// A scale beyond f16 would be infinite, and the model broken.
    #[test]
    fn a_scale_stays_a_number() {
        let tensor = tensor(QuantType::N4, 1, Layout::Rows).with_row_factors(&[1e9]);
        assert!(tensor.to_f32().iter().all(|value| value.is_finite()));
    }
}
