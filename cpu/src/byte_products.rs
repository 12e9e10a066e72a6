//! Products of bytes by vector instructions: what attention over many tokens asks for where there is no matrix unit.

/// Rows of a product.
pub(crate) const ROWS: usize = 16;
/// Columns of a product.
pub(crate) const COLUMNS: usize = 32;
/// Factors whose products are added up at once.
pub(crate) const QUAD: usize = 4;

/// Signed bytes of 16 columns, four side by side of each.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct QuadLine(pub(crate) [u32; COLUMNS / 2]);

/// Four factors of 32 columns.
pub(crate) type Quads = [QuadLine; 2];

pub(crate) const NO_QUADS: Quads = [QuadLine([0; COLUMNS / 2]); 2];

/// Where sums go: to 32 integers of 32 bits for each row, which are `stride` of them apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholesOut {
    pub(crate) start: *mut i32,
    pub(crate) stride: usize,
}

/// Instructions that multiply bytes. A trait so that all around it is tested on processors without them.
pub(crate) trait ByteProducts {
    /// # Safety
    /// The processor must have the instructions.
    unsafe fn new() -> Self;

    /// The products of [`ROWS`] rows of unsigned bytes with 32 columns, summed up over all quads of `columns`. Row r has
    /// its bytes from `rows[r * stride]` on.
    ///
    /// # Panics
    /// When there are fewer bytes.
    ///
    /// # Safety
    /// Behind `out` there must be room for the sums.
    unsafe fn multiply(&mut self, rows: &[u8], stride: usize, columns: &[Quads], out: WholesOut);
}

/// What such instructions do, in plain Rust.
#[cfg(test)]
pub(crate) struct EmulatedProducts;

#[cfg(test)]
impl ByteProducts for EmulatedProducts {
    unsafe fn new() -> EmulatedProducts {
        EmulatedProducts
    }

    unsafe fn multiply(&mut self, rows: &[u8], stride: usize, columns: &[Quads], out: WholesOut) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let factor = |i: usize| {
                    let quad = columns[i / QUAD][column / 16].0[column % 16];
                    i32::from((quad >> (8 * (i % QUAD))) as i8)
                };
                let product = |i: usize| i32::from(rows[row * stride + i]) * factor(i);
                // SAFETY: the caller's promise.
                unsafe {
                    *out.start.add(row * out.stride + column) = (0..QUAD * columns.len()).map(product).sum();
                }
            }
        }
    }
}
