//! Values of the rows of a matrix, in the order in which its parts have these rows.

use std::borrow::Cow;

use qsf_format::RowParts;

/// Columns of a value for each row, with the values in the order of the parts, if there are any.
pub fn in_order_of<'v>(rows: Option<&RowParts>, columns: &'v [f32]) -> Cow<'v, [f32]> {
    let Some(rows) = rows else { return Cow::Borrowed(columns) };
    let order: Vec<usize> = (0..rows.parts()).flat_map(|part| rows.rows_in(part)).collect();
    Cow::Owned(columns.chunks(order.len()).flat_map(|column| order.iter().map(|row| column[*row])).collect())
}
