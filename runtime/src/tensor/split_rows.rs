//! A matrix whose rows are in several types (SPEC.md section 5.2).

use std::sync::Arc;

use qsf_cpu::Isa;
use qsf_format::RowParts;

use super::matrix::{ForeignRows, SplitRows, Tensor};
use super::stored_type::StoredType;

impl ForeignRows for SplitRows {
    fn stored_type(&self) -> StoredType {
        self.parts[0].stored_type()
    }

    fn row_bytes(&self) -> usize {
        let bytes: u64 = self.parts.iter().map(Tensor::stored_bytes).sum();
        bytes.div_ceil(self.rows.rows().max(1) as u64) as usize
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let (part, row) = self.rows.place(row);
        self.parts[part].decode_row(isa, row, out);
    }

    /// Rows that are one behind the other in a part: those of an expert.
    fn slice(&self, first: usize, rows: usize) -> Option<Tensor> {
        if rows == 0 || first + rows > self.rows.rows() {
            return None;
        }
        let (part, from) = self.rows.place(first);
        let run = self.rows.runs().iter().find(|run| run.rows().contains(&first))?;
        (first + rows <= run.rows().end).then(|| self.parts[part].slice_rows(from..from + rows))
    }

    fn split(&self) -> Option<&SplitRows> {
        Some(self)
    }
}

impl Tensor {
    /// A matrix in parts.
    ///
    /// # Panics
    /// As [`SplitRows::new`].
    pub fn of_parts(parts: Vec<Tensor>, rows: RowParts) -> Tensor {
        let (count, cols) = (rows.rows(), parts[0].cols());
        Tensor::foreign(count, cols, Arc::new(SplitRows::new(parts, rows)))
    }

    /// Parts that are stored for themselves: those of a matrix in parts, or the one that all of it is.
    pub fn stored_parts(&self) -> &[Tensor] {
        self.split().map_or(std::slice::from_ref(self), SplitRows::parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_parts_and_an_expert_is_a_plain_matrix() {
        // Experts of two rows: in parts 0, 1, 0.
        let rows = RowParts::of([0, 0, 1, 1, 0, 0]).unwrap();
        let parts = vec![
            Tensor::from_f32(4, 2, &[1.0, 2.0, 3.0, 4.0, 9.0, 10.0, 11.0, 12.0]),
            Tensor::from_f32(2, 2, &[5.0, 6.0, 7.0, 8.0]),
        ];
        assert!(rows.has_whole_shares(3) && rows.has_whole_shares(1) && !rows.has_whole_shares(2));
        let all = Tensor::of_parts(parts, rows);
        let expected: Vec<f32> = (1..=12).map(|i| i as f32).collect();
        assert_eq!(all.to_f32(), expected);
        assert_eq!((all.stored_bytes(), all.stored_parts().len()), (48, 2));
        for expert in 0..3 {
            let slice = all.slice_rows(2 * expert..2 * expert + 2);
            assert_eq!(slice.to_f32(), &expected[4 * expert..4 * expert + 4]);
            assert!(slice.native().is_some() && slice.split().is_none());
        }
        let across = all.slice_rows(1..5);
        assert_eq!(across.to_f32(), &expected[2..10]);
        assert!(across.split().is_none() && across.native().is_none());
    }
}
