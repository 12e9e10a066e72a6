//! What a sequence keeps, as bytes: to go on with it later, or in another process, bit for bit.
//!
//! Keys and values are saved as they are stored, and of what was let go nothing. Numbers are little-endian:
//!
//! | Bytes | What |
//! |---|---|
//! | 4 x 4 | positions seen; positions behind the last that was ever stored; those of layers that let some go; positions at the last time |
//! | for each recurrent layer | a byte, 1 where a token was seen; f32 inputs of the convolution and memory |
//! | for each layer with attention | keys and values of the positions that it has, f32 attention that these have got, where that is counted |
//!
//! A position that was marked is not: it is the first thing that who goes on would mark again.

use std::ops::Range;

use qsf_cpu::Slabs;

use super::kv_cache::{KvCache, Layer};
use crate::error::{Result, RuntimeError};

/// Numbers at the beginning.
const NUMBERS: usize = 4;
const WORD: usize = size_of::<u32>();

impl KvCache {
    /// Adds what the sequence keeps to `bytes`.
    pub fn save(&self, bytes: &mut Vec<u8>) {
        for number in [self.len, self.stored, self.used, self.let_go] {
            bytes.extend((number as u32).to_le_bytes());
        }
        for layer in &self.layers {
            if let Some(recurrent) = &layer.recurrent {
                let (seen, now) = recurrent.now();
                bytes.push(u8::from(seen));
                [&now.inputs, &now.memory].into_iter().for_each(|floats| put_floats(bytes, floats));
            }
            if layer.stores_none {
                continue;
            }
            let positions = self.kept_in(layer);
            positions.clone().for_each(|position| layer.kv.save(position, bytes));
            let all = layer.mass.len() / layer.kv.kv_heads();
            for mass in layer.mass.chunks_exact(all.max(1)) {
                put_floats(bytes, &mass[..positions.end]);
            }
        }
    }

    /// Takes up what [`KvCache::save`] gave of a cache of the same model, capacity, steps and options. All of `bytes` must be of it.
    ///
    /// # Errors
    /// When it is none, or memory runs out. Then the sequence is empty.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.clear();
        let restored = self.take_up(bytes);
        if restored.is_err() {
            self.clear();
        }
        restored
    }

    /// Forgets all positions.
    pub fn clear(&mut self) {
        self.restart(0);
    }

    fn take_up(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader { left: bytes };
        let numbers = reader.take(NUMBERS * WORD)?;
        let mut numbers =
            numbers.chunks_exact(WORD).map(|word| word.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)));
        let mut next = || numbers.next().unwrap_or(0);
        let [len, stored, used, let_go] = [next(), next(), next(), next()];
        let lets_go = self.layers.iter().any(|layer| layer.lets_go);
        let stores = self.layers.iter().any(|layer| !layer.stores_none);
        let fits = len <= if stores { stored } else { self.capacity }
            && stored <= self.capacity
            && used <= len
            && let_go <= len;
        if !fits || (!lets_go && (used, let_go) != (len, 0)) {
            return Err(damaged(format!(
                "{len} positions of {stored}, {used} kept, {let_go} before, of {}",
                self.capacity
            )));
        }
        if self.layers.iter().any(|layer| layer.lets_go && used > 0 && !layer.kv.has_room(used - 1)) {
            return Err(damaged(format!("{used} positions that were kept, for which there is no room")));
        }
        (self.len, self.stored, self.used, self.let_go) = (len, stored, used, let_go);
        for at in 0..self.layers.len() {
            let positions = self.kept_in(&self.layers[at]);
            self.layers[at].take_up(positions, &mut self.slabs, &mut reader)?;
        }
        match reader.left.len() {
            0 => Ok(()),
            left => Err(damaged(format!("{left} bytes more"))),
        }
    }

    /// Where the positions that a layer has are in it.
    fn kept_in(&self, layer: &Layer) -> Range<usize> {
        if layer.lets_go { 0..self.used } else { layer.kv.first_kept(self.stored).min(self.len)..self.len }
    }
}

impl Layer {
    fn take_up(&mut self, positions: Range<usize>, slabs: &mut Slabs, reader: &mut Reader<'_>) -> Result<()> {
        if let Some(recurrent) = &mut self.recurrent {
            let seen = reader.take(1)?[0] != 0;
            let now = recurrent.replace(seen);
            take_floats(reader, &mut now.inputs)?;
            take_floats(reader, &mut now.memory)?;
        }
        if self.stores_none || positions.is_empty() {
            return Ok(());
        }
        // A page at least, of which the size of a position is known; the rest when the bytes are seen to be there.
        self.kv.reserve(slabs, 1)?;
        let size = self.kv.saved_bytes();
        let rows = reader.take(positions.len().saturating_mul(size))?;
        self.kv.reserve(slabs, positions.end)?;
        for (position, row) in positions.clone().zip(rows.chunks_exact(size)) {
            self.kv.restore(position, row);
        }
        let all = self.mass.len() / self.kv.kv_heads();
        for mass in self.mass.chunks_exact_mut(all.max(1)) {
            take_floats(reader, &mut mass[..positions.end])?;
        }
        Ok(())
    }
}

/// Bytes that are left.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let missing = || damaged(format!("{} bytes in place of {count}", self.left.len()));
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(missing)?;
        self.left = left;
        Ok(taken)
    }
}

fn put_floats(bytes: &mut Vec<u8>, floats: &[f32]) {
    floats.iter().for_each(|float| bytes.extend(float.to_le_bytes()));
}

fn take_floats(reader: &mut Reader<'_>, floats: &mut [f32]) -> Result<()> {
    let bytes = reader.take(floats.len() * WORD)?;
    for (float, bytes) in floats.iter_mut().zip(bytes.as_chunks().0) {
        *float = f32::from_le_bytes(*bytes);
    }
    Ok(())
}

fn damaged(found: String) -> RuntimeError {
    RuntimeError::Request(format!("a saved sequence is damaged, or of another model or context: {found}"))
}
