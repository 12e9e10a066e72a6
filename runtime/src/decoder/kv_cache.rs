//! Keys and values of past positions.

use qsf_format::ModelConfig;

use crate::cpu::{Cpu, KvLayer, KvShape, KvTypes};
use crate::error::{Result, RuntimeError};
use crate::memory;

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvOptions {
    /// Their types.
    pub types: KvTypes,
    /// Whether layers with a sliding window keep all positions, as others do: then any can be taken back.
    pub whole: bool,
}

impl From<KvTypes> for KvOptions {
    fn from(types: KvTypes) -> KvOptions {
        KvOptions { types, whole: false }
    }
}

/// Keys and values of every layer, or of one at a time. Memory is taken as positions come, 256 at a time. A layer with a
/// sliding window keeps as many positions as a window and a step have.
pub struct KvCache {
    capacity: usize,
    len: usize,
    /// Behind the last position that was ever stored since the cache was empty.
    stored: usize,
    /// The layer that the first is of.
    first: usize,
    layers: Vec<KvLayer>,
    /// Positions that queries of each layer see.
    windows: Vec<usize>,
}

impl KvCache {
    /// Room for `capacity` positions of `layers` layers, from the first on, of which at most `batch` come in one step.
    ///
    /// # Errors
    /// When the system would not give as much memory as it takes when it is full.
    pub fn new(
        config: &ModelConfig,
        layers: u32,
        (capacity, batch): (usize, usize),
        options: KvOptions,
    ) -> Result<KvCache> {
        let what = || format!("key/value cache of {capacity} positions");
        memory::ask(bytes(config, layers, (capacity, batch), options), what)?;
        let windows = (0..layers).map(|index| config.window(index).map_or(usize::MAX, |size| size as usize));
        let windows = windows.collect();
        let layers = (0..layers).map(|index| layer(config, index, (capacity, batch), options)).collect();
        Ok(KvCache { capacity, len: 0, stored: 0, first: 0, layers, windows })
    }

    /// Bytes that the cache of a model takes when it is full, without what the allocator adds.
    pub fn bytes(config: &ModelConfig, context: usize, batch: usize, options: KvOptions) -> u64 {
        bytes(config, config.layers, (context, batch), options)
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

    /// Takes memory for `positions` more.
    ///
    /// # Errors
    /// When there is not enough.
    pub fn reserve(&mut self, positions: usize) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| layer.reserve(self.len + positions))
    }

    /// Forgets all positions from `len` on.
    ///
    /// # Errors
    /// When the next one would see positions that a layer with a sliding window has no more.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        if len >= self.len {
            return Ok(());
        }
        let mut layers = self.layers.iter().zip(&self.windows);
        let lost = |(layer, window): (&KvLayer, &usize)| {
            (len + 1).saturating_sub(*window) < layer.first_kept(self.stored)
        };
        if len > 0 && layers.any(lost) {
            return Err(RuntimeError::Request(format!(
                "position {len} cannot be gone back to: layers with a sliding window keep no more than that, and {} positions have \
                 been stored",
                self.stored
            )));
        }
        self.len = len;
        if len == 0 {
            self.stored = 0;
        }
        Ok(())
    }

    /// Forgets everything, and is for the layers from `first` on: all have the same shape.
    pub fn restart(&mut self, first: usize) {
        self.first = first;
        (self.len, self.stored) = (0, 0);
    }

    /// Stores keys and values of `layer` for the positions that follow; `keys` and `values` hold one row of
    /// `kv_heads * head_dim` per position. [`KvCache::advance`] counts them once every layer has them.
    pub fn store(&mut self, cpu: &Cpu, layer: usize, keys: &[f32], values: &[f32]) {
        let layer = &mut self.layers[layer - self.first];
        self.stored = self.stored.max(self.len + keys.len() / (layer.kv_heads() * layer.head_dim()));
        layer.store(cpu, self.len, keys, values);
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

/// An empty layer with room for what it is to keep.
fn layer(config: &ModelConfig, index: u32, (capacity, batch): (usize, usize), options: KvOptions) -> KvLayer {
    let (kv_heads, head_dim) = (config.kv_heads as usize, config.head_dim as usize);
    let shape = KvShape { kv_heads, head_dim, types: options.types };
    match config.window(index).filter(|_| !options.whole) {
        // The first token of a step sees its window, the last itself.
        Some(window) => {
            KvLayer::ring(shape, (window as usize).saturating_sub(1).saturating_add(batch), capacity)
        }
        None => KvLayer::new(shape, capacity),
    }
}

fn bytes(config: &ModelConfig, layers: u32, room: (usize, usize), options: KvOptions) -> u64 {
    (0..layers).map(|index| layer(config, index, room, options).bytes()).fold(0, u64::saturating_add)
}
