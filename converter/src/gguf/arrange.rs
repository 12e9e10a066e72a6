//! Rows of the model in the order, and with the values, that a GGUF file has.

use std::borrow::Cow;

use qsf_runtime::source::RowOrder;
use qsf_runtime::source::gguf::GgufForm;

use crate::encode::TensorBlocks;

/// A tensor of the model, and how it lies in one of the file.
pub(super) type Part = (TensorBlocks, GgufForm);

/// The values of a tensor of the file, of all its parts.
pub(super) fn arranged(parts: &[Part]) -> Cow<'_, [u8]> {
    if let [(blocks, GgufForm::From(0))] = parts {
        return Cow::Borrowed(&blocks.data);
    }
    let mut out = vec![0; parts.iter().map(|(blocks, _)| blocks.data.len()).sum()];
    for (blocks, form) in parts {
        let data = &blocks.data;
        match *form {
            GgufForm::From(first) => scatter(blocks, data, |item| first + item, &mut out),
            GgufForm::Ordered(order) => scatter(blocks, data, |item| order.stored_row(item), &mut out),
            GgufForm::Columns(order) => scatter(blocks, &columns(blocks, order), |item| item, &mut out),
            GgufForm::PlusOne => scatter(blocks, &plus_one(data), |item| item, &mut out),
        }
    }
    Cow::Owned(out)
}

/// Moves rows of a matrix, or values of a vector, to where the file has them.
fn scatter(blocks: &TensorBlocks, data: &[u8], place: impl Fn(usize) -> usize, out: &mut [u8]) {
    let items = if blocks.kind.is_matrix() { blocks.rows } else { blocks.cols } as usize;
    let bytes = (data.len() / items.max(1)).max(1);
    for (item, data) in data.chunks_exact(bytes).enumerate() {
        let at = place(item) * bytes;
        if let Some(out) = out.get_mut(at..at + bytes) {
            out.copy_from_slice(data);
        }
    }
}

/// Columns of a head that stay together, where `order` moves columns by heads.
pub(super) fn columns_of_head(order: RowOrder) -> usize {
    match order {
        RowOrder::Tiled { before: 0, run, .. } => run,
        _ => 1,
    }
}

/// Each row with its columns moved, whole blocks at a time: [`check_plan`](super::check_plan) sees to it that heads have whole blocks.
fn columns(blocks: &TensorBlocks, order: RowOrder) -> Vec<u8> {
    let run = columns_of_head(order);
    let heads = blocks.cols as usize / run.max(1);
    let row_bytes = (blocks.data.len() / (blocks.rows as usize).max(1)).max(1);
    let bytes = row_bytes / heads.max(1);
    let mut out = vec![0; blocks.data.len()];
    for (row, stored) in blocks.data.chunks_exact(row_bytes).zip(out.chunks_exact_mut(row_bytes)) {
        for (head, values) in row.chunks_exact(bytes.max(1)).enumerate() {
            let at = order.stored_row(head * run) / run * bytes;
            stored[at..at + bytes].copy_from_slice(values);
        }
    }
    out
}

/// 32-bit floats, each 1 larger.
pub(super) fn plus_one(data: &[u8]) -> Vec<u8> {
    let (values, _) = data.as_chunks::<4>();
    values.iter().flat_map(|bytes| (f32::from_le_bytes(*bytes) + 1.0).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use qsf_format::{Layout, QuantType, TensorKind};

    use super::*;

    fn blocks(kind: TensorKind, rows: u32, cols: u32, values: &[f32]) -> TensorBlocks {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        TensorBlocks { kind, rows, cols, quant: QuantType::F32.into(), layout: Layout::Rows, data }
    }

    fn values(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    #[test]
    fn rows_of_queries_go_where_the_reader_takes_them_from() {
        let queries = blocks(TensorKind::AttnQ, 8, 1, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let order = RowOrder::Interleaved { first: 0, head_dim: 4, rotated: 4 };
        let parts = [(queries, GgufForm::Ordered(order))];
        let rows = values(&arranged(&parts));
        assert_eq!(rows, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert!((0..8).all(|row| rows[order.stored_row(row)] == row as f32), "read back");
        let parts = [(blocks(TensorKind::AttnNorm, 1, 2, &[0.25, -1.0]), GgufForm::PlusOne)];
        assert_eq!(values(&arranged(&parts)), [1.25, 0.0]);
    }

    #[test]
    fn parts_alternate_head_by_head_and_columns_move_with_their_heads() {
        let of_part = |first| RowOrder::Strided { first, run: 2, stride: 4 };
        let parts = [
            (blocks(TensorKind::AttnQ, 4, 1, &[0.0, 1.0, 2.0, 3.0]), GgufForm::Ordered(of_part(0))),
            (blocks(TensorKind::AttnGate, 4, 1, &[4.0, 5.0, 6.0, 7.0]), GgufForm::Ordered(of_part(2))),
        ];
        assert_eq!(values(&arranged(&parts)), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
        let order = RowOrder::Tiled { before: 0, run: 2, groups: 2, heads: 2 };
        let row: Vec<f32> = (0..8).map(|column| column as f32).collect();
        let parts = [(blocks(TensorKind::MixerOutput, 1, 8, &row), GgufForm::Columns(order))];
        assert_eq!(values(&arranged(&parts)), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
    }
}
