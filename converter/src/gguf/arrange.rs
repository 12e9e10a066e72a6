//! Rows of the model in the order, and with the values, that a GGUF file has.

use qsf_format::TensorKind;
use qsf_runtime::source::RowOrder;
use qsf_runtime::source::gguf::GgufForm;

use crate::encode::TensorBlocks;

/// The values of one tensor of the model as the file has them.
pub(super) fn arranged(blocks: &TensorBlocks, form: GgufForm, head_dim: usize) -> Vec<u8> {
    let is_vector = !blocks.kind.is_matrix();
    match form {
        GgufForm::Rows => blocks.data.clone(),
        GgufForm::PlusOne => plus_one(&blocks.data),
        GgufForm::NeighbouringPairs if !is_rotated(blocks.kind) => blocks.data.clone(),
        GgufForm::NeighbouringPairs => {
            let items = if is_vector { blocks.cols } else { blocks.rows } as usize;
            let bytes = blocks.data.len() / items.max(1);
            let order = RowOrder::Interleaved { first: 0, head_dim, rotated: head_dim };
            let mut out = vec![0; blocks.data.len()];
            for (item, data) in blocks.data.chunks_exact(bytes.max(1)).enumerate() {
                out[order.stored_row(item) * bytes..][..bytes].copy_from_slice(data);
            }
            out
        }
    }
}

/// Queries and keys; values in the same tensor stay as they are.
fn is_rotated(kind: TensorKind) -> bool {
    matches!(kind, TensorKind::AttnQ | TensorKind::AttnK | TensorKind::AttnQBias | TensorKind::AttnKBias)
}

/// 32-bit floats, each 1 larger.
fn plus_one(data: &[u8]) -> Vec<u8> {
    let (values, _) = data.as_chunks::<4>();
    values.iter().flat_map(|bytes| (f32::from_le_bytes(*bytes) + 1.0).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use qsf_format::{Layout, QuantType};

    use super::*;

    #[test]
    fn rows_of_queries_go_where_the_reader_takes_them_from() {
        let blocks = |kind, rows, cols, data: Vec<u8>| TensorBlocks {
            kind,
            rows,
            cols,
            quant: QuantType::F32.into(),
            layout: Layout::Rows,
            data,
        };
        let queries = blocks(TensorKind::AttnQ, 8, 1, (0..8).flat_map(|i| [i; 4]).collect());
        let out = arranged(&queries, GgufForm::NeighbouringPairs, 4);
        let rows: Vec<u8> = out.chunks(4).map(|row| row[0]).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
        let order = RowOrder::Interleaved { first: 0, head_dim: 4, rotated: 4 };
        assert!((0..8).all(|row| rows[order.stored_row(row)] == row as u8), "read back");
        let norm = blocks(
            TensorKind::AttnNorm,
            1,
            2,
            [0.25f32, -1.0].iter().flat_map(|v| v.to_le_bytes()).collect(),
        );
        let expected: Vec<u8> = [1.25f32, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(arranged(&norm, GgufForm::PlusOne, 4), expected);
        assert_eq!(arranged(&norm, GgufForm::NeighbouringPairs, 2), norm.data);
    }
}
