//! Matrices whose rows are in parts of several types (SPEC.md section 5.2). Each part is a matrix of its own there, and a list says of
//! every row where it is when the parts are one behind the other.

use std::sync::Arc;

use qsf_format::RowParts;
use wgpu::Buffer;

use super::linears::{GpuLinear, with_vectors};
use super::weights::{GpuMatrix, Uploader};
use crate::error::Result;
use crate::tensor::{SplitRows, Tensor};
use crate::weights::Linear;

/// A matrix in pieces: those of the first part, then those of the next.
#[derive(Clone)]
pub struct GpuParts {
    /// The first piece.
    pub first: GpuMatrix,
    /// The others.
    pub others: Vec<GpuMatrix>,
    /// Where each row is among theirs, unless they are in order.
    pub places: Option<Arc<Buffer>>,
}

impl GpuParts {
    /// Takes a matrix up, each of its parts in its own type.
    ///
    /// # Errors
    /// When sixteen rows of it are larger than a buffer can be.
    pub fn upload(uploader: &mut Uploader<'_>, tensor: &Tensor) -> Result<GpuParts> {
        let Some(split) = tensor.split() else {
            let (first, others) = uploader.pieces(tensor)?;
            return Ok(GpuParts { first, others, places: None });
        };
        let (first, mut others) = uploader.pieces(&split.parts()[0])?;
        for part in &split.parts()[1..] {
            let (piece, below) = uploader.pieces(part)?;
            others.push(piece);
            others.extend(below);
        }
        let places = uploader.list(&places(split.rows()), "places of rows")?;
        Ok(GpuParts { first, others, places: Some(places) })
    }

    /// The pieces, each with where its rows begin among all.
    pub fn pieces(&self) -> impl Iterator<Item = (&GpuMatrix, u32)> {
        [&self.first].into_iter().chain(&self.others).scan(0, |rows, piece| {
            let first = *rows;
            *rows += piece.rows;
            Some((piece, first))
        })
    }
}

/// The head: what it gives is in the order of its pieces.
pub struct GpuHead {
    /// The matrix, with bias and adapters in the order of the pieces.
    pub linear: GpuLinear,
    /// Where the logit of each token is, unless they are in order.
    pub places: Option<Arc<Buffer>>,
}

impl GpuHead {
    /// The head `linear`, whose matrix was taken up.
    pub fn new(uploader: &mut Uploader<'_>, matrix: GpuParts, linear: &Linear) -> GpuHead {
        let GpuParts { first, others, places } = matrix;
        let rows = linear.weight.resident().and_then(Tensor::split).map(SplitRows::rows);
        GpuHead { linear: with_vectors(uploader, (first, others), linear, rows), places }
    }
}

/// Where each row of a matrix is when its parts are one behind the other.
fn places(rows: &RowParts) -> Vec<u32> {
    let first = |part: u8| (0..usize::from(part)).map(|part| rows.rows_of(part) as u32).sum::<u32>();
    let of_run = |run: &qsf_format::RowRun| (first(run.part) + run.in_part..).take(run.len as usize);
    rows.runs().iter().flat_map(of_run).collect()
}

#[cfg(test)]
mod tests {
    use super::super::part_order::in_order_of;
    use super::*;

    #[test]
    fn every_row_is_where_the_list_says() {
        let rows = RowParts::of([1, 0, 0, 2, 1, 0, 2]).unwrap();
        let (places, columns) = (places(&rows), [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 0.0, 1.0, 2.0]);
        let columns = [&columns[..], &[3.0, 4.0, 5.0, 6.0]].concat();
        let moved = in_order_of(Some(&rows), &columns);
        for (row, place) in places.iter().enumerate() {
            assert_eq!(moved[*place as usize], 10.0 + row as f32);
            assert_eq!(moved[7 + *place as usize], row as f32);
        }
        assert_eq!(in_order_of(None, &columns), columns);
    }
}
