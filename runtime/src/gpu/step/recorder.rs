//! What makes the commands of steps.

use std::sync::Arc;

use wgpu::Buffer;

use super::command::Command;
use crate::gpu::device::Abilities;
use crate::gpu::kernels::Kernel;
use crate::gpu::model::GpuModel;
use crate::gpu::state::GpuState;

/// Makes the commands of steps.
pub struct Recorder<'a> {
    pub abilities: Abilities,
    pub model: &'a GpuModel,
    pub state: &'a GpuState,
    pub commands: Vec<Command>,
}

impl Recorder<'_> {
    /// Adds a dispatch.
    pub(super) fn push(
        &mut self,
        kernel: Kernel,
        buffers: &[&Arc<Buffer>],
        job: &[u32],
        groups: (u32, u32, u32),
    ) {
        self.commands.push(Command::new(kernel, buffers, job, groups));
    }
}

/// A part of each row: `width` values from `first` on, in rows `stride` apart.
pub(super) struct RowPart {
    pub width: usize,
    pub stride: usize,
    pub first: usize,
}
