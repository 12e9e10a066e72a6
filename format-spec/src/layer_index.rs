//! The layer index: one 32-byte entry per layer (SPEC.md section 4).

use zerocopy::byteorder::little_endian::{F32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::alignment::LAYER_ALIGN;
use crate::chunk::Compression;
use crate::error::Damage;
use crate::quant_type::QuantType;

/// Bytes of one entry.
pub const INDEX_ENTRY_BYTES: usize = 32;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    offset: U64,
    stored_low: U32,
    raw_low: U32,
    quant: u8,
    compression: u8,
    tensors: U16,
    crc: U32,
    importance: F32,
    stored_high: U16,
    raw_high: U16,
}

/// Where a layer is and what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerEntry {
    /// Offset in the file, a multiple of 4096.
    pub offset: u64,
    /// Bytes in the file, chunk table included.
    pub stored_bytes: u64,
    /// Bytes after decompression.
    pub raw_bytes: u64,
    /// Type of tensors whose header says "the layer's default".
    pub quant: QuantType,
    /// Compression of the chunks.
    pub compression: Compression,
    /// Number of tensors.
    pub tensors: u16,
    /// CRC32 of the stored bytes.
    pub crc: u32,
    /// How much the layer matters; `None` when unknown, and then the layer is never skipped.
    pub importance: Option<f32>,
}

impl LayerEntry {
    /// The 32 bytes. `stored_bytes` and `raw_bytes` must be below 2^48.
    pub fn to_bytes(&self) -> [u8; INDEX_ENTRY_BYTES] {
        let raw = RawEntry {
            offset: self.offset.into(),
            stored_low: (self.stored_bytes as u32).into(),
            raw_low: (self.raw_bytes as u32).into(),
            quant: self.quant.id(),
            compression: self.compression as u8,
            tensors: self.tensors.into(),
            crc: self.crc.into(),
            importance: self.importance.unwrap_or(f32::NAN).into(),
            stored_high: ((self.stored_bytes >> 32) as u16).into(),
            raw_high: ((self.raw_bytes >> 32) as u16).into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads and checks entry `layer`, which stands at `at` in the file.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn parse(bytes: &[u8; INDEX_ENTRY_BYTES], layer: usize, at: u64) -> Result<LayerEntry, Damage> {
        let raw: RawEntry = zerocopy::transmute!(*bytes);
        let place = |what: &str| format!("layer index, entry {layer}, {what}");
        let offset = raw.offset.get();
        if !offset.is_multiple_of(LAYER_ALIGN) {
            return Err(Damage::new(place("offset"), at, "a multiple of 4096", offset));
        }
        let quant = QuantType::from_id(raw.quant)
            .ok_or_else(|| Damage::new(place("type"), at + 16, "a known type id", raw.quant))?;
        let compression = Compression::from_id(raw.compression.into())
            .ok_or_else(|| Damage::new(place("compression"), at + 17, "0 to 3", raw.compression))?;
        let importance = raw.importance.get();
        Ok(LayerEntry {
            offset,
            stored_bytes: u64::from(raw.stored_low) | u64::from(raw.stored_high) << 32,
            raw_bytes: u64::from(raw.raw_low) | u64::from(raw.raw_high) << 32,
            quant,
            compression,
            tensors: raw.tensors.get(),
            crc: raw.crc.get(),
            importance: (!importance.is_nan()).then_some(importance),
        })
    }
}
