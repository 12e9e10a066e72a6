//! Products of bytes by a matrix unit: what attention of a few queries over codes asks of one.

use crate::lanes::LANES;

/// Rows of a product: of eight rows of whole numbers of 16 bits the low bytes and the high ones, in turn.
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
    /// The products of both of two times rows with each of four times columns.
    fn multiply_all(
        &mut self,
        rows: [&ByteRows; 2],
        columns: [&ByteColumns; 4],
        out: &mut [[ByteSums; 4]; 2],
    );

    /// The products of the first rows with the first two of four times columns, and of the other rows with the other columns.
    fn multiply_halves(&mut self, rows: [&ByteRows; 2], columns: [&ByteColumns; 4], out: &mut [ByteSums; 4]);
}

/// Any of them.
pub(crate) type AnyByteUnit = dyn ByteUnit;

/// What a matrix unit does, in plain Rust.
#[cfg(test)]
pub(crate) struct EmulatedBytes;

#[cfg(test)]
impl EmulatedBytes {
    fn multiply(rows: &ByteRows, columns: &ByteColumns, out: &mut ByteSums) {
        let byte = |column: usize, k: usize| columns.as_flattened()[k / 4 * 4 * LANES + 4 * column + k % 4];
        for (row, out) in rows.0.iter().zip(&mut out.0) {
            for (column, out) in out.iter_mut().enumerate() {
                let product =
                    |k: usize| i32::from(row[k].cast_signed()) * i32::from(byte(column, k).cast_signed());
                *out = (0..BYTES).map(product).sum();
            }
        }
    }
}

#[cfg(test)]
impl ByteUnit for EmulatedBytes {
    fn multiply_all(
        &mut self,
        rows: [&ByteRows; 2],
        columns: [&ByteColumns; 4],
        out: &mut [[ByteSums; 4]; 2],
    ) {
        for (rows, out) in rows.into_iter().zip(out) {
            columns
                .into_iter()
                .zip(out)
                .for_each(|(columns, out)| EmulatedBytes::multiply(rows, columns, out));
        }
    }

    fn multiply_halves(&mut self, rows: [&ByteRows; 2], columns: [&ByteColumns; 4], out: &mut [ByteSums; 4]) {
        for (i, (columns, out)) in columns.into_iter().zip(out).enumerate() {
            EmulatedBytes::multiply(rows[i / 2], columns, out);
        }
    }
}
