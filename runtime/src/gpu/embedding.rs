//! The token embedding: on the device, or left in the memory of the processor.

use super::device::Gpu;
use super::host_rows::HostRows;
use super::parts::GpuParts;
use super::room::Room;
use super::weights::bytes_of;
use crate::error::Result;
use crate::tensor::Tensor;

/// The token embedding.
pub enum GpuEmbedding {
    /// On the device, which goes on with a token that it has chosen before anybody else knows of it.
    OnDevice(GpuParts),
    /// Left to the processor: it, or a part of it, is larger than a buffer or has outliers; or nothing else needs it, and there is no
    /// room.
    OnHost(HostRows),
}

impl GpuEmbedding {
    /// What is on the device, if it is there.
    pub fn on_device(&self) -> Option<&GpuParts> {
        match self {
            GpuEmbedding::OnDevice(parts) => Some(parts),
            GpuEmbedding::OnHost(_) => None,
        }
    }

    /// What is left to the processor.
    pub fn on_host(&self) -> Option<&HostRows> {
        match self {
            GpuEmbedding::OnDevice(_) => None,
            GpuEmbedding::OnHost(rows) => Some(rows),
        }
    }
}

/// Which matrices go to the device.
pub struct Shares<'t> {
    /// What they take.
    pub room: Room,
    /// All of them.
    pub matrices: Vec<&'t Tensor>,
    /// Whether the processor decodes rows of the embedding.
    pub embedding_on_host: bool,
}

impl<'t> Shares<'t> {
    /// Of a model with this embedding and these other matrices; a `tied` head is the embedding.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn of(gpu: &Gpu, others: Vec<&'t Tensor>, embedding: &'t Tensor, tied: bool) -> Result<Shares<'t>> {
        let parts = embedding.stored_parts();
        let stays = |part: &Tensor| part.has_outliers() || bytes_of(part) > gpu.max_buffer_bytes();
        let must_stay = parts.iter().any(stays);
        let all = |embedding_on_host: bool| {
            let mut matrices = others.clone();
            if tied || !embedding_on_host {
                matrices.extend(parts);
            }
            Shares { room: Room::of(matrices.iter().copied()), matrices, embedding_on_host }
        };
        let shares = all(must_stay);
        Shares::that_fit(shares, (!tied && !must_stay).then(|| all(true)), |room| room.check(gpu))
    }

    /// The first, if it fits, or else the second.
    fn that_fit(
        first: Shares<'t>,
        second: Option<Shares<'t>>,
        check: impl Fn(&Room) -> Result<()>,
    ) -> Result<Shares<'t>> {
        match (check(&first.room), second) {
            (Ok(()), _) => Ok(first),
            (Err(_), Some(second)) => check(&second.room).map(|()| second),
            (Err(error), None) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RuntimeError;

    /// On a device with so many bytes.
    fn chosen(first: u64, second: Option<u64>, free: u64) -> Option<bool> {
        let shares = |bytes, embedding_on_host| Shares {
            room: Room { bytes, ..Room::default() },
            matrices: Vec::new(),
            embedding_on_host,
        };
        let check = |room: &Room| match room.bytes <= free {
            true => Ok(()),
            false => Err(RuntimeError::OutOfMemory { what: "test".into(), bytes: room.bytes }),
        };
        let found = Shares::that_fit(shares(first, false), second.map(|bytes| shares(bytes, true)), check);
        found.ok().map(|found| found.embedding_on_host)
    }

    #[test]
    fn an_embedding_that_nothing_else_needs_is_left_out_where_the_model_would_not_fit_with_it() {
        assert_eq!(chosen(100, Some(90), 100), Some(false));
        assert_eq!(chosen(100, Some(90), 95), Some(true));
        assert_eq!(chosen(100, Some(90), 80), None);
        assert_eq!(chosen(100, None, 95), None);
    }
}
