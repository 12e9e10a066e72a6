//! What recurrent layers have kept of the tokens so far, in buffers.
//!
//! A step reads one side and writes the other, and they change places when the step counts: a step that was run ahead and is not gone on
//! with leaves the state as it was.

use std::sync::Arc;

use wgpu::Buffer;

use super::device::Gpu;
use crate::decoder::{no_way_back, recurrent_sizes};
use crate::error::{Result, RuntimeError};
use qsf_format::ModelConfig;

/// The states of all recurrent layers of a sequence.
pub struct RecurrentStates {
    gpu: Gpu,
    /// Of each layer, where it is recurrent.
    layers: Vec<Option<[Arc<Buffer>; 2]>>,
    /// The side of the last step that counts.
    current: usize,
    /// Where convolutions keep their inputs, the memory begins behind.
    memory: usize,
    bytes: u64,
    /// Copies of the current side, and the position that they are of.
    marked: Option<(usize, Vec<Buffer>)>,
}

/// The state of a layer in a step.
#[derive(Clone, Copy)]
pub struct StepSides<'a> {
    /// Before the step.
    pub before: &'a Arc<Buffer>,
    /// Behind it.
    pub behind: &'a Arc<Buffer>,
    /// First float of what the recurrence keeps; before are the inputs of the convolution.
    pub memory: usize,
}

impl RecurrentStates {
    /// Those before the first token.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, config: &ModelConfig) -> Result<RecurrentStates> {
        let (inputs, memory) = recurrent_sizes(config).unwrap_or((0, 0));
        let bytes = 4 * (inputs.saturating_add(memory).max(4)) as u64;
        let side = || Ok::<_, RuntimeError>(Arc::new(gpu.empty_buffer(bytes, "recurrent state")?));
        let layer = |layer| match config.recurrent(layer) {
            Some(_) => Ok(Some([side()?, side()?])),
            None => Ok(None),
        };
        Ok(RecurrentStates {
            gpu: gpu.clone(),
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            current: 0,
            memory: inputs,
            bytes,
            marked: None,
        })
    }

    /// The state of a layer in the next step; `None` where it has none.
    pub fn step(&self, layer: usize) -> Option<StepSides<'_>> {
        let sides = self.layers.get(layer)?.as_ref()?;
        let (before, behind) = (&sides[self.current], &sides[1 - self.current]);
        Some(StepSides { before, behind, memory: self.memory })
    }

    /// The last step counts.
    pub fn commit(&mut self) {
        self.current = 1 - self.current;
    }

    /// Makes sure that the state of now, at `position`, can be gone back to.
    ///
    /// # Errors
    /// When the device has no memory for the copies.
    pub fn mark(&mut self, position: usize) -> Result<()> {
        if self.layers.iter().all(Option::is_none) {
            return Ok(());
        }
        let kept = match self.marked.take() {
            Some((_, kept)) => kept,
            None => {
                let copy = |_| self.gpu.empty_buffer(self.bytes, "recurrent state");
                self.layers.iter().flatten().map(copy).collect::<Result<_>>()?
            }
        };
        self.copy(&kept, |now, kept| (now, kept));
        self.marked = Some((position, kept));
        Ok(())
    }

    /// The last position up to `position` that can be gone back to from `now`.
    pub fn way_back(&self, position: usize, now: usize) -> usize {
        if position >= now || self.layers.iter().all(Option::is_none) {
            return position.min(now);
        }
        self.marked.as_ref().map(|(marked, _)| *marked).filter(|marked| *marked <= position).unwrap_or(0)
    }

    /// Goes back from `now` to an earlier position.
    ///
    /// # Errors
    /// When that is neither the first nor the one that is marked.
    pub fn rewind(&mut self, position: usize, now: usize) -> Result<()> {
        if self.layers.iter().all(Option::is_none) {
            return Ok(());
        }
        if position == 0 {
            self.clear();
            return Ok(());
        }
        match &self.marked {
            Some((marked, kept)) if *marked == position => {
                self.copy(kept, |now, kept| (kept, now));
                Ok(())
            }
            _ => Err(no_way_back(position, now)),
        }
    }

    /// Forgets all tokens.
    fn clear(&mut self) {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for sides in self.layers.iter().flatten() {
            encoder.clear_buffer(&sides[self.current], 0, None);
        }
        self.gpu.queue.submit([encoder.finish()]);
        self.marked = None;
    }

    /// Copies between the current side of each layer and what is kept of it, in the direction that `way` says.
    fn copy<'a>(
        &'a self,
        kept: &'a [Buffer],
        way: impl Fn(&'a Buffer, &'a Buffer) -> (&'a Buffer, &'a Buffer),
    ) {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for (sides, kept) in self.layers.iter().flatten().zip(kept) {
            let (from, to) = way(&sides[self.current], kept);
            encoder.copy_buffer_to_buffer(from, 0, to, 0, self.bytes);
        }
        self.gpu.queue.submit([encoder.finish()]);
    }
}
