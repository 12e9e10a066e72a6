//! Rows that matrices read.

use std::sync::Arc;

use wgpu::Buffer;

use super::device::Gpu;
use super::step::padded;
use crate::error::Result;

/// Buffers of rows that matrices read, one for each width that layers have: kernels read whole blocks, and behind the values of a row are
/// zeros that nothing overwrites.
pub struct InputRows(Vec<(usize, Arc<Buffer>)>);

impl InputRows {
    /// Room for `batch` rows of each of these widths.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, batch: usize, widths: impl Iterator<Item = usize>) -> Result<InputRows> {
        let mut widths: Vec<usize> = widths.collect();
        widths.sort_unstable();
        widths.dedup();
        let buffer = |width: usize| {
            let buffer = gpu.empty_buffer(4 * (batch * padded(width)) as u64, "activations")?;
            Ok((width, Arc::new(buffer)))
        };
        Ok(InputRows(widths.into_iter().map(buffer).collect::<Result<_>>()?))
    }

    /// The rows of `width` values, which are [`padded`] apart.
    ///
    /// # Panics
    /// When there are none of this width.
    pub fn of(&self, width: usize) -> &Arc<Buffer> {
        let found = self.0.iter().find(|(of, _)| *of == width);
        found.map(|(_, buffer)| buffer).unwrap_or_else(|| panic!("no rows of {width} values"))
    }
}
