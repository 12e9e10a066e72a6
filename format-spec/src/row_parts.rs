//! Section PART: matrices whose rows are in several types (SPEC.md sections 5.2 and 7.12).
//!
//! Some rows of a matrix matter more than others: those of tokens that come often, those of experts that are chosen often. Each
//! part is a tensor of its own; the section says which rows are in which.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Damage;
use crate::tensor_header::{MOST_PARTS, TensorEntry};
use crate::tensor_kind::{TensorId, TensorKind};
use crate::tensor_number::{NO_LAYER, name_of, tensor_number};

/// Bytes of a record before its rows.
const RECORD_HEADER_BYTES: usize = 8;
/// Rows in a byte.
const ROWS_PER_BYTE: usize = 4;

/// Which rows of a matrix are in which part. Rows of a part are in the order that they have in the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowParts {
    runs: Vec<RowRun>,
    /// Rows of each part; all but the last of those that are 0 have some.
    counts: [u32; MOST_PARTS],
}

/// Rows behind each other that are behind each other in a part, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRun {
    /// The first of them.
    pub row: u32,
    /// How many.
    pub len: u32,
    /// The part.
    pub part: u8,
    /// The first of them there.
    pub in_part: u32,
}

impl RowRun {
    /// Rows of the matrix.
    pub fn rows(&self) -> Range<usize> {
        self.row as usize..self.row as usize + self.len as usize
    }

    /// Rows of the part.
    pub fn rows_in_part(&self) -> Range<usize> {
        self.in_part as usize..self.in_part as usize + self.len as usize
    }
}

impl RowParts {
    /// Of the part of each row. `None` unless there are 2 to 4 parts, numbered from 0, each with a row, and at most 2^32 - 1 rows.
    pub fn of(parts: impl IntoIterator<Item = u8>) -> Option<RowParts> {
        let mut all = RowParts { runs: Vec::new(), counts: [0; MOST_PARTS] };
        for (row, part) in parts.into_iter().enumerate() {
            let (row, count) = (u32::try_from(row).ok()?, all.counts.get_mut(usize::from(part))?);
            match all.runs.last_mut() {
                Some(run) if run.part == part => run.len += 1,
                _ => all.runs.push(RowRun { row, len: 1, part, in_part: *count }),
            }
            *count = count.checked_add(1)?;
        }
        let parts = all.parts();
        (parts >= 2 && all.counts[parts..].iter().all(|count| *count == 0)).then_some(all)
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.runs.last().map_or(0, |run| run.rows().end)
    }

    /// Parts.
    pub fn parts(&self) -> usize {
        self.counts.iter().take_while(|count| **count > 0).count()
    }

    /// Rows of a part.
    ///
    /// # Panics
    /// When there is no such part.
    pub fn rows_of(&self, part: usize) -> usize {
        self.counts[part] as usize
    }

    /// Runs of rows, in the order of the matrix.
    pub fn runs(&self) -> &[RowRun] {
        &self.runs
    }

    /// The part of a row, and which of its rows it is.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn place(&self, row: usize) -> (usize, usize) {
        assert!(row < self.rows(), "row {row} of {}", self.rows());
        let run = &self.runs[self.runs.partition_point(|run| run.row as usize <= row) - 1];
        (usize::from(run.part), run.in_part as usize + row - run.row as usize)
    }

    /// Whether each of `count` equal shares of the rows is in one part: each expert of a stack.
    pub fn has_whole_shares(&self, count: usize) -> bool {
        let share = self.rows() / count.max(1);
        let whole =
            |run: &RowRun| run.rows().start.is_multiple_of(share) && run.rows().end.is_multiple_of(share);
        share > 0 && (count == 1 || self.runs.iter().all(whole))
    }

    /// The rows of a part, in order.
    pub fn rows_in(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().filter(move |run| usize::from(run.part) == part).flat_map(RowRun::rows)
    }

    /// Those that [`to_bytes`](Self::to_bytes) made a record of; `None` if it did not.
    pub fn of_record(record: &[u8]) -> Option<RowParts> {
        let (header, codes) = record.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let rows = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        (codes.len() == rows.div_ceil(ROWS_PER_BYTE)).then_some(())?;
        RowParts::of((0..rows).map(|row| code(codes, row)))
    }

    /// Bytes of the record of a matrix of so many rows.
    pub fn record_bytes(rows: u64) -> u64 {
        RECORD_HEADER_BYTES as u64 + rows.div_ceil(ROWS_PER_BYTE as u64)
    }

    /// The record of the matrix `id`.
    pub fn to_bytes(&self, id: TensorId) -> Vec<u8> {
        let rows = self.rows();
        let mut bytes = tensor_number(id).to_le_bytes().to_vec();
        bytes.extend((rows as u32).to_le_bytes());
        let mut codes = vec![0; rows.div_ceil(ROWS_PER_BYTE)];
        for run in &self.runs {
            for row in run.rows() {
                codes[row / ROWS_PER_BYTE] |= run.part << (2 * (row % ROWS_PER_BYTE));
            }
        }
        bytes.extend(codes);
        bytes
    }
}

/// A matrix in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMatrix {
    /// What the matrix is for.
    pub kind: TensorKind,
    /// Which rows are in which part.
    pub rows: RowParts,
    /// Of each part, which of the tensors that were looked at it is.
    pub tensors: Vec<usize>,
}

/// Section PART. Each record is handed out once, with the tensors that it is about.
#[derive(Debug, Default)]
pub struct RowPartTable {
    /// By the number of the tensor: the offset of the record in the file, the number of rows, and their parts.
    records: BTreeMap<u32, (u64, u32, Vec<u8>)>,
}

impl RowPartTable {
    /// Reads the section, which is at `at` in the file.
    pub(crate) fn parse(mut bytes: &[u8], mut at: u64) -> Result<RowPartTable, Damage> {
        let damage =
            |at: u64, expected: &str, found: String| Err(Damage::new("section PART", at, expected, found));
        let mut table = RowPartTable::default();
        let mut last = None;
        while !bytes.is_empty() {
            let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
                return damage(at, "a record header of 8 bytes", format!("{} bytes", bytes.len()));
            };
            let field =
                |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
            let (number, rows) = (field(0), field(4));
            if !may_have_parts(number) {
                return damage(at, "the number of a matrix", name_of(number));
            }
            if Some(number) <= last {
                return damage(at, "tensors in ascending order of numbers", name_of(number));
            }
            let codes = (rows as usize).div_ceil(ROWS_PER_BYTE);
            let Some((codes, rest)) = rest.split_at_checked(codes) else {
                return damage(at + 4, "rows whose parts are in the section", rows.to_string());
            };
            table.records.insert(number, (at, rows, codes.to_vec()));
            at += (bytes.len() - rest.len()) as u64;
            (bytes, last) = (rest, Some(number));
        }
        Ok(table)
    }

    /// The matrices in parts among the `tensors` of a layer, or, with the token embedding, of the final section.
    ///
    /// # Errors
    /// When a part has no record, or a record has not the parts that it is of.
    pub fn take(&mut self, layer: Option<u32>, tensors: &[&TensorEntry]) -> Result<Vec<SplitMatrix>, Damage> {
        let mut found = Vec::new();
        for kind in tensors.iter().filter_map(|tensor| tensor.kind) {
            if let Some((at, rows, codes)) = self.records.remove(&tensor_number(TensorId { layer, kind })) {
                found.push(split(TensorId { layer, kind }, at, rows, &codes, tensors)?);
            }
        }
        for (i, tensor) in tensors.iter().enumerate() {
            let Some((kind, part)) = tensor.part_of else { continue };
            if !found.iter().any(|split| split.tensors.contains(&i)) {
                let place = format!("part {part} of {}", TensorId { layer, kind });
                let (expected, found) = ("a record of section PART", "none that has such a part");
                return Err(Damage::new(place, 0, expected, found));
            }
        }
        Ok(found)
    }

    /// Whether there is a record of the tensor with this number.
    pub(crate) fn has_record(&self, number: u32) -> bool {
        self.records.contains_key(&number)
    }

    /// Rows of the token embedding, if it is in parts.
    pub(crate) fn embedding_rows(&self) -> Option<u32> {
        let number = tensor_number(TensorId::of_model(TensorKind::TokenEmbedding));
        self.records.get(&number).map(|(_, rows, _)| *rows)
    }

    /// What is left belongs to no tensor of the file.
    ///
    /// # Errors
    /// Where there is such.
    pub fn check_all_taken(&self) -> Result<(), Damage> {
        match self.records.iter().next() {
            Some((number, (at, ..))) => {
                Err(Damage::new("section PART", *at, "a tensor of the file", name_of(*number)))
            }
            None => Ok(()),
        }
    }
}

/// The matrix `id`, whose record at `at` gives `rows` rows the parts `codes`. Memory is taken only for rows that the tensors have.
fn split(
    id: TensorId,
    at: u64,
    rows: u32,
    codes: &[u8],
    tensors: &[&TensorEntry],
) -> Result<SplitMatrix, Damage> {
    let place = || format!("section PART, {id}");
    let of_part = |part: usize| {
        tensors.iter().position(|tensor| match part {
            0 => tensor.kind == Some(id.kind),
            part => tensor.part_of == Some((id.kind, part as u8)),
        })
    };
    let parts: Vec<usize> = (0..MOST_PARTS).map_while(of_part).collect();
    let total: u64 = parts.iter().map(|i| u64::from(tensors[*i].rows)).sum();
    if total != u64::from(rows) {
        return Err(Damage::new(place(), at + 4, format!("{total} rows, as the parts have"), rows));
    }
    let rows = rows as usize;
    if let Some(beyond) = (rows..codes.len() * ROWS_PER_BYTE).find(|row| code(codes, *row) != 0) {
        let (at, expected) =
            (at + (RECORD_HEADER_BYTES + beyond / ROWS_PER_BYTE) as u64, "zero bits behind the last row");
        return Err(Damage::new(place(), at, expected, code(codes, beyond)));
    }
    let at = at + RECORD_HEADER_BYTES as u64;
    let Some(found) = RowParts::of((0..rows).map(|row| code(codes, row))) else {
        let expected = "2 to 4 parts, numbered from 0, each with a row";
        return Err(Damage::new(place(), at, expected, format!("{} tensors", parts.len())));
    };
    let cols = tensors[parts[0]].cols;
    for (part, &i) in parts.iter().enumerate() {
        let tensor = tensors[i];
        let expected = found.counts[part];
        if (tensor.rows, tensor.cols) != (expected, cols) {
            let of = format!("part {part} of {expected} x {cols}");
            return Err(Damage::new(place(), at, of, format!("{} x {}", tensor.rows, tensor.cols)));
        }
    }
    if found.parts() != parts.len() {
        let expected = format!("{} parts", parts.len());
        return Err(Damage::new(place(), at, expected, found.parts()));
    }
    Ok(SplitMatrix { kind: id.kind, rows: found, tensors: parts })
}

/// The part of a row.
fn code(codes: &[u8], row: usize) -> u8 {
    codes[row / ROWS_PER_BYTE] >> (2 * (row % ROWS_PER_BYTE)) & 3
}

/// Whether a number may stand for a matrix in parts.
fn may_have_parts(number: u32) -> bool {
    let of_layer = number >> 8 != NO_LAYER;
    let kind = TensorKind::from_id(number & 0xFF);
    kind.is_some_and(|kind| kind.may_have_parts() && of_layer == kind.is_per_layer())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::quant_type::QuantType;

    fn tensor(kind: TensorKind, part: u8, rows: u32, cols: u32) -> TensorEntry {
        TensorEntry {
            kind: (part == 0).then_some(kind),
            kind_id: u32::from(part) << 8 | kind.id(),
            part_of: (part > 0).then_some((kind, part)),
            optional: false,
            rows,
            cols,
            quant: QuantType::F32,
            layout: Layout::Rows,
            data: 0..0,
        }
    }

    const PARTS: [u8; 9] = [0, 0, 2, 1, 1, 2, 0, 0, 0];

    #[test]
    fn every_row_is_found_in_its_part_and_comes_back_from_its_bytes() {
        let parts = RowParts::of(PARTS).unwrap();
        assert_eq!((parts.rows(), parts.parts(), parts.runs().len()), (9, 3, 5));
        let mut next = [0; 3];
        for (row, part) in PARTS.into_iter().enumerate() {
            let part = usize::from(part);
            assert_eq!(parts.place(row), (part, next[part]));
            assert_eq!(parts.rows_in(part).nth(next[part]), Some(row));
            next[part] += 1;
        }
        assert_eq!([0, 1, 2].map(|part| parts.rows_of(part)), next);
        let id = TensorId::of_layer(3, TensorKind::ExpertUp);
        let bytes = parts.to_bytes(id);
        assert_eq!(bytes.len() as u64, RowParts::record_bytes(9));
        assert_eq!(RowParts::of_record(&bytes), Some(parts.clone()));
        let mut table = RowPartTable::parse(&bytes, 64).unwrap();
        let [zero, one, two] =
            [(0, 5), (1, 2), (2, 2)].map(|(p, rows)| tensor(TensorKind::ExpertUp, p, rows, 7));
        let found = table.take(Some(3), &[&two, &zero, &one]).unwrap();
        let expected = SplitMatrix { kind: TensorKind::ExpertUp, rows: parts, tensors: vec![1, 2, 0] };
        assert_eq!(found, [expected]);
        table.check_all_taken().unwrap();
    }

    #[test]
    fn parts_that_are_none_are_not_made() {
        for parts in [&[][..], &[0, 0], &[1, 2], &[0, 2], &[0, 1, 4]] {
            assert_eq!(RowParts::of(parts.iter().copied()), None, "{parts:?}");
        }
    }

    #[test]
    fn records_that_do_not_fit_the_tensors_are_refused() {
        let id = TensorId::of_model(TensorKind::Head);
        let take = |bytes: &[u8], shapes: &[(u8, u32, u32)]| {
            let mut table = RowPartTable::parse(bytes, 0).map_err(|e| e.to_string())?;
            let tensors: Vec<_> = shapes
                .iter()
                .map(|(part, rows, cols)| tensor(TensorKind::Head, *part, *rows, *cols))
                .collect();
            let found = table.take(None, &tensors.iter().collect::<Vec<_>>()).map_err(|e| e.to_string())?;
            table.check_all_taken().map_err(|e| e.to_string())?;
            Ok::<usize, String>(found.len())
        };
        let good = RowParts::of([0, 1, 1, 0, 0]).unwrap().to_bytes(id);
        assert_eq!(take(&good, &[(0, 3, 7), (1, 2, 7)]), Ok(1));
        let refused = |bytes: &[u8], shapes: &[(u8, u32, u32)], part: &str| {
            let error = take(bytes, shapes).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(&good, &[(0, 2, 7), (1, 3, 7)], "part 0 of 3 x 7");
        refused(&good, &[(0, 3, 7), (1, 2, 8)], "part 1 of 2 x 7");
        refused(&good, &[(0, 3, 7), (1, 3, 7)], "6 rows");
        refused(&good, &[(0, 5, 7)], "part 0 of 3 x 7");
        refused(&good, &[(1, 2, 7)], "section PART");
        refused(&good, &[], "a tensor of the file");
        refused(&[], &[(0, 3, 7), (1, 2, 7)], "part 1 of head");
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        refused(&changed(0, 64), &[(0, 3, 7), (1, 2, 7)], "the number of a matrix");
        refused(&changed(9, 1 << 2), &[(0, 3, 7), (1, 2, 7)], "zero bits");
        refused(&changed(4, 99), &[(0, 3, 7), (1, 2, 7)], "rows whose parts");
        refused(&[&good[..], &good[..]].concat(), &[], "ascending");
        for len in 1..good.len() {
            RowPartTable::parse(&good[..len], 0).unwrap_err();
        }
    }
}
