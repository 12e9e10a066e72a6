//! Section OUTL: weights that are stored apart from the blocks of their matrix (SPEC.md section 7.8).
//!
//! A few weights far larger than their neighbours stretch the scale of a whole block. Kept apart as f16, they leave the rest
//! finer steps (SpQR, arXiv 2306.03078). Each is added to what the blocks decode to.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use crate::error::Damage;
use crate::quant_type::QuantType;
use crate::row_parts::RowPartTable;
use crate::tensor_header::TensorEntry;
use crate::tensor_kind::{TensorId, TensorKind};
use crate::tensor_number::{NO_LAYER, name_of, number_in_part, tensor_number};

/// Columns are u16: wider matrices have no outliers.
pub const MAX_OUTLIER_COLS: usize = 1 << 16;
/// Bytes of a record before its counts.
const RECORD_HEADER_BYTES: usize = 8;
/// Bytes of an outlier.
const ENTRY_BYTES: usize = 4;

/// The outliers of one matrix, by row, in ascending order of columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// Where each row begins in the other two; one more at the end.
    starts: Vec<usize>,
    cols: Vec<u16>,
    /// Each one that f16 has.
    values: Vec<f32>,
}

impl Default for Outliers {
    fn default() -> Self {
        Outliers { starts: vec![0], cols: Vec::new(), values: Vec::new() }
    }
}

impl Outliers {
    /// Adds the next row: columns in ascending order, with values that are rounded to f16.
    ///
    /// # Panics
    /// When the columns are not in ascending order, or a value leaves f16.
    pub fn push_row(&mut self, row: &[(u16, f32)]) {
        assert!(row.windows(2).all(|pair| pair[0].0 < pair[1].0), "columns in ascending order");
        for (col, value) in row {
            let rounded = f16::from_f32(*value);
            assert!(rounded.is_finite(), "{value} as f16");
            self.cols.push(*col);
            self.values.push(rounded.to_f32());
        }
        self.starts.push(self.cols.len());
    }

    /// Adds the rows of `next`, which follow.
    pub fn append(&mut self, next: &Outliers) {
        let before = self.cols.len();
        self.starts.extend(next.starts[1..].iter().map(|start| before + start));
        self.cols.extend_from_slice(&next.cols);
        self.values.extend_from_slice(&next.values);
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Outliers of all rows.
    pub fn len(&self) -> usize {
        self.cols.len()
    }

    /// Whether no row has any.
    pub fn is_empty(&self) -> bool {
        self.cols.is_empty()
    }

    /// Columns and values of the outliers of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u16], &[f32]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.cols[range.clone()], &self.values[range])
    }

    /// Bytes of the record of a matrix of so many rows with `count` outliers.
    pub fn record_bytes(rows: u64, count: u64) -> u64 {
        (RECORD_HEADER_BYTES as u64)
            .saturating_add(rows.saturating_mul(2))
            .saturating_add(count.saturating_mul(ENTRY_BYTES as u64))
    }

    /// Bytes in a file.
    pub fn stored_bytes(&self) -> u64 {
        Self::record_bytes(self.rows() as u64, self.len() as u64)
    }

    /// The record of the tensor `id`.
    pub fn to_bytes(&self, id: TensorId) -> Vec<u8> {
        let mut bytes = tensor_number(id).to_le_bytes().to_vec();
        bytes.extend((self.rows() as u32).to_le_bytes());
        for row in self.starts.windows(2) {
            bytes.extend(((row[1] - row[0]) as u16).to_le_bytes());
        }
        for (col, value) in self.cols.iter().zip(&self.values) {
            bytes.extend(col.to_le_bytes());
            bytes.extend(f16::from_f32(*value).to_le_bytes());
        }
        bytes
    }

    /// Reads the record at the start of `bytes`, which are at `at` in the file: the number of its tensor (SPEC.md section 7.8),
    /// the outliers, and the bytes behind them.
    ///
    /// # Errors
    /// When it is cut off, names no matrix, has columns out of order or values that are not finite.
    pub fn parse(bytes: &[u8], at: u64) -> Result<(u32, Outliers, &[u8]), Damage> {
        let damage = |from: usize, expected: &str, found: String| {
            Err(Damage::new("section OUTL", at + from as u64, expected, found))
        };
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return damage(0, "a record header of 8 bytes", format!("{} bytes", bytes.len()));
        };
        let field = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let number = field(0);
        if !may_have_outliers(number) {
            return damage(0, "the number of a matrix", number.to_string());
        }
        let rows = field(4) as usize;
        let Some((counts, rest)) = rows.checked_mul(2).and_then(|bytes| rest.split_at_checked(bytes)) else {
            return damage(4, "rows whose counts are in the section", rows.to_string());
        };
        let counts = counts.as_chunks::<2>().0.iter().map(|count| usize::from(u16::from_le_bytes(*count)));
        // At most 2^32 counts of 16 bits: no overflow.
        let total: u64 = counts.clone().map(|count| count as u64).sum();
        let entries = usize::try_from(total).ok().and_then(|total| total.checked_mul(ENTRY_BYTES));
        let Some((entries, rest)) = entries.and_then(|bytes| rest.split_at_checked(bytes)) else {
            let found = format!("{total} outliers, {} bytes left", rest.len());
            return damage(RECORD_HEADER_BYTES, "counts whose outliers are in the section", found);
        };
        let entries_at = RECORD_HEADER_BYTES + 2 * rows;
        let mut outliers = Outliers::default();
        let mut entries = entries.as_chunks::<ENTRY_BYTES>().0.iter();
        for count in counts {
            let first = outliers.cols.len();
            for [a, b, c, d] in entries.by_ref().take(count) {
                let (i, col) = (outliers.cols.len(), u16::from_le_bytes([*a, *b]));
                let value = f16::from_le_bytes([*c, *d]);
                if i > first && outliers.cols[i - 1] >= col {
                    let found = format!("{col} after {}", outliers.cols[i - 1]);
                    return damage(entries_at + ENTRY_BYTES * i, "columns in ascending order", found);
                }
                if !value.is_finite() {
                    return damage(entries_at + ENTRY_BYTES * i + 2, "a finite value", value.to_string());
                }
                outliers.cols.push(col);
                outliers.values.push(value.to_f32());
            }
            outliers.starts.push(outliers.cols.len());
        }
        Ok((number, outliers, rest))
    }
}

/// Whether a number may stand for a matrix: of a kind that is not known it may.
fn may_have_outliers(number: u32) -> bool {
    let of_layer = number >> 8 != NO_LAYER;
    TensorKind::from_id(number & 0xFF).is_none_or(|kind| kind.is_matrix() && of_layer == kind.is_per_layer())
}

/// Section OUTL: the outliers of all matrices that have some. Each is handed out once, to the tensor that it belongs to.
#[derive(Debug, Default)]
pub struct OutlierTable {
    /// By the number of the tensor, with the offset of the record in the file.
    records: BTreeMap<u32, (u64, Arc<Outliers>)>,
}

impl OutlierTable {
    /// Reads the section, which is at `at` in the file.
    pub(crate) fn parse(mut bytes: &[u8], mut at: u64) -> Result<OutlierTable, Damage> {
        let mut table = OutlierTable::default();
        let mut last = None;
        while !bytes.is_empty() {
            let (number, outliers, rest) = Outliers::parse(bytes, at)?;
            if Some(number) <= last {
                let (expected, found) = ("tensors in ascending order of numbers", name_of(number));
                return Err(Damage::new("section OUTL", at, expected, found));
            }
            table.records.insert(number, (at, Arc::new(outliers)));
            at += (bytes.len() - rest.len()) as u64;
            (bytes, last) = (rest, Some(number));
        }
        Ok(table)
    }

    /// Checks that no matrix in parts has outliers: whose rows would they be, the matrix's or the part's? (SPEC.md section 5.2)
    pub(crate) fn check_whole(&self, parts: &RowPartTable) -> Result<(), Damage> {
        match self.records.iter().find(|(number, _)| parts.has_record(**number)) {
            Some((number, (at, _))) => {
                Err(Damage::new("section OUTL", *at, "a matrix that is not in parts", name_of(*number)))
            }
            None => Ok(()),
        }
    }

    /// The outliers of a tensor of this type and shape, if it has any.
    ///
    /// # Errors
    /// When the tensor cannot have such.
    pub fn take(
        &mut self,
        id: TensorId,
        quant: QuantType,
        rows: u32,
        cols: u32,
    ) -> Result<Option<Arc<Outliers>>, Damage> {
        self.take_number(tensor_number(id), quant, rows, cols)
    }

    /// The outliers of a tensor in the part `layer` (`None`: outside of layers), if it has any; its kind need not be known.
    ///
    /// # Errors
    /// When the tensor cannot have such.
    pub fn take_of_entry(
        &mut self,
        layer: Option<u32>,
        tensor: &TensorEntry,
    ) -> Result<Option<Arc<Outliers>>, Damage> {
        let Some(number) = number_in_part(layer, tensor.kind_id) else { return Ok(None) };
        self.take_number(number, tensor.quant, tensor.rows, tensor.cols)
    }

    fn take_number(
        &mut self,
        number: u32,
        quant: QuantType,
        rows: u32,
        cols: u32,
    ) -> Result<Option<Arc<Outliers>>, Damage> {
        let Some((at, outliers)) = self.records.remove(&number) else { return Ok(None) };
        let place = format!("section OUTL, {}", name_of(number));
        if quant.is_float() {
            return Err(Damage::new(place, at, "a tensor of a type with blocks", quant));
        }
        if outliers.rows() as u64 != u64::from(rows) {
            return Err(Damage::new(place, at + 4, format!("{rows} rows"), outliers.rows()));
        }
        match outliers.cols.iter().find(|col| u32::from(**col) >= cols) {
            Some(col) => Err(Damage::new(place, at, format!("columns below {cols}"), col)),
            None => Ok(Some(outliers)),
        }
    }

    /// What is left belongs to no tensor of the file.
    ///
    /// # Errors
    /// Where there is such.
    pub fn check_all_taken(&self) -> Result<(), Damage> {
        match self.records.iter().next() {
            Some((number, (at, _))) => {
                Err(Damage::new("section OUTL", *at, "a tensor of the file", name_of(*number)))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::row_parts::RowParts;

    fn outliers() -> Outliers {
        let mut outliers = Outliers::default();
        outliers.push_row(&[(0, 1.5), (7, -300.0)]);
        outliers.push_row(&[]);
        outliers.push_row(&[(65_535, 0.1)]);
        outliers
    }

    #[test]
    fn outliers_of_several_tensors_come_back_by_tensor_and_row() {
        let (head, up) =
            (TensorId::of_model(TensorKind::Head), TensorId::of_layer(65_535, TensorKind::FfnUp));
        let mut bytes = outliers().to_bytes(up);
        assert_eq!(bytes.len() as u64, outliers().stored_bytes());
        bytes.extend(outliers().to_bytes(head));
        let mut table = OutlierTable::parse(&bytes, 64).unwrap();
        let found = table.take(head, QuantType::N3, 3, 65_536).unwrap().unwrap();
        assert_eq!(*found, outliers());
        assert_eq!(found.row(0), (&[0, 7][..], &[1.5, -300.0][..]));
        assert_eq!(found.row(2).1, [f16::from_f32(0.1).to_f32()]);
        let left = table.check_all_taken().unwrap_err().to_string();
        assert!(left.contains("layer 65535 ffn_up") && left.contains("offset 64"), "{left}");
        assert_eq!(table.take(head, QuantType::N3, 3, 65_536).unwrap(), None);
        let mut twice = outliers();
        twice.append(&outliers());
        assert_eq!((twice.rows(), twice.row(3)), (6, outliers().row(0)));
    }

    #[test]
    fn outliers_of_a_matrix_in_parts_are_refused_and_those_beside_it_are_not() {
        let (head, up) = (TensorId::of_model(TensorKind::Head), TensorId::of_layer(0, TensorKind::FfnUp));
        let parts = RowPartTable::parse(&RowParts::of([0, 1, 0, 0]).unwrap().to_bytes(head), 0).unwrap();
        let mut bytes = outliers().to_bytes(up);
        OutlierTable::parse(&bytes, 64).unwrap().check_whole(&parts).unwrap();
        let at = 64 + bytes.len() as u64;
        // Rows that part 0 has.
        bytes.extend(outliers().to_bytes(head));
        let damage = OutlierTable::parse(&bytes, 64).unwrap().check_whole(&parts).unwrap_err();
        assert_eq!((damage.offset, damage.found.as_str()), (at, "head"));
    }

    #[test]
    fn outliers_that_do_not_fit_their_tensor_are_refused() {
        let id = TensorId::of_layer(0, TensorKind::AttnQ);
        let take = |quant, rows, cols| {
            let mut table = OutlierTable::parse(&outliers().to_bytes(id), 0).unwrap();
            table.take(id, quant, rows, cols).map(|found| found.is_some()).map_err(|e| e.to_string())
        };
        assert_eq!(take(QuantType::Q4, 3, 65_536), Ok(true));
        assert!(take(QuantType::F16, 3, 65_536).unwrap_err().contains("blocks"));
        assert!(take(QuantType::Q4, 4, 65_536).unwrap_err().contains("4 rows, found 3"));
        assert!(take(QuantType::Q4, 3, 65_535).unwrap_err().contains("65535"));
    }

    #[test]
    fn a_damaged_section_is_refused_at_the_byte() {
        let good = outliers().to_bytes(TensorId::of_layer(2, TensorKind::AttnQ));
        let at = |bytes: &[u8]| OutlierTable::parse(bytes, 0).unwrap_err().offset;
        let with = |i: usize, values: &[u8]| {
            let mut bytes = good.clone();
            bytes[i..i + values.len()].copy_from_slice(values);
            at(&bytes)
        };
        assert_eq!(with(0, &[7]), 0, "a norm");
        assert_eq!(with(1, &[255, 255, 255]), 0, "a query matrix of no layer");
        assert_eq!(with(4, &[255; 4]), 4, "more rows than bytes");
        assert_eq!(with(8, &[9]), 8, "more outliers than bytes");
        assert_eq!(with(18, &[0, 0]), 18, "the same column again");
        assert_eq!(with(16, &[0, 0x7C]), 16, "infinity");
        let mut twice = good.clone();
        twice.extend_from_slice(&good);
        assert_eq!(at(&twice), good.len() as u64, "the same tensor again");
        for len in 1..good.len() {
            OutlierTable::parse(&good[..len], 0).unwrap_err();
        }
    }
}
