//! Tensors of a part of the file, with the bytes that they are in.

use crate::error::Damage;
use crate::file_bytes::RawBytes;
use crate::tensor_header::TensorEntry;
use crate::tensor_kind::TensorKind;

/// Tensors and the bytes that they are in.
#[derive(Debug, Clone)]
pub struct TensorGroup {
    /// Raw bytes; tensor ranges refer to them.
    pub bytes: RawBytes,
    /// Tensors in file order.
    pub tensors: Vec<TensorEntry>,
}

impl TensorGroup {
    /// A damage of `tensor`, one of these; `stored_at` is where the group's stored bytes begin.
    pub(crate) fn damage(
        &self,
        tensor: &TensorEntry,
        stored_at: u64,
        place: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Damage {
        self.bytes.origin(stored_at).damage(place, tensor.with_header().start, expected, found)
    }

    /// The CRC32 of each tensor with its header.
    pub(crate) fn crcs(&self) -> Vec<u32> {
        let raw = self.bytes.as_slice();
        self.tensors.iter().map(|tensor| crc32fast::hash(&raw[tensor.with_header()])).collect()
    }

    /// Checks that every known tensor of a part belongs there.
    pub(crate) fn check_placement(
        &self,
        stored_at: u64,
        place: &str,
        belongs: impl Fn(TensorKind) -> bool,
    ) -> Result<(), Damage> {
        let misplaced = |t: &TensorEntry| {
            let alone = t.kind == Some(TensorKind::TokenEmbedding);
            t.matrix_kind().filter(|kind| alone || !belongs(*kind))
        };
        match self.tensors.iter().find_map(|t| misplaced(t).map(|kind| (t, kind))) {
            Some((t, kind)) => Err(self.damage(t, stored_at, place, "only tensors that belong there", kind)),
            None => Ok(()),
        }
    }
}
