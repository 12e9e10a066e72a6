//! Hands commands over to the graphics processor, and reads what comes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use qsf_format::CodeTables;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, Buffer, CommandBuffer, ComputePassDescriptor, MapMode,
    PollType, SubmissionIndex,
};

use super::device::Gpu;
use super::kernels::{Kernel, Kernels};
use super::step::Command;
use super::times::Times;
use crate::error::{Result, RuntimeError};

/// What a bind group is of.
type BoundKey = (Kernel, Vec<Arc<Buffer>>);

/// Bind groups by kernel and buffers. They keep the buffers alive, so who owns buffers owns these.
#[derive(Default)]
pub struct Bound(Mutex<HashMap<BoundKey, BindGroup>>);

/// A device with the kernels that were made for it.
pub struct Dispatcher {
    pub gpu: Gpu,
    pub kernels: Kernels,
}

/// Bytes of one buffer that are copied to another behind a pass.
pub struct CopyBack<'a> {
    pub from: &'a Buffer,
    pub to: &'a Buffer,
    pub bytes: u64,
}

impl Dispatcher {
    /// No kernels as yet; learned types are decoded by `tables`.
    pub fn new(gpu: Gpu, tables: CodeTables) -> Dispatcher {
        let kernels = Kernels::new(&gpu.device, tables);
        Dispatcher { gpu, kernels }
    }

    /// Makes one pass, which runs when it is handed over.
    pub fn encode(
        &self,
        commands: Vec<Command>,
        bound: &Bound,
        times: Option<&Times>,
        back: Option<CopyBack<'_>>,
    ) -> CommandBuffer {
        let mut bound = bound.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
            times.iter().for_each(|times| times.write(&mut pass, 0));
            for (done, Command { kernel, buffers, job, groups }) in (1..).zip(commands) {
                let made = self.kernels.get(kernel);
                pass.set_pipeline(&made.pipeline);
                let group = bound.entry((kernel, buffers)).or_insert_with_key(|(_, buffers)| {
                    let entry = |(binding, buffer): (u32, _)| bind_entry(binding, buffer);
                    let entries: Vec<_> = (0..).zip(buffers).map(entry).collect();
                    let descriptor =
                        BindGroupDescriptor { label: None, layout: &made.layout, entries: &entries };
                    self.gpu.device.create_bind_group(&descriptor)
                });
                pass.set_bind_group(0, &*group, &[]);
                let bytes: Vec<u8> = job.iter().flat_map(|word| word.to_le_bytes()).collect();
                pass.set_immediates(0, &bytes);
                pass.dispatch_workgroups(groups.0, groups.1, groups.2);
                times.iter().for_each(|times| times.write(&mut pass, done));
            }
        }
        if let Some(CopyBack { from, to, bytes }) = back {
            encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes);
        }
        times.iter().for_each(|times| times.resolve(&mut encoder));
        encoder.finish()
    }

    /// Hands a pass over.
    pub fn submit(&self, pass: CommandBuffer) -> SubmissionIndex {
        self.gpu.queue.submit([pass])
    }

    /// Waits for what was handed over last of `steps`.
    ///
    /// # Errors
    /// When the device is lost, or anything went wrong on it before.
    pub fn wait(&self, steps: SubmissionIndex) -> Result<()> {
        let wait = PollType::Wait { submission_index: Some(steps), timeout: None };
        self.gpu.device.poll(wait).map_err(|e| lost(&e))?;
        self.gpu.check()
    }

    /// Waits for what was handed over last of `steps`, and reads the first words of `buffer`.
    ///
    /// # Errors
    /// When the device is lost, or anything went wrong on it before.
    pub fn read(&self, buffer: &Buffer, steps: SubmissionIndex, out: &mut [u32]) -> Result<()> {
        let range = 0..4 * out.len() as u64;
        let (send, outcome) = std::sync::mpsc::channel();
        buffer.slice(range.clone()).map_async(MapMode::Read, move |result| {
            let _ = send.send(result);
        });
        self.wait(steps)?;
        outcome.recv().map_err(|e| lost(&e))?.map_err(|e| lost(&e))?;
        {
            let view = buffer.slice(range).get_mapped_range().map_err(|e| lost(&e))?;
            for (word, bytes) in out.iter_mut().zip(view.chunks_exact(4)) {
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        buffer.unmap();
        Ok(())
    }
}

fn lost(why: &dyn std::error::Error) -> RuntimeError {
    RuntimeError::NoGpu { why: format!("the device does not answer: {why}") }
}

fn bind_entry(binding: u32, buffer: &Arc<Buffer>) -> BindGroupEntry<'_> {
    BindGroupEntry { binding, resource: buffer.as_entire_binding() }
}
