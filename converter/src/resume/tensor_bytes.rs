//! Tensors as bytes of a journal, and back.

use std::borrow::Cow;

use qsf_format::{JsonLimits, Layout, Outliers, RowParts, TensorId, TensorKind, from_json};
use serde::{Deserialize, Serialize};

use crate::encode::{StoredPart, StoredParts, StoredTensor, TensorBlocks};
use crate::plan::TensorReport;

/// What a list of tensors says of each.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    record: TensorReport,
    layout: u8,
    bytes: usize,
    /// Bytes of what is stored apart, behind those.
    #[serde(default)]
    outlier_bytes: usize,
    /// Bytes of what says which rows are in which part, behind those; the other parts follow as entries of their own.
    #[serde(default)]
    row_part_bytes: usize,
    /// How many of these there are.
    #[serde(default)]
    other_parts: usize,
}

/// Tensors as bytes: a length, a list in JSON, and the data of all.
pub(crate) fn to_bytes(tensors: &[StoredTensor]) -> Vec<u8> {
    to_parts(tensors).concat()
}

/// [`to_bytes`] in pieces that borrow the data: tensors are large.
pub(crate) fn to_parts(tensors: &[StoredTensor]) -> Vec<Cow<'_, [u8]>> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for tensor in tensors {
        let apart = if tensor.outliers.is_empty() { Vec::new() } else { tensor.outliers.to_bytes(tensor.id) };
        let rows = tensor.split.as_ref().map_or_else(Vec::new, |split| split.rows.to_bytes(tensor.id));
        let others = tensor.split.as_ref().map_or(&[][..], |split| &split.others);
        let mut first = Entry::of(&tensor.record, &tensor.encoded);
        (first.outlier_bytes, first.row_part_bytes, first.other_parts) =
            (apart.len(), rows.len(), others.len());
        entries.push(first);
        data.extend([Cow::Borrowed(&tensor.encoded.data[..]), Cow::Owned(apart), Cow::Owned(rows)]);
        for part in others {
            entries.push(Entry::of(&part.record, &part.encoded));
            data.push(Cow::Borrowed(&part.encoded.data[..]));
        }
    }
    let list = serde_json::to_vec(&entries).expect("finite numbers and names are JSON");
    let mut pieces = vec![Cow::Owned((list.len() as u64).to_le_bytes().to_vec()), Cow::Owned(list)];
    pieces.extend(data.into_iter().filter(|bytes| !bytes.is_empty()));
    pieces
}

impl Entry {
    fn of(record: &TensorReport, blocks: &TensorBlocks) -> Entry {
        let (layout, bytes) = (blocks.layout.id(), blocks.data.len());
        Entry { record: record.clone(), layout, bytes, outlier_bytes: 0, row_part_bytes: 0, other_parts: 0 }
    }

    /// The blocks that it is of, which begin `data`.
    fn blocks(&self, data: &mut &[u8]) -> Option<TensorBlocks> {
        let kind = self.record.kind.split('.').next()?;
        let kind = TensorKind::ALL.iter().copied().find(|known| known.name() == kind)?;
        let TensorReport { rows, cols, quant, .. } = self.record;
        let (layout, own) = (Layout::from_id(self.layout)?, take(data, self.bytes)?);
        Some(TensorBlocks { kind, rows, cols, quant, layout, data: own.to_vec() })
    }
}

/// The little-endian number that begins `bytes`, which then is what follows; `None` where less is left.
pub(crate) fn read_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

/// The first bytes of `data`, which then is what follows.
fn take<'a>(data: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (own, rest) = data.split_at_checked(count)?;
    *data = rest;
    Some(own)
}

/// The tensors that [`to_bytes`] made bytes of; `None` if it did not.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Vec<StoredTensor>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (list, mut data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let entries: Vec<Entry> = from_json(list, JsonLimits::DESCRIPTION).ok()?;
    let mut tensors = Vec::with_capacity(entries.len());
    let mut entries = entries.into_iter();
    while let Some(entry) = entries.next() {
        let encoded = entry.blocks(&mut data)?;
        let apart = take(&mut data, entry.outlier_bytes)?;
        let outliers = if apart.is_empty() { Outliers::default() } else { Outliers::parse(apart, 0).ok()?.1 };
        let rows = take(&mut data, entry.row_part_bytes)?;
        let rows = if rows.is_empty() { None } else { Some(RowParts::of_record(rows)?) };
        let mut others = Vec::new();
        for other in entries.by_ref().take(entry.other_parts) {
            others.push(StoredPart { encoded: other.blocks(&mut data)?, record: other.record });
        }
        if others.len() != entry.other_parts || rows.is_some() != (entry.other_parts > 0) {
            return None;
        }
        let split = rows.map(|rows| StoredParts { rows, others });
        let id = TensorId { layer: entry.record.layer, kind: encoded.kind };
        tensors.push(StoredTensor { id, encoded, outliers, split, record: entry.record });
    }
    data.is_empty().then_some(tensors)
}

#[cfg(test)]
mod tests {
    use qsf_format::QuantType;

    use super::*;

    fn outliers() -> Outliers {
        let mut outliers = Outliers::default();
        (0..16).for_each(|row| outliers.push_row(&[(row, 2.5)]));
        outliers
    }

    #[test]
    fn tensors_come_back_from_their_bytes_and_cut_bytes_do_not() {
        let tensor = |kind: TensorKind, quant: QuantType, data: Vec<u8>| StoredTensor {
            id: TensorId::of_layer(3, kind),
            record: TensorReport {
                layer: Some(3),
                kind: kind.name().into(),
                rows: 16,
                cols: 32,
                quant: quant.into(),
                promoted_from: None,
                outliers: 0,
                cosine: Some(0.1 + 0.2),
                relative_error: Some(1e-17),
                max_abs_error: None,
            },
            outliers: if quant == QuantType::T2 { outliers() } else { Outliers::default() },
            split: None,
            encoded: TensorBlocks {
                kind,
                rows: 16,
                cols: 32,
                quant: quant.into(),
                layout: Layout::Panels16,
                data,
            },
        };
        let mut tensors = [
            tensor(TensorKind::AttnQ, QuantType::N4, vec![1; 304]),
            tensor(TensorKind::FfnDown, QuantType::T2, vec![2; 160]),
            tensor(TensorKind::FfnUp, QuantType::N3, vec![3; 100]),
        ];
        let StoredTensor { encoded, mut record, .. } = tensor(TensorKind::FfnUp, QuantType::N4, vec![4; 50]);
        record.kind = "ffn_up.1".into();
        let rows = RowParts::of((0..32).map(|row| u8::from(row % 2 == 0))).unwrap();
        tensors[2].split = Some(StoredParts { rows, others: vec![StoredPart { encoded, record }] });
        let bytes = to_bytes(&tensors);
        let read = from_bytes(&bytes).unwrap();
        for (read, written) in read.iter().zip(&tensors) {
            assert_eq!((read.id, &read.record), (written.id, &written.record));
            assert_eq!(read.encoded.data, written.encoded.data);
            assert_eq!(read.outliers, written.outliers);
            let split = |tensor: &StoredTensor| {
                let parts = |split: &StoredParts| (split.rows.clone(), split.others[0].encoded.data.clone());
                tensor.split.as_ref().map(parts)
            };
            assert_eq!(split(read), split(written));
            assert!(read.records().eq(written.records()));
        }
        for cut in 0..bytes.len() {
            assert!(from_bytes(&bytes[..cut]).is_none(), "{cut}");
        }
    }
}
