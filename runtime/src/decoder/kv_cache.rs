//! Keys and values of past positions.

use std::ops::Range;

use qsf_format::ModelConfig;

use crate::error::Result;
use crate::memory::zeros;

/// Keys and values of every layer, in f32. Per layer and key/value head, positions are contiguous rows of `head_dim`, so that
/// attention of one head walks through memory once.
pub struct KvCache {
    head_dim: usize,
    kv_heads: usize,
    capacity: usize,
    len: usize,
    layers: Vec<LayerCache>,
}

struct LayerCache {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    /// Room for `capacity` positions.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(config: &ModelConfig, capacity: usize) -> Result<KvCache> {
        let (head_dim, kv_heads) = (config.head_dim as usize, config.kv_heads as usize);
        let floats = kv_heads.saturating_mul(head_dim).saturating_mul(capacity);
        let what = format!("key/value cache of {capacity} positions");
        let layer = |_| Ok(LayerCache { keys: zeros(floats, &what)?, values: zeros(floats, &what)? });
        let layers = (0..config.layers).map(layer).collect::<Result<_>>()?;
        Ok(KvCache { head_dim, kv_heads, capacity, len: 0, layers })
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

    /// Stores keys and values of `layer` for the positions that follow; `keys` and `values` hold one row of
    /// `kv_heads * head_dim` per position. [`KvCache::advance`] counts them once every layer has them.
    pub fn store(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        let (dim, width) = (self.head_dim, self.kv_heads * self.head_dim);
        let cache = &mut self.layers[layer];
        for (t, (k, v)) in keys.chunks_exact(width).zip(values.chunks_exact(width)).enumerate() {
            for head in 0..self.kv_heads {
                let at = (head * self.capacity + self.len + t) * dim;
                cache.keys[at..at + dim].copy_from_slice(&k[head * dim..][..dim]);
                cache.values[at..at + dim].copy_from_slice(&v[head * dim..][..dim]);
            }
        }
    }

    /// Counts `positions` more.
    pub fn advance(&mut self, positions: usize) {
        self.len += positions;
    }

    /// Keys and values of one head for the positions `positions`.
    pub fn head(&self, layer: usize, head: usize, positions: Range<usize>) -> (&[f32], &[f32]) {
        let start = head * self.capacity;
        let range = (start + positions.start) * self.head_dim..(start + positions.end) * self.head_dim;
        (&self.layers[layer].keys[range.clone()], &self.layers[layer].values[range])
    }
}
