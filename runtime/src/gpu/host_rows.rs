//! Tables of which a step needs the rows of its tokens and nothing else, left in the memory of the processor: it decodes these rows, and
//! the device gets them as floats. So a table takes no memory of the device, and may be larger than a buffer there can be.

use std::sync::Arc;

use wgpu::Buffer;
use zerocopy::IntoBytes;

use super::device::Gpu;
use crate::tensor::Tensor;
use qsf_cpu::{Cpu, add_assign, scale};

/// What one row costs to scale and to add, in multiply-adds of matrices, for each value.
const WORK: usize = 16;

/// A table.
pub struct HostRows {
    /// The table; the bytes are those of the model.
    pub table: Tensor,
    /// What rows are multiplied with.
    pub scale: f32,
    /// What is added to the row of a token for its position.
    pub positions: Option<Tensor>,
}

impl HostRows {
    /// Decodes the rows of `tokens`, the first of them at `position`, to the beginning of `to`. They are there before what is handed over
    /// next runs. A token that the table does not know has the row of the first.
    pub fn put(&self, gpu: &Gpu, cpu: &Cpu, tokens: &[u32], position: usize, to: &Arc<Buffer>) {
        let HostRows { table, scale: factor, positions } = self;
        let (isa, width) = (cpu.isa(), table.cols());
        let mut rows = vec![0.0; tokens.len() * width];
        cpu.for_each_rows([(&mut rows, width)], WORK * width, |first, [rows]| {
            let mut learned = vec![0.0; if positions.is_some() { width } else { 0 }];
            for (t, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                let token = tokens[t] as usize;
                table.decode_row(isa, if token < table.rows() { token } else { 0 }, row);
                scale(isa, row, *factor);
                if let Some(positions) = positions {
                    positions.decode_row(isa, position + t, &mut learned);
                    add_assign(isa, row, &learned);
                }
            }
        });
        // Numbers are on the device as they are here (Vulkan, "Host and Device Environment").
        gpu.queue.write_buffer(to, 0, rows.as_bytes());
    }
}
