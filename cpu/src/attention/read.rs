//! What is stored of keys, or values, on its way into arithmetic: as floats, or as codes; and fetched ahead.

use std::ops::Range;

use super::super::aligned::AlignedFloats;
use super::super::lanes::{LANES, Lanes};
use super::super::vector::{LINE, Vector, prefetch_second};
use super::key_codes::KeyCodes;
use super::sizes::STEP;
use super::stored::{KEY_BLOCK, Order, Stored, Vectors};
use super::tile::Ahead;
use super::value_codes::ValueCodes;

impl Stored {
    /// Vectors of the `step` positions from `first` on, of which those of `seen` hold what is stored there: in place, or made
    /// in `room`.
    #[inline(always)]
    pub fn read<'a, V: Vector>(
        &'a self,
        first: usize,
        step: usize,
        seen: Range<usize>,
        room: &'a mut AlignedFloats,
    ) -> &'a [Lanes] {
        let Stored { order, dim, ref vectors } = *self;
        let (start, count) = (order.vectors(dim, first), order.vectors(dim, step));
        if let Vectors::F32(floats) = vectors {
            return &floats.as_chunks().0[start..start + count];
        }
        let room = room.lanes(count);
        // Keys are read in blocks.
        let range = match order {
            Order::Keys => seen.start / KEY_BLOCK * KEY_BLOCK..seen.end.next_multiple_of(KEY_BLOCK),
            Order::Values => seen,
        };
        let out = &mut room[order.vectors(dim, range.start) - start..order.vectors(dim, range.end) - start];
        match vectors {
            Vectors::F32(_) => {}
            Vectors::F16(vectors) => {
                let vectors = &vectors[order.vectors(dim, range.start)..order.vectors(dim, range.end)];
                for (out, vector) in out.iter_mut().zip(vectors) {
                    *out = V::from_halves(vector).to_lanes();
                }
            }
            Vectors::Codes { .. } => {
                if let Some(keys) = self.key_codes(range.start, range.len()) {
                    keys.to_floats::<V>(out);
                }
                if let Some(values) = self.value_codes(first) {
                    values.to_floats::<V>(range.start - first..range.end - first, room);
                }
            }
        }
        room
    }

    /// The `count` keys from position `first` on, of whole blocks, where they are in codes.
    #[inline(always)]
    pub fn key_codes(&self, first: usize, count: usize) -> Option<KeyCodes<'_>> {
        let Stored { order: Order::Keys, dim, vectors: Vectors::Codes { coding, codes, scales } } = self
        else {
            return None;
        };
        let arrays = |positions| Order::Keys.code_arrays(*coding, *dim, positions);
        let codes = &codes[arrays(first)..][..arrays(count)];
        let groups = coding.groups(*dim);
        let scales = &scales[first * groups..][..count * groups];
        Some(KeyCodes { coding: *coding, dim: *dim, codes, scales: scales.as_chunks().0 })
    }

    /// Addresses of what `count` positions from `first` on have, of whole steps: codes, or floats, and the scales of codes.
    pub fn lines(&self, first: usize, count: usize) -> [Range<usize>; 2] {
        fn addresses<T>(values: &[T]) -> Range<usize> {
            let Range { start, end } = values.as_ptr_range();
            start.addr()..end.addr()
        }
        let Stored { order, dim, ref vectors } = *self;
        let floats = order.vectors(dim, first)..order.vectors(dim, first + count);
        match vectors {
            Vectors::F32(vectors) => [addresses(&vectors.as_chunks::<LANES>().0[floats]), 0..0],
            Vectors::F16(vectors) => [addresses(&vectors[floats]), 0..0],
            Vectors::Codes { coding, codes, scales } => {
                let arrays = |positions| order.code_arrays(*coding, dim, positions);
                let groups = coding.groups(dim);
                let scales = addresses(&scales[first * groups..(first + count) * groups]);
                [addresses(&codes[arrays(first)..arrays(first + count)]), scales]
            }
        }
    }

    /// What `count` positions from `first` on have, of whole blocks, where that is halves.
    #[inline(always)]
    pub fn halves(&self, first: usize, count: usize) -> Option<&[[u16; LANES]]> {
        let Stored { order, dim, vectors: Vectors::F16(halves) } = self else { return None };
        Some(&halves[order.vectors(*dim, first)..order.vectors(*dim, first + count)])
    }

    /// The values of the step that begins at position `first`, where they are in codes.
    #[inline(always)]
    pub fn value_codes(&self, first: usize) -> Option<ValueCodes<'_>> {
        let Stored { order: Order::Values, dim, vectors: Vectors::Codes { coding, codes, scales } } = self
        else {
            return None;
        };
        let arrays = |positions| Order::Values.code_arrays(*coding, *dim, positions);
        let codes = &codes[arrays(first)..][..arrays(STEP)];
        let groups = coding.groups(*dim);
        let scales = &scales[first * groups..][..STEP * groups];
        Some(ValueCodes { coding: *coding, dim: *dim, codes, scales: scales.as_chunks().0 })
    }

    /// What is stored of `step` positions from `first` on, as what is used next. Scales are fetched at once.
    #[inline(always)]
    pub fn ahead(&self, first: usize, step: usize) -> Ahead {
        let Stored { order, dim, ref vectors } = *self;
        let vector = order.vectors(dim, first);
        match vectors {
            Vectors::F32(floats) => Ahead { start: floats.as_ptr().cast(), bytes: 4 * LANES }.from(vector),
            Vectors::F16(vectors) => Ahead { start: vectors.as_ptr().cast(), bytes: 2 * LANES }.from(vector),
            Vectors::Codes { coding, codes, scales } => {
                let groups = coding.groups(dim);
                let scales = scales.as_ptr().wrapping_add(first * groups).cast::<u8>();
                for at in (0..step * groups * size_of::<u16>()).step_by(LINE) {
                    prefetch_second(scales.wrapping_add(at));
                }
                let start = codes.as_ptr().wrapping_add(order.code_arrays(*coding, dim, first));
                Ahead { start: start.cast(), bytes: LANES / coding.per_byte() }
            }
        }
    }
}
