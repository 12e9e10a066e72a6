//! Whether a model fits, before any of it is taken up.

use qsf_format::human_bytes;
use wgpu::{Buffer, BufferDescriptor, BufferUsages, PollType};

use super::device::Gpu;
use super::weights::bytes_of;
use crate::error::{Result, RuntimeError};
use crate::memory;
use crate::tensor::{StoredType, Tensor};

/// Pieces in which memory is asked for: drivers have a largest allocation.
const PIECE_BYTES: u64 = 1 << 30;

/// What the matrices of a model take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// On the device, all of them.
    pub bytes: u64,
    /// On the device, those whose type has no kernels there: they become f32.
    pub widened_bytes: u64,
    /// The same matrices as they are stored.
    pub stored_bytes: u64,
}

impl Room {
    /// Of these matrices.
    pub(super) fn of<'t>(matrices: impl Iterator<Item = &'t Tensor>) -> Room {
        matrices.fold(Room::default(), |room, tensor| {
            let taken = bytes_of(tensor);
            let stored = tensor.stored_bytes();
            let is_widened = matches!(tensor.stored_type(), StoredType::Foreign(_)) && taken > stored;
            let (widened, narrow) = if is_widened { (taken, stored) } else { (0, 0) };
            Room {
                bytes: room.bytes + taken,
                widened_bytes: room.widened_bytes + widened,
                stored_bytes: room.stored_bytes + narrow,
            }
        })
    }

    /// What a user should know of types that have no kernels on the device.
    pub fn note(&self) -> Option<String> {
        (self.widened_bytes > 0).then(|| {
            format!(
                "{} of weights are of types of GGUF, which become f32 on the GPU and take {} there; convert the model to a QSF \
                 file first (qsf-convert), whose weights stay quantized",
                human_bytes(self.stored_bytes),
                human_bytes(self.widened_bytes)
            )
        })
    }

    /// That the device has so much memory.
    ///
    /// # Errors
    /// [`RuntimeError::OutOfMemory`] with all that is needed.
    pub(super) fn check(&self, gpu: &Gpu) -> Result<()> {
        // Memory of the system is promised and not there, so a device that shares it gives all that is asked for.
        let free = if gpu.summary().shared_memory { memory::available() } else { None };
        if free.is_some_and(|free| self.bytes > free) || !gpu.would_give(self.bytes) {
            let hint = self.note().map_or(String::new(), |note| format!(" ({note})"));
            let what = format!("matrices of the model on the GPU; use --device cpu{hint}");
            return Err(RuntimeError::OutOfMemory { what, bytes: self.bytes });
        }
        Ok(())
    }
}

impl Gpu {
    /// Whether the device gives so much memory, all of it at once. It is given back.
    fn would_give(&self, bytes: u64) -> bool {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let piece_bytes = PIECE_BYTES.min(self.max_buffer_bytes());
        let mut pieces: Vec<Buffer> = Vec::new();
        let mut left = bytes;
        while left > 0 {
            let size = left.min(piece_bytes).next_multiple_of(4);
            pieces.push(self.device.create_buffer(&BufferDescriptor {
                label: Some("trial"),
                size,
                usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            }));
            left = left.saturating_sub(size);
        }
        let refused = pollster::block_on(scope.pop());
        pieces.iter().for_each(Buffer::destroy);
        // Buffers go when the device has seen that nothing uses them.
        let _ = self.device.poll(PollType::Wait { submission_index: None, timeout: None });
        refused.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_device_has_is_refused_with_all_the_bytes() {
        let Ok(gpu) = Gpu::open(true) else { return };
        let fits = Room { bytes: 1 << 20, ..Room::default() };
        fits.check(&gpu).unwrap();
        let bytes = 1 << 44;
        let error = Room { bytes, widened_bytes: bytes, stored_bytes: bytes / 8 }.check(&gpu).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&bytes.to_string()) && text.contains("become f32"), "{text}");
        fits.check(&gpu).unwrap();
    }
}
