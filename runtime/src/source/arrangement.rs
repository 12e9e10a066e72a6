//! Tensors put together from rows of others: how sources store in one matrix, or in many, what the model has in one.
//! No value is copied; which row is meant is worked out when it is decoded.

use std::sync::Arc;

use crate::tensor::Tensor;
use crate::tensor::{ForeignRows, StoredType};
use qsf_cpu::Isa;

/// Which row of a stored matrix each row of a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Runs of `run` rows, the first run at row `first` and each next one `stride` rows on: queries, keys and values that
    /// alternate head by head.
    Strided {
        /// First row.
        first: usize,
        /// Rows that follow one another.
        run: usize,
        /// From the start of a run to that of the next.
        stride: usize,
    },
    /// Heads of which rows alternate between first and second half, as rotary embeddings of neighbouring pairs need them;
    /// here halves stand one behind the other.
    Interleaved {
        /// First row.
        first: usize,
        /// Rows of a head.
        head_dim: usize,
        /// How many of them, from the first on, alternate; even. The others stay where they are.
        rotated: usize,
    },
    /// Heads whose last rows are rotated: here they come first.
    RotatedLast {
        /// Rows of a head.
        head_dim: usize,
        /// Rows that are rotated; even.
        rotated: usize,
        /// Whether these alternate between first and second half.
        neighbours: bool,
    },
    /// Behind some rows that stay, runs of rows for each head of each group. Here the heads of a group follow one another; stored
    /// are the first heads of all groups, then the second ones, and so on.
    Tiled {
        /// Rows that stay.
        before: usize,
        /// Rows of a head.
        run: usize,
        /// Groups.
        groups: usize,
        /// Heads of a group.
        heads: usize,
    },
    /// Groups that each have a run of rows for each of some sections: one or more sections, each over all groups, one below
    /// another.
    Sections {
        /// Rows of a group in each section.
        runs: [usize; SECTIONS],
        /// The first section.
        first: usize,
        /// Groups.
        groups: usize,
    },
    /// [`SHARDS`] shards that each have a run of rows for each of three sections; the rows of a section in all shards are heads of
    /// which rows alternate between first and second half.
    Sharded {
        /// Rows of a section in a shard.
        run: usize,
        /// The section.
        section: usize,
        /// Rows of a head.
        head_dim: usize,
        /// How many of them, from the first on, alternate; even.
        rotated: usize,
    },
}

/// Shards of [`RowOrder::Sharded`].
pub const SHARDS: usize = 4;

/// Most sections of a group: queries, keys, values and gates.
pub const SECTIONS: usize = 4;

impl RowOrder {
    /// The stored row that is row `row` of the tensor.
    pub fn stored_row(&self, row: usize) -> usize {
        match *self {
            RowOrder::Strided { first, run, stride } => first + row / run * stride + row % run,
            RowOrder::Interleaved { first, head_dim, rotated } => first + interleaved(row, head_dim, rotated),
            RowOrder::RotatedLast { head_dim, rotated, neighbours } => {
                let (head, within) = (row / head_dim, row % head_dim);
                let (half, first) = (rotated / 2, head * head_dim);
                match within.checked_sub(rotated) {
                    Some(unrotated) => first + unrotated,
                    None if neighbours => first + head_dim - rotated + within % half * 2 + within / half,
                    None => first + head_dim - rotated + within,
                }
            }
            RowOrder::Tiled { before, run, groups, heads } => match row.checked_sub(before) {
                None => row,
                Some(row) => {
                    let (head, within) = (row / run, row % run);
                    before + (head % heads * groups + head / heads) * run + within
                }
            },
            RowOrder::Sections { runs, first, groups } => {
                let (stride, mut row) = (runs.iter().sum::<usize>(), row);
                for section in first..SECTIONS {
                    let (run, before) = (runs[section], runs[..section].iter().sum::<usize>());
                    if row < run * groups {
                        return row / run * stride + before + row % run;
                    }
                    row -= run * groups;
                }
                // Behind the last row.
                usize::MAX
            }
            RowOrder::Sharded { run, section, head_dim, rotated } => {
                let row = interleaved(row, head_dim, rotated);
                (row / run * 3 + section) * run + row % run
            }
        }
    }
}

/// Where row `row` of heads is whose first `rotated` rows alternate between first and second half.
fn interleaved(row: usize, head_dim: usize, rotated: usize) -> usize {
    let (head, within, half) = (row / head_dim, row % head_dim, rotated / 2);
    let stored = if within < rotated { within % half * 2 + within / half } else { within };
    head * head_dim + stored
}

impl Tensor {
    /// The `rows` rows that `order` names, or `None` when one of them is not there. Rows of a type of the file format
    /// that follow one another stay usable by kernels.
    pub fn reordered(&self, order: RowOrder, rows: usize) -> Option<Tensor> {
        match order {
            RowOrder::Strided { run: 0, .. } | RowOrder::Interleaved { head_dim: 0 | 1, .. } => return None,
            RowOrder::Interleaved { rotated: 0 | 1, .. } => return None,
            RowOrder::Interleaved { head_dim, rotated, .. }
                if !rows.is_multiple_of(head_dim) || rotated > head_dim || !rotated.is_multiple_of(2) =>
            {
                return None;
            }
            RowOrder::Interleaved { first, .. }
                if first.checked_add(rows).is_none_or(|end| end > self.rows()) =>
            {
                return None;
            }
            RowOrder::RotatedLast { head_dim, rotated, .. } => {
                let fits = rotated > 0 && rotated % 2 == 0 && rotated <= head_dim && rows <= self.rows();
                if !fits || !rows.is_multiple_of(head_dim) {
                    return None;
                }
            }
            RowOrder::Interleaved { .. } => {}
            RowOrder::Tiled { before, run, groups, heads } => {
                let all = run.checked_mul(groups)?.checked_mul(heads)?.checked_add(before)?;
                if all != self.rows() || rows != all {
                    return None;
                }
            }
            RowOrder::Sharded { run, section, head_dim, rotated } => {
                let heads = head_dim > 0 && rotated <= head_dim && rotated.is_multiple_of(2);
                let stored = run.checked_mul(3 * SHARDS).is_some_and(|stored| stored == self.rows());
                if !heads || !stored || section > 2 || rows != run * SHARDS || !rows.is_multiple_of(head_dim)
                {
                    return None;
                }
            }
            RowOrder::Sections { runs, first, groups } => {
                let stored =
                    runs.iter().try_fold(0usize, |sum, run| sum.checked_add(*run))?.checked_mul(groups)?;
                let there = runs.get(first..)?.iter().sum::<usize>() * groups;
                if stored > self.rows() || rows > there {
                    return None;
                }
            }
            RowOrder::Strided { first, run, stride } => {
                let last = rows.checked_sub(1);
                let last_stored = last.map_or(Some(first), |last| {
                    (last / run).checked_mul(stride)?.checked_add(first)?.checked_add(last % run)
                })?;
                if last.is_some() && last_stored >= self.rows() {
                    return None;
                }
                if rows <= run || run == stride {
                    return (first + rows <= self.rows()).then(|| self.slice_rows(first..first + rows));
                }
            }
        }
        Some(Tensor::foreign(rows, self.cols(), Arc::new(Reordered { stored: self.clone(), order })))
    }

    /// This tensor with its columns in another order, one that has all of them; `None` when it has another number of columns.
    pub fn with_columns(&self, order: RowOrder) -> Option<Tensor> {
        let places: Vec<usize> = (0..self.cols()).map(|column| order.stored_row(column)).collect();
        let fits = places.iter().all(|&place| place < self.cols());
        fits.then(|| {
            let columns = ReorderedColumns { stored: self.clone(), places };
            Tensor::foreign(self.rows(), self.cols(), Arc::new(columns))
        })
    }

    /// Tensors of the same width, one above the other; `None` when there are none, their columns differ or one has no rows.
    pub fn stacked(parts: Vec<Tensor>) -> Option<Tensor> {
        let cols = parts.first()?.cols();
        if parts.iter().any(|part| part.rows() == 0 || part.cols() != cols) {
            return None;
        }
        let mut ends = Vec::with_capacity(parts.len());
        for part in &parts {
            ends.push(part.rows().checked_add(ends.last().copied().unwrap_or(0))?);
        }
        if let [only] = parts.as_slice() {
            return Some(only.clone());
        }
        Some(Tensor::foreign(*ends.last()?, cols, Arc::new(Stacked { parts, ends })))
    }
}

#[derive(Debug)]
struct Reordered {
    stored: Tensor,
    order: RowOrder,
}

impl ForeignRows for Reordered {
    fn stored_type(&self) -> StoredType {
        self.stored.stored_type()
    }

    fn row_bytes(&self) -> usize {
        row_bytes(&self.stored)
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.stored.decode_row(isa, self.order.stored_row(row), out);
    }
}

#[derive(Debug)]
struct ReorderedColumns {
    stored: Tensor,
    /// The stored column of each.
    places: Vec<usize>,
}

impl ForeignRows for ReorderedColumns {
    fn stored_type(&self) -> StoredType {
        self.stored.stored_type()
    }

    fn row_bytes(&self) -> usize {
        row_bytes(&self.stored)
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let mut stored = vec![0.0; self.places.len()];
        self.stored.decode_row(isa, row, &mut stored);
        for (value, &place) in out.iter_mut().zip(&self.places) {
            *value = stored[place];
        }
    }
}

#[derive(Debug)]
struct Stacked {
    parts: Vec<Tensor>,
    /// Rows of each part and of those before it.
    ends: Vec<usize>,
}

impl Stacked {
    /// The part that a row is in, and the row there.
    fn place(&self, row: usize) -> (usize, usize) {
        let part = self.ends.partition_point(|end| *end <= row);
        (part, row - part.checked_sub(1).map_or(0, |before| self.ends[before]))
    }
}

impl ForeignRows for Stacked {
    fn stored_type(&self) -> StoredType {
        self.parts[0].stored_type()
    }

    fn row_bytes(&self) -> usize {
        row_bytes(&self.parts[0])
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let (part, row) = self.place(row);
        self.parts[part].decode_row(isa, row, out);
    }

    fn slice(&self, first: usize, rows: usize) -> Option<Tensor> {
        let (part, first) = self.place(first);
        let part = self.parts.get(part)?;
        (first + rows <= part.rows()).then(|| part.slice_rows(first..first + rows))
    }
}

fn row_bytes(tensor: &Tensor) -> usize {
    (tensor.stored_bytes() / (tensor.rows() as u64).max(1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(first: usize, rows: usize) -> Tensor {
        let values: Vec<f32> = (0..rows * 2).map(|i| (first + i / 2) as f32 + (i % 2) as f32 / 2.0).collect();
        Tensor::from_f32(rows, 2, &values)
    }

    fn rows_of(tensor: &Tensor) -> Vec<usize> {
        let values = tensor.to_f32();
        assert!(values.chunks(2).all(|row| row[1] == row[0] + 0.5));
        values.chunks(2).map(|row| row[0] as usize).collect()
    }

    #[test]
    fn keys_that_alternate_with_queries_and_values_are_picked_out_head_by_head() {
        let keys = RowOrder::Strided { first: 2, run: 2, stride: 6 };
        let tensor = numbered(0, 12).reordered(keys, 4).unwrap();
        assert_eq!(rows_of(&tensor), [2, 3, 8, 9]);
        assert_eq!(rows_of(&tensor.slice_rows(1..3)), [3, 8]);
        assert_eq!(
            numbered(0, 11).reordered(RowOrder::Strided { first: 4, run: 2, stride: 6 }, 4).map(|_| ()),
            None
        );
        let part = numbered(0, 12).reordered(RowOrder::Strided { first: 4, run: 8, stride: 8 }, 8).unwrap();
        assert!(part.native().is_some(), "rows that follow one another are those of the file");
        assert_eq!(rows_of(&part), [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn neighbouring_pairs_become_halves() {
        let order = RowOrder::Interleaved { first: 0, head_dim: 6, rotated: 6 };
        let tensor = numbered(0, 12).reordered(order, 12).unwrap();
        assert_eq!(rows_of(&tensor), [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
        let part = RowOrder::Interleaved { first: 0, head_dim: 6, rotated: 4 };
        let tensor = numbered(0, 12).reordered(part, 12).unwrap();
        assert_eq!(rows_of(&tensor), [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]);
        let second = numbered(0, 12)
            .reordered(RowOrder::Interleaved { first: 6, head_dim: 6, rotated: 6 }, 6)
            .unwrap();
        assert_eq!(rows_of(&second), [6, 8, 10, 7, 9, 11]);
        assert!(
            numbered(0, 12)
                .reordered(RowOrder::Interleaved { first: 7, head_dim: 6, rotated: 6 }, 6)
                .is_none()
        );
        assert!(
            numbered(0, 12)
                .reordered(RowOrder::Interleaved { first: 0, head_dim: 5, rotated: 5 }, 10)
                .is_none()
        );
        assert!(numbered(0, 10).reordered(order, 12).is_none());
    }

    #[test]
    fn sections_of_groups_are_gathered_over_all_groups() {
        let order = |first| RowOrder::Sections { runs: [1, 1, 2, 2], first, groups: 2 };
        assert_eq!(rows_of(&numbered(0, 12).reordered(order(0), 8).unwrap()), [0, 6, 1, 7, 2, 3, 8, 9]);
        assert_eq!(rows_of(&numbered(0, 12).reordered(order(3), 4).unwrap()), [4, 5, 10, 11]);
        assert!(numbered(0, 12).reordered(order(3), 5).is_none());
        assert!(numbered(0, 11).reordered(order(0), 8).is_none());
    }

    #[test]
    fn experts_stored_one_by_one_are_one_matrix_and_each_alone_is_its_own_again() {
        let all = Tensor::stacked(vec![numbered(0, 3), numbered(10, 3)]).unwrap();
        assert_eq!(rows_of(&all), [0, 1, 2, 10, 11, 12]);
        let second = all.slice_rows(3..6);
        assert!(second.native().is_some(), "an expert is multiplied by the kernels of its type");
        assert_eq!(rows_of(&second), [10, 11, 12]);
        assert_eq!(rows_of(&all.slice_rows(2..4)), [2, 10]);
        let uneven = Tensor::stacked(vec![numbered(0, 3), numbered(10, 1), numbered(20, 2)]).unwrap();
        assert_eq!(rows_of(&uneven), [0, 1, 2, 10, 20, 21]);
        assert_eq!(rows_of(&uneven.slice_rows(3..4)), [10]);
        assert_eq!(rows_of(&uneven.slice_rows(2..5)), [2, 10, 20]);
        let narrow = Tensor::from_f32(2, 1, &[0.0, 1.0]);
        assert!(Tensor::stacked(vec![numbered(0, 3), narrow]).is_none());
    }
}
