//! One dispatch, and sizes that all dispatches agree on.

use std::sync::Arc;

use wgpu::Buffer;

use crate::gpu::kernels::Kernel;

/// The largest block: rows of inputs are padded to it, as kernels read whole blocks.
const MAX_BLOCK: usize = 256;

/// Tokens from which on matrices are multiplied on matrix units.
pub const MANY: usize = 16;

/// Choices of an expert that are multiplied at once in steps of many tokens.
pub const TILE: usize = 4;

/// One dispatch.
#[derive(Clone)]
pub struct Command {
    pub kernel: Kernel,
    pub buffers: Vec<Arc<Buffer>>,
    pub job: Vec<u32>,
    pub groups: (u32, u32, u32),
}

impl Command {
    /// A dispatch with its own list of these.
    pub fn new(kernel: Kernel, buffers: &[&Arc<Buffer>], job: &[u32], groups: (u32, u32, u32)) -> Command {
        let buffers = buffers.iter().map(|buffer| Arc::clone(buffer)).collect();
        Command { kernel, buffers, job: job.to_vec(), groups }
    }
}

/// Floats of a row of inputs.
pub fn padded(width: usize) -> usize {
    width.next_multiple_of(MAX_BLOCK)
}
