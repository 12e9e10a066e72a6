//! Layers: their tensors in one piece of memory, compressed where that pays.

use super::file::{MAX_LAYER_BYTES, QsfWriter};
use crate::alignment::{LAYER_ALIGN, next_tensor_header};
use crate::chunk::encode_layer;
use crate::error::FormatError;
use crate::layer_index::LayerEntry;
use crate::layout::Layout;
use crate::quant_type::QuantType;
use crate::tensor_header::tensor_header_bytes;
use crate::tensor_kind::TensorKind;

/// One tensor ready to be stored in a layer.
#[derive(Debug, Clone)]
pub struct EncodedTensor {
    /// What the tensor is for.
    pub kind: TensorKind,
    /// Which part of the matrix it is, where that is in parts, and else 0.
    pub part: u8,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// Stored type.
    pub quant: QuantType,
    /// Order of the data.
    pub layout: Layout,
    /// All rows, as type and layout say.
    pub data: Vec<u8>,
}
impl QsfWriter {
    /// Writes the next layer.
    ///
    /// # Errors
    /// When writing fails or the layer exceeds what the index can hold.
    pub fn layer(&mut self, tensors: Vec<EncodedTensor>, importance: Option<f32>) -> Result<(), FormatError> {
        let what = format!("layer {}", self.index.len());
        if self.index.len() == self.layer_count as usize {
            return Err(self.unwritable(&what, "all announced layers are written"));
        }
        let count = u16::try_from(tensors.len())
            .map_err(|_| self.unwritable(&what, "a layer holds at most 65535 tensors"))?;
        let quant = tensors.first().map_or(QuantType::F16, |t| t.quant);
        let mut raw = Vec::new();
        // By value: each tensor's memory is given back as soon as it is copied.
        for tensor in tensors {
            let EncodedTensor { kind, part, rows, cols, quant, layout, .. } = tensor;
            let bytes = self.size_of(kind, quant, layout, rows, cols)?;
            if tensor.data.len() as u64 != bytes {
                return Err(self.unwritable(kind.name(), &format!("its data is not {bytes} bytes")));
            }
            let start = next_tensor_header(raw.len() as u64).unwrap_or(u64::MAX) as usize;
            raw.resize(start, 0);
            raw.extend_from_slice(&tensor_header_bytes(kind, part, rows, cols, quant, layout));
            raw.extend_from_slice(&tensor.data);
            self.tensor_crcs.extend_from_slice(&crc32fast::hash(&raw[start..]).to_le_bytes());
        }
        let encoded = encode_layer(&raw, self.options.compression).map_err(|e| self.io("compress for", e))?;
        let stored_bytes = (encoded.table.len() + encoded.chunks.len()) as u64;
        if stored_bytes >= MAX_LAYER_BYTES {
            return Err(self.unwritable(&what, "it is larger than 2^48 bytes"));
        }
        self.pad_to(self.at.next_multiple_of(LAYER_ALIGN))?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&encoded.table);
        crc.update(&encoded.chunks);
        self.index.push(LayerEntry {
            offset: self.at,
            stored_bytes,
            raw_bytes: raw.len() as u64,
            quant,
            compression: encoded.compression,
            tensors: count,
            crc: crc.finalize(),
            importance,
        });
        self.put(&encoded.table)?;
        self.put(&encoded.chunks)
    }
}
