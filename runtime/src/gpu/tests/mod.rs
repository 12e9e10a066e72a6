//! Kernels by themselves, against what they are defined to compute. `scripts/test_gpu` runs them, on lavapipe where there is no other
//! device.

mod attention;
mod experts;
mod likeliest;
mod limit;
mod route;

use std::sync::Arc;

use qsf_format::BUILT_IN;
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

use super::device::Gpu;
use super::dispatch::{Bound, CopyBack, Dispatcher};
use super::step::Command;

/// A device with kernels.
struct Bench(Dispatcher);

impl Bench {
    fn new() -> Bench {
        Bench(Dispatcher::new(Gpu::open(true).unwrap(), BUILT_IN))
    }

    /// A buffer of so many words, which are zero.
    fn room(&self, words: usize) -> Arc<Buffer> {
        Arc::new(self.0.gpu.empty_buffer(4 * words as u64, "test").unwrap())
    }

    fn buffer(&self, words: &[u32]) -> Arc<Buffer> {
        Arc::new(self.0.gpu.buffer_of(words, "test").unwrap())
    }

    fn floats(&self, values: &[f32]) -> Arc<Buffer> {
        self.buffer(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    }

    /// Runs one pass, and reads what is then in a buffer.
    fn run(&self, commands: &[Command], result: &Buffer) -> Vec<u32> {
        let bytes = result.size();
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let descriptor = BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        let to = self.0.gpu.device.create_buffer(&descriptor);
        let back = CopyBack { from: result, to: &to, bytes };
        let steps = self.0.submit(self.0.encode(commands.to_vec(), &Bound::default(), None, Some(back)));
        // What was refused says why; waiting for it does not.
        self.0.gpu.check().unwrap();
        let mut words = vec![0; bytes as usize / 4];
        self.0.read(&to, steps, &mut words).unwrap();
        words
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
