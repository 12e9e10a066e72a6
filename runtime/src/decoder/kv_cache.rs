//! Keys and values of past positions.

use qsf_format::ModelConfig;

use crate::cpu::{Cpu, KvLayer};
use crate::error::Result;

/// Keys and values of every layer, or of one at a time, in f32.
pub struct KvCache {
    capacity: usize,
    len: usize,
    /// The layer that the first is of.
    first: usize,
    layers: Vec<KvLayer>,
}

impl KvCache {
    /// Room for `capacity` positions of `layers` layers, from the first on.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(config: &ModelConfig, layers: u32, capacity: usize) -> Result<KvCache> {
        let (kv_heads, head_dim) = (config.kv_heads as usize, config.head_dim as usize);
        let layer = |_| KvLayer::new(kv_heads, head_dim, capacity);
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        Ok(KvCache { capacity, len: 0, first: 0, layers })
    }

    /// Bytes that a cache of so many positions of all layers takes.
    pub fn bytes(config: &ModelConfig, capacity: usize) -> u64 {
        let (kv_heads, head_dim) = (config.kv_heads as usize, config.head_dim as usize);
        u64::from(config.layers) * KvLayer::bytes(kv_heads, head_dim, capacity)
    }

    /// Positions stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all positions from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets everything, and is for the layers from `first` on: all have the same shape.
    pub fn restart(&mut self, first: usize) {
        self.first = first;
        self.len = 0;
    }

    /// Stores keys and values of `layer` for the positions that follow; `keys` and `values` hold one row of
    /// `kv_heads * head_dim` per position. [`KvCache::advance`] counts them once every layer has them.
    pub fn store(&mut self, cpu: &Cpu, layer: usize, keys: &[f32], values: &[f32]) {
        self.layers[layer - self.first].store(cpu, self.len, keys, values);
    }

    /// Counts `positions` more.
    pub fn advance(&mut self, positions: usize) {
        self.len += positions;
    }

    /// Keys and values of one layer.
    pub fn layer(&self, layer: usize) -> &KvLayer {
        &self.layers[layer - self.first]
    }
}
