//! Keys and values of a layer in buffers.

use std::sync::Arc;

use qsf_format::AttentionShape;
use wgpu::Buffer;

use super::device::Gpu;
use super::wgsl::eight_bit::{row_words, scale_words};
use crate::error::{Result, RuntimeError};
use qsf_cpu::KvTypes;

/// Keys and values of a layer: those of all layers together may be larger than a buffer can be. A clone is the same memory.
#[derive(Clone)]
pub struct LayerCache {
    /// Keys, heads x positions x words of a head.
    pub keys: Arc<Buffer>,
    /// Values.
    pub values: Arc<Buffer>,
    /// Where they are codes of 8 bits, their scales: those of keys and then those of values.
    pub scales: Option<Arc<Buffer>>,
}

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheType {
    /// As f16.
    F16,
    /// In codes of 8 bits.
    EightBit,
}

impl CacheType {
    /// What these types are on the device.
    ///
    /// # Errors
    /// When it does not have them.
    pub fn of(types: KvTypes) -> Result<CacheType> {
        match types {
            KvTypes::F16 => Ok(CacheType::F16),
            KvTypes::EIGHT_BIT => Ok(CacheType::EightBit),
            other => Err(RuntimeError::Request(format!(
                "on a GPU keys and values are both f16 or both 8bit, and not {other}: pass --kv-type f16 or --kv-type 8bit, or \
                 --device cpu"
            ))),
        }
    }
}

/// What it is called where there is no room for it.
const NAME: &str = "key/value cache (a smaller --ctx-size or --kv-type 8bit needs less)";

impl LayerCache {
    /// Room for `context` positions of a layer of this shape.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(
        gpu: &Gpu,
        cache_type: CacheType,
        shape: AttentionShape,
        context: usize,
    ) -> Result<LayerCache> {
        let AttentionShape { kv_heads, key_dim, value_dim, .. } = shape;
        let positions = kv_heads * context;
        let words = |count: usize| {
            let bytes = 4 * (positions * count) as u64;
            Ok::<_, RuntimeError>(Arc::new(gpu.empty_buffer(bytes, NAME)?))
        };
        let scales = |dims: [usize; 2]| words(dims.map(scale_words).iter().sum()).map(Some);
        let (row, scales): (fn(usize) -> usize, _) = match cache_type {
            CacheType::F16 => (|dim| dim.div_ceil(2), None),
            CacheType::EightBit => (row_words, scales([key_dim, value_dim])?),
        };
        Ok(LayerCache { keys: words(row(key_dim))?, values: words(row(value_dim))?, scales })
    }
}
