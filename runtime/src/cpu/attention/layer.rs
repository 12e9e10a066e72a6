//! Keys and values of one layer, in the order in which attention reads them.

use super::super::Cpu;
use super::super::aligned::AlignedFloats;
use super::super::lanes::{LANES, Lanes};
use crate::error::Result;

/// Positions of a block of keys: the vectors of each dimension that the kernels take at once.
const KEY_BLOCK: usize = KEY_LANES * LANES;
/// Vectors of a dimension.
pub(super) const KEY_LANES: usize = 2;

/// Keys and values of one layer, in f32.
///
/// Per key/value head, keys stand in blocks of 32 positions: 32 values of the first dimension, of the second and so on, so
/// that the scores of 16 positions are one vector and need no sums across lanes. Values are one row per position, padded
/// with zeros to a multiple of 16.
#[derive(Debug)]
pub struct KvLayer {
    kv_heads: usize,
    head_dim: usize,
    /// A multiple of 32.
    capacity: usize,
    keys: AlignedFloats,
    values: AlignedFloats,
}

/// Keys and values of one head.
#[derive(Clone, Copy)]
pub(super) struct KvHead<'a> {
    dim: usize,
    keys: &'a [Lanes],
    values: &'a [Lanes],
}

impl KvLayer {
    /// Room for `capacity` positions.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(kv_heads: usize, head_dim: usize, capacity: usize) -> Result<KvLayer> {
        let what = format!("key/value cache of {capacity} positions");
        let capacity = capacity.div_ceil(KEY_BLOCK).saturating_mul(KEY_BLOCK);
        let positions = kv_heads.saturating_mul(capacity);
        let keys = AlignedFloats::zeros(positions.saturating_mul(head_dim), &what)?;
        let values = AlignedFloats::zeros(positions.saturating_mul(padded(head_dim)), &what)?;
        Ok(KvLayer { kv_heads, head_dim, capacity, keys, values })
    }

    /// Bytes of a layer with room for `capacity` positions.
    pub fn bytes(kv_heads: usize, head_dim: usize, capacity: usize) -> u64 {
        let positions =
            kv_heads.saturating_mul(capacity.div_ceil(KEY_BLOCK).saturating_mul(KEY_BLOCK)) as u64;
        positions.saturating_mul(((head_dim + padded(head_dim)) * size_of::<f32>()) as u64)
    }

    /// Key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Values of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Stores keys and values of the positions from `position` on, one row of `kv_heads * head_dim` for each.
    ///
    /// # Panics
    /// When they are not rows, or more than fit.
    pub fn store(&mut self, cpu: &Cpu, position: usize, keys: &[f32], values: &[f32]) {
        let (dim, width) = (self.head_dim, self.kv_heads * self.head_dim);
        assert!(
            keys.len() == values.len() && keys.len().is_multiple_of(width),
            "keys are not rows of {width}"
        );
        assert!(position + keys.len() / width <= self.capacity, "more keys than fit");
        // Storing a value, spread out as keys are, takes about as long as a few multiply-adds.
        let work = 4 * keys.len();
        cpu.for_each_chunk(&mut self.keys, self.capacity * dim, work, |head, stored| {
            for (position, row) in (position..).zip(keys.chunks_exact(width)) {
                let block = &mut stored.as_chunks_mut::<KEY_BLOCK>().0[position / KEY_BLOCK * dim..];
                for (values, value) in block.iter_mut().zip(&row[head * dim..][..dim]) {
                    values[position % KEY_BLOCK] = *value;
                }
            }
        });
        let padded = padded(dim);
        cpu.for_each_chunk(&mut self.values, self.capacity * padded, work, |head, stored| {
            let stored = stored[position * padded..].chunks_exact_mut(padded);
            for (stored, row) in stored.zip(values.chunks_exact(width)) {
                stored[..dim].copy_from_slice(&row[head * dim..][..dim]);
            }
        });
    }

    pub(super) fn head(&self, head: usize) -> KvHead<'_> {
        let (keys, values) = (self.capacity * self.head_dim, self.capacity * padded(self.head_dim));
        KvHead {
            dim: self.head_dim,
            keys: self.keys[head * keys..][..keys].as_chunks().0,
            values: self.values[head * values..][..values].as_chunks().0,
        }
    }
}

fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

impl<'a> KvHead<'a> {
    /// Values of a key.
    #[inline(always)]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Vectors of a row of values.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        self.dim.div_ceil(LANES)
    }

    /// Keys of the 16 positions from `16 vector` on: their values of dimension i are vector `KEY_LANES * i`.
    #[inline(always)]
    pub fn keys(&self, vector: usize) -> &'a [Lanes] {
        &self.keys[vector / KEY_LANES * KEY_LANES * self.dim + vector % KEY_LANES..]
    }

    /// Values of the positions from `position` on, [`KvHead::columns`] vectors each.
    #[inline(always)]
    pub fn values(&self, position: usize) -> &'a [Lanes] {
        &self.values[position * self.columns()..]
    }
}
