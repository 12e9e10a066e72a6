//! Pieces of weights that are read when somebody asks for them, and the ones that were used last.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::chunk_reader::ChunkReader;
use super::part::StreamPart;
use crate::arena::Region;
use crate::error::{Result, RuntimeError};
use crate::tensor::TensorBytes;

/// Reads pieces into places of its own, of which the one that was used longest ago is given up for the next.
pub struct PieceCache {
    held: Mutex<Held>,
}

struct Held {
    reader: ChunkReader,
    places: Vec<Place>,
    clock: u64,
}

struct Place {
    memory: Arc<Region>,
    /// Part and raw bytes of it that are there.
    holds: Option<(usize, Range<usize>)>,
    /// Where they begin in the memory.
    start: usize,
    last_used: u64,
}

impl PieceCache {
    /// A cache of as many pieces as there are regions, each of which has room for a piece and
    /// [`SLACK`](super::chunk_reader::SLACK).
    ///
    /// # Panics
    /// When there is no region.
    pub fn new(reader: ChunkReader, regions: Vec<Region>) -> PieceCache {
        assert!(!regions.is_empty(), "a cache of nothing");
        let place = |memory| Place { memory: Arc::new(memory), holds: None, start: 0, last_used: 0 };
        let places = regions.into_iter().map(place).collect();
        PieceCache { held: Mutex::new(Held { reader, places, clock: 0 }) }
    }

    /// The raw bytes `raw` of `part`, which must be dropped before others are asked for: their place may be wanted.
    ///
    /// # Errors
    /// When they cannot be read or are damaged.
    ///
    /// # Panics
    /// When they are more than a place has room for.
    pub fn piece(&self, part: &StreamPart, raw: &Range<usize>) -> Result<TensorBytes> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { reader, places, clock } = &mut *held;
        *clock += 1;
        let is_it =
            |place: &Place| place.holds.as_ref().is_some_and(|(id, held)| *id == part.id && held == raw);
        let at = match places.iter().position(is_it) {
            Some(at) => at,
            None => {
                let oldest = (0..places.len()).min_by_key(|at| places[*at].last_used).unwrap_or(0);
                let place = &mut places[oldest];
                place.holds = None;
                let memory = Arc::get_mut(&mut place.memory)
                    .ok_or_else(|| RuntimeError::Request("a piece of weights is still in use".into()))?;
                place.start = reader.read(part, raw, memory)?;
                place.holds = Some((part.id, raw.clone()));
                oldest
            }
        };
        let place = &mut places[at];
        place.last_used = *clock;
        Ok(TensorBytes::Region(place.memory.clone(), place.start..place.start + raw.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use qsf_format::{Chunk, Compression, Outline};

    use super::super::chunk_reader::SLACK;
    use super::super::disk::Disk;
    use super::*;
    use crate::arena::Arena;

    const BYTES: usize = 9000;

    /// A file of the bytes 0, 1, ... 250, 0, ...; counts how often it is read.
    struct Counting(Arc<Mutex<usize>>);

    impl Disk for Counting {
        fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            *self.0.lock().unwrap() += 1;
            out.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at % 251) as u8);
            Ok(())
        }
    }

    #[test]
    fn what_was_used_last_is_not_read_again_and_what_was_used_longest_ago_makes_room() {
        let raw: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let chunk = |offset: usize| Chunk {
            offset: offset as u64,
            stored_bytes: 1000,
            raw_bytes: 1000,
            crc: crc32fast::hash(&raw[offset..offset + 1000]),
            compression: Compression::None,
        };
        let chunks = (0..BYTES).step_by(1000).map(chunk).collect();
        let outline = Outline { place: "layer 0".into(), chunks, tensors: Vec::new() };
        let part = StreamPart { id: 1, outline: Arc::new(outline) };
        let reads = Arc::new(Mutex::new(0));
        let mut arena = Arena::new(5 * (1000 + SLACK)).unwrap();
        let mut take = || arena.take("place", 1000 + SLACK).unwrap();
        let border = take();
        let stored = arena.take("none", 0).unwrap();
        let reader = ChunkReader::new("m.qsf".as_ref(), Box::new(Counting(reads.clone())), stored, border);
        let mut take = || arena.take("place", 1000 + SLACK).unwrap();
        let cache = PieceCache::new(reader, vec![take(), take()]);
        let mut read = |piece: usize| {
            let range = piece * 1000..piece * 1000 + 1000;
            assert_eq!(cache.piece(&part, &range).unwrap().as_slice(), &raw[range]);
            *reads.lock().unwrap()
        };
        assert_eq!([0, 1, 0, 1].map(&mut read), [1, 2, 2, 2]);
        assert_eq!([2, 1, 2, 0].map(&mut read), [3, 3, 3, 4], "0 had been used longest ago");
    }
}
