//! What is stored of keys, or values, on its way into arithmetic: as floats, or as codes; and fetched ahead.

use std::ops::Range;

use super::super::aligned::AlignedFloats;
use super::super::float16::f16_to_f32;
use super::super::lanes::{LANES, Lanes};
use super::super::vector::{Vector, prefetch};
use super::codes::{Coding, GROUP};
use super::key_codes::KeyCodes;
use super::source::{Bytes, InPlace};
use super::stored::{KEY_BLOCK, Order, Stored, Vectors};
use super::tile::Ahead;

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
            Vectors::Codes { coding, codes, scales } => match order {
                Order::Keys => {
                    if let Some(keys) = self.key_codes(range.start, range.len()) {
                        keys.to_floats::<V>(out);
                    }
                }
                Order::Values => {
                    let read = ReadValues { dim, codes, scales };
                    // Apart, so that each is compiled for its number of bits.
                    match coding {
                        Coding::Eight => read.values::<V>(Coding::Eight, range, out),
                        Coding::Four => read.values::<V>(Coding::Four, range, out),
                        Coding::Two => read.values::<V>(Coding::Two, range, out),
                    }
                }
            },
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
        let groups = dim.div_ceil(GROUP);
        let scales = &scales[first * groups..][..count * groups];
        Some(KeyCodes { coding: *coding, dim: *dim, codes, scales: scales.as_chunks().0 })
    }

    /// What `count` positions from `first` on have, of whole blocks, where that is halves.
    #[inline(always)]
    pub fn halves(&self, first: usize, count: usize) -> Option<&[[u16; LANES]]> {
        let Stored { order, dim, vectors: Vectors::F16(halves) } = self else { return None };
        Some(&halves[order.vectors(*dim, first)..order.vectors(*dim, first + count)])
    }

    /// Values of `count` positions from `first` on, where they are halves or codes of 8 bits. `room` is for scales.
    #[inline(always)]
    pub fn values_in_place<'a, V: Vector>(
        &'a self,
        first: usize,
        count: usize,
        room: &'a mut AlignedFloats,
    ) -> Option<InPlace<'a>> {
        let Stored { order: Order::Values, dim, ref vectors } = *self else { return None };
        match vectors {
            Vectors::F16(_) => self.halves(first, count).map(InPlace::Halves),
            Vectors::Codes { coding: Coding::Eight, codes, scales } => {
                let (columns, groups) = (dim.div_ceil(LANES), dim.div_ceil(GROUP));
                let (halves, rest) = scales[first * groups..][..count * groups].as_chunks();
                let room = room.lanes((count * groups).div_ceil(LANES));
                for (floats, halves) in room.iter_mut().zip(halves) {
                    *floats = V::from_halves(halves).to_lanes();
                }
                let floats = room.as_flattened_mut();
                for (float, half) in floats[halves.len() * LANES..].iter_mut().zip(rest) {
                    *float = f16_to_f32(*half);
                }
                let codes = &codes[first * columns..][..count * columns];
                Some(InPlace::Bytes(Bytes { codes, scales: &floats[..count * groups], columns, groups }))
            }
            Vectors::F32(_) | Vectors::Codes { .. } => None,
        }
    }

    /// What is stored of `step` positions from `first` on, as what is used next. Scales are fetched at once.
    #[inline(always)]
    pub fn ahead(&self, first: usize, step: usize) -> Ahead {
        const LINE: usize = 64;
        let Stored { order, dim, ref vectors } = *self;
        let vector = order.vectors(dim, first);
        match vectors {
            Vectors::F32(floats) => Ahead { start: floats.as_ptr().cast(), bytes: 4 * LANES }.from(vector),
            Vectors::F16(vectors) => Ahead { start: vectors.as_ptr().cast(), bytes: 2 * LANES }.from(vector),
            Vectors::Codes { coding, codes, scales } => {
                let groups = dim.div_ceil(GROUP);
                let scales = scales.as_ptr().wrapping_add(first * groups).cast::<u8>();
                for at in (0..step * groups * size_of::<u16>()).step_by(LINE) {
                    prefetch(scales.wrapping_add(at).cast());
                }
                let start = codes.as_ptr().wrapping_add(order.code_arrays(*coding, dim, first));
                Ahead { start: start.cast(), bytes: LANES / coding.per_byte() }
            }
        }
    }
}

struct ReadValues<'a> {
    dim: usize,
    codes: &'a [[u8; LANES]],
    scales: &'a [u16],
}

impl ReadValues<'_> {
    #[inline(always)]
    fn values<V: Vector>(&self, coding: Coding, positions: Range<usize>, out: &mut [Lanes]) {
        const GROUP_LANES: usize = GROUP / LANES;
        let (groups, columns) = (self.dim.div_ceil(GROUP), self.dim.div_ceil(LANES));
        let (per_byte, bits) = (coding.per_byte(), coding.bits());
        let scales = &self.scales[positions.start * groups..positions.end * groups];
        let vectors = positions.start * columns..positions.end * columns;
        let codes = &self.codes[vectors.start / per_byte..vectors.end.div_ceil(per_byte)];
        let first = vectors.start % per_byte;
        assert!(out.len() >= vectors.len(), "too few vectors");
        let (mut at, mut left) = (0, columns);
        for scales in scales.chunks(LANES) {
            let mut halves = [0; LANES];
            halves[..scales.len()].copy_from_slice(scales);
            let floats = V::from_halves(&halves).to_lanes();
            for scale in &floats[..scales.len()] {
                let (scale, shift) = (V::splat(*scale), V::splat(-coding.center() * scale));
                let count = left.min(GROUP_LANES);
                for _ in 0..count {
                    let vector = first + at;
                    // SAFETY: there are `columns` vectors for `groups` scales, and `out` has as many.
                    let (bytes, out) =
                        unsafe { (codes.get_unchecked(vector / per_byte), out.get_unchecked_mut(at)) };
                    let codes = V::from_codes(bytes, (vector % per_byte * bits) as u32, coding.top());
                    // Rounded once: the second product is exact.
                    *out = shift.fma(codes, scale).to_lanes();
                    at += 1;
                }
                left = if left == count { columns } else { left - count };
            }
        }
    }
}
