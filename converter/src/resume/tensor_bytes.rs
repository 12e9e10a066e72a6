//! Tensors as bytes of a journal, and back.

use std::borrow::Cow;

use qsf_format::{JsonLimits, Layout, Outliers, TensorId, TensorKind, from_json};
use serde::{Deserialize, Serialize};

use crate::encode::{StoredTensor, TensorBlocks};
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
}

/// Tensors as bytes: a length, a list in JSON, and the data of all.
pub(crate) fn to_bytes(tensors: &[StoredTensor]) -> Vec<u8> {
    to_parts(tensors).concat()
}

/// [`to_bytes`] in parts that borrow the data: tensors are large.
pub(crate) fn to_parts(tensors: &[StoredTensor]) -> Vec<Cow<'_, [u8]>> {
    let entries: Vec<Entry> = tensors
        .iter()
        .map(|t| Entry {
            record: t.record.clone(),
            layout: t.encoded.layout.id(),
            bytes: t.encoded.data.len(),
            outlier_bytes: if t.outliers.is_empty() { 0 } else { t.outliers.stored_bytes() as usize },
        })
        .collect();
    let list = serde_json::to_vec(&entries).expect("finite numbers and names are JSON");
    let mut parts = vec![Cow::Owned((list.len() as u64).to_le_bytes().to_vec()), Cow::Owned(list)];
    for tensor in tensors {
        parts.push(Cow::Borrowed(&tensor.encoded.data[..]));
        if !tensor.outliers.is_empty() {
            parts.push(Cow::Owned(tensor.outliers.to_bytes(tensor.id)));
        }
    }
    parts
}

/// The tensors that [`to_bytes`] made bytes of; `None` if it did not.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Vec<StoredTensor>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (list, mut data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let entries: Vec<Entry> = from_json(list, JsonLimits::DESCRIPTION).ok()?;
    let mut tensors = Vec::with_capacity(entries.len());
    for Entry { record, layout, bytes, outlier_bytes } in entries {
        let (own, rest) = data.split_at_checked(bytes)?;
        let (apart, rest) = rest.split_at_checked(outlier_bytes)?;
        data = rest;
        let outliers = if apart.is_empty() { Outliers::default() } else { Outliers::parse(apart, 0).ok()?.1 };
        let kind = TensorKind::ALL.iter().copied().find(|kind| kind.name() == record.kind)?;
        let TensorReport { rows, cols, quant, .. } = record;
        let layout = Layout::from_id(layout)?;
        let encoded = TensorBlocks { kind, rows, cols, quant, layout, data: own.to_vec() };
        tensors.push(StoredTensor { id: TensorId { layer: record.layer, kind }, encoded, outliers, record });
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
            encoded: TensorBlocks {
                kind,
                rows: 16,
                cols: 32,
                quant: quant.into(),
                layout: Layout::Panels16,
                data,
            },
        };
        let tensors = [
            tensor(TensorKind::AttnQ, QuantType::N4, vec![1; 304]),
            tensor(TensorKind::FfnDown, QuantType::T2, vec![2; 160]),
        ];
        let bytes = to_bytes(&tensors);
        let read = from_bytes(&bytes).unwrap();
        for (read, written) in read.iter().zip(&tensors) {
            assert_eq!((read.id, &read.record), (written.id, &written.record));
            assert_eq!(read.encoded.data, written.encoded.data);
            assert_eq!(read.outliers, written.outliers);
        }
        for cut in 0..bytes.len() {
            assert!(from_bytes(&bytes[..cut]).is_none(), "{cut}");
        }
    }
}
