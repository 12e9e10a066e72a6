//! Kernels by themselves, against what they are defined to compute. `scripts/test_gpu` runs them, on lavapipe where there is no other
//! device.

mod attention;
mod likeliest;

use std::sync::Arc;

use qsf_format::BUILT_IN;
use wgpu::{BindGroupDescriptor, Buffer, BufferDescriptor, BufferUsages, MapMode, PollType};

use super::decoder::bind_entry;
use super::device::Gpu;
use super::kernels::Kernels;
use super::step::Command;

/// A device with kernels.
struct Bench {
    gpu: Gpu,
    kernels: Kernels,
}

impl Bench {
    fn new() -> Bench {
        let gpu = Gpu::open(true).unwrap();
        let kernels = Kernels::new(&gpu.device, BUILT_IN);
        Bench { gpu, kernels }
    }

    /// A buffer of so many words, which are zero.
    fn room(&self, words: usize) -> Arc<Buffer> {
        Arc::new(self.gpu.empty_buffer(4 * words as u64, "test").unwrap())
    }

    fn buffer(&self, words: &[u32]) -> Arc<Buffer> {
        let buffer = self.room(words.len());
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.gpu.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    }

    fn floats(&self, values: &[f32]) -> Arc<Buffer> {
        self.buffer(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    }

    /// Runs one pass, and reads what is then in a buffer.
    fn run(&self, commands: &[Command], result: &Buffer) -> Vec<u32> {
        let device = &self.gpu.device;
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for Command { kernel, buffers, job, groups } in commands {
                let made = self.kernels.get(*kernel);
                let entry = |(binding, buffer): (u32, _)| bind_entry(binding, buffer);
                let entries: Vec<_> = (0..).zip(buffers).map(entry).collect();
                let descriptor = BindGroupDescriptor { label: None, layout: &made.layout, entries: &entries };
                pass.set_pipeline(&made.pipeline);
                pass.set_bind_group(0, &device.create_bind_group(&descriptor), &[]);
                let bytes: Vec<u8> = job.iter().flat_map(|word| word.to_le_bytes()).collect();
                pass.set_immediates(0, &bytes);
                pass.dispatch_workgroups(groups.0, groups.1, groups.2);
            }
        }
        let size = result.size();
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let back =
            device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        encoder.copy_buffer_to_buffer(result, 0, &back, 0, size);
        let steps = self.gpu.queue.submit([encoder.finish()]);
        back.slice(..).map_async(MapMode::Read, |mapped| mapped.unwrap());
        device.poll(PollType::Wait { submission_index: Some(steps), timeout: None }).unwrap();
        let view = back.slice(..).get_mapped_range().unwrap();
        let (words, _) = view.as_chunks::<4>();
        words.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }
}

/// Numbers that look random, the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// From -1 to 1.
    fn uniform(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }

    /// Nearly normal, with a variance of 1: the sum of twelve uniform values, each of variance 1/3, halved.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() / 2.0
    }
}
