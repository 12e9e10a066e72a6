//! Products of bytes by a matrix unit: what attention of a few queries over codes asks of one.

use crate::lanes::LANES;

/// Rows of a product: those of whole numbers of 8 bits, or of eight rows of 16 bits the low bytes and the high ones, in turn.
pub(crate) const ROWS: usize = 16;
/// Bytes of a row that are multiplied at once.
pub(crate) const BYTES: usize = 64;

/// Signed bytes of each row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ByteRows(pub(crate) [[u8; BYTES]; ROWS]);

impl ByteRows {
    pub(crate) const ZERO: ByteRows = ByteRows([[0; BYTES]; ROWS]);
}

/// Signed bytes of 16 columns: four of the first, of the second and so on, then the next four.
pub(crate) type ByteColumns = [[u8; LANES]; BYTES];

/// Sums of products: rows x columns.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ByteSums(pub(crate) [[i32; LANES]; ROWS]);

impl ByteSums {
    pub(crate) const ZERO: ByteSums = ByteSums([[0; LANES]; ROWS]);
}

/// A matrix unit, set up for a thread. A trait so that all around it is tested on processors without one.
pub(crate) trait ByteUnit {
    /// The products of rows with each of four times columns.
    fn multiply(&mut self, rows: &ByteRows, columns: [&ByteColumns; 4], out: &mut [ByteSums; 4]);
}

/// Any of them.
pub(crate) type AnyByteUnit = dyn ByteUnit;

/// What a matrix unit does, in plain Rust.
#[cfg(test)]
pub(crate) struct EmulatedBytes;

#[cfg(test)]
impl ByteUnit for EmulatedBytes {
    fn multiply(&mut self, rows: &ByteRows, columns: [&ByteColumns; 4], out: &mut [ByteSums; 4]) {
        for (columns, sums) in columns.into_iter().zip(out) {
            let byte =
                |column: usize, k: usize| columns.as_flattened()[k / 4 * 4 * LANES + 4 * column + k % 4];
            for (row, sums) in rows.0.iter().zip(&mut sums.0) {
                for (column, sum) in sums.iter_mut().enumerate() {
                    let product =
                        |k: usize| i32::from(row[k].cast_signed()) * i32::from(byte(column, k).cast_signed());
                    *sum = (0..BYTES).map(product).sum();
                }
            }
        }
    }
}
