//! Keys, or values, of one head at some positions, in their type.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::super::aligned::AlignedFloats;
use super::super::hadamard::{hadamard, hadamard_block};
use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;
use super::KvType;
use super::codes::{Coding, MOST_IN_GROUP};
use super::sizes::STEP;
use crate::memory::OutOfMemory;
use crate::slabs::{Part, Slabs};

/// Positions of a block of keys: the vectors of each dimension that the kernels take at once.
pub(super) const KEY_BLOCK: usize = KEY_LANES * LANES;
/// Vectors of a dimension.
pub(super) const KEY_LANES: usize = 2;
/// Floats that become halves together.
const HALVES: usize = 32;

/// Where the values of a position are, in vectors of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Blocks of 32 positions: 32 values of the first dimension, of the second and so on, so that the scores of 16 positions
    /// are one vector and need no sums across lanes. Codes have an order of their own: blocks of 16 positions, and four
    /// dimensions of a position side by side, a [`QUAD`], as their products with queries are added up.
    Keys,
    /// One row per position, padded to a multiple of 16. Codes have an order of their own: steps of 64 positions, of which 16
    /// dimensions lie together, and of these four positions side by side, as their products with weights are added up: a position
    /// and those which are 16, 32 and 48 behind it.
    Values,
}

impl Order {
    /// Vectors of some positions: whole blocks.
    pub const fn vectors(self, dim: usize, positions: usize) -> usize {
        match self {
            Order::Keys => (positions / LANES).saturating_mul(dim),
            Order::Values => positions.saturating_mul(dim.div_ceil(LANES)),
        }
    }

    /// Scales of some positions: one for each group of dimensions.
    const fn scales(coding: Coding, dim: usize, positions: usize) -> usize {
        positions.saturating_mul(coding.groups(dim))
    }

    /// Arrays of 16 bytes that the codes of some positions take: whole blocks.
    pub const fn code_arrays(self, coding: Coding, dim: usize, positions: usize) -> usize {
        match self {
            Order::Keys => (positions / LANES).saturating_mul(key_arrays(coding, dim)),
            Order::Values => {
                (positions / STEP).saturating_mul(dim.div_ceil(LANES)).saturating_mul(step_arrays(coding))
            }
        }
    }

    /// Byte of a code, and its lowest bit there.
    #[inline(always)]
    fn code_place(self, coding: Coding, dim: usize, position: usize, i: usize) -> (usize, usize) {
        match self {
            Order::Keys => {
                let array = position / LANES * key_arrays(coding, dim);
                side_by_side(coding, array, position % LANES, i)
            }
            Order::Values => {
                let array = (position / STEP * dim.div_ceil(LANES) + i / LANES) * step_arrays(coding);
                let (lane, vector) = (position % LANES, position % STEP / LANES);
                side_by_side(coding, array, i % LANES, QUAD * lane + vector)
            }
        }
    }

    /// Vector and lane of a value.
    #[inline(always)]
    fn place(self, dim: usize, position: usize, i: usize) -> (usize, usize) {
        match self {
            Order::Keys => {
                let (block, within) = (position / KEY_BLOCK, position % KEY_BLOCK);
                ((block * dim + i) * KEY_LANES + within / LANES, within % LANES)
            }
            Order::Values => (position * dim.div_ceil(LANES) + i / LANES, i % LANES),
        }
    }

    /// The scale of a group of dimensions: those of 32 positions lie together.
    #[inline(always)]
    pub fn scale(coding: Coding, dim: usize, position: usize, group: usize) -> usize {
        (position / KEY_BLOCK * coding.groups(dim) + group) * KEY_BLOCK + position % KEY_BLOCK
    }
}

/// Codes that are multiplied at once.
pub(super) const QUAD: usize = 4;
/// Bytes of a quad of 8 bits, in which the pairs that vectors multiply are every second.
const BYTES_OF_QUAD: [usize; QUAD] = [0, 2, 1, 3];

/// Byte, and its lowest bit, of code `i` of those that a lane has from an array on: of 8 bits, four lie side by side.
#[inline(always)]
fn side_by_side(coding: Coding, array: usize, lane: usize, i: usize) -> (usize, usize) {
    match coding {
        Coding::Eight => ((array + i / QUAD * QUAD) * LANES + QUAD * lane + BYTES_OF_QUAD[i % QUAD], 0),
        Coding::Four | Coding::Two => {
            let per_byte = coding.per_byte();
            ((array + i / per_byte) * LANES + lane, i % per_byte * coding.bits())
        }
    }
}

/// Arrays of 16 bytes with the codes of 16 dimensions of the values of a step.
#[inline(always)]
pub(super) const fn step_arrays(coding: Coding) -> usize {
    STEP / coding.per_byte()
}

/// Arrays of 16 bytes with the codes of the keys at 16 positions: whole quads of dimensions.
#[inline(always)]
pub(super) const fn key_arrays(coding: Coding, dim: usize) -> usize {
    dim.div_ceil(QUAD).saturating_mul(QUAD) / coding.per_byte()
}

/// Keys or values of one head.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) order: Order,
    pub(super) dim: usize,
    pub(super) vectors: Vectors,
}

#[derive(Debug)]
pub(super) enum Vectors {
    F32(Part<f32>),
    F16(Part<[u16; LANES]>),
    Codes {
        coding: Coding,
        /// In the order that [`Order`] says.
        codes: Part<[u8; LANES]>,
        scales: Part<u16>,
    },
}

/// The shape of [`Stored`].
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredShape {
    pub kv_type: KvType,
    pub order: Order,
    pub dim: usize,
    /// A multiple of [`KEY_BLOCK`]; of [`STEP`] for values.
    pub positions: usize,
}

impl StoredShape {
    /// What they take.
    pub fn bytes(self) -> u64 {
        let StoredShape { kv_type, order, dim, positions } = self;
        let vectors = order.vectors(dim, positions);
        let bytes = match Coding::of(kv_type) {
            None if kv_type == KvType::F32 => Part::<f32>::bytes(vectors.saturating_mul(LANES)),
            None => Part::<[u16; LANES]>::bytes(vectors),
            Some(coding) => {
                let codes = Part::<[u8; LANES]>::bytes(order.code_arrays(coding, dim, positions));
                codes.saturating_add(Part::<u16>::bytes(Order::scales(coding, dim, positions)))
            }
        };
        bytes as u64
    }

    /// Room for them, of `slabs`.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn zeros(self, slabs: &mut Slabs) -> Result<Stored, OutOfMemory> {
        const WHAT: &str = "key/value cache";
        let StoredShape { kv_type, order, dim, positions } = self;
        let count = order.vectors(dim, positions);
        let vectors = match Coding::of(kv_type) {
            None if kv_type == KvType::F32 => Vectors::F32(slabs.zeros(count.saturating_mul(LANES), WHAT)?),
            None => Vectors::F16(slabs.zeros(count, WHAT)?),
            Some(coding) => Vectors::Codes {
                coding,
                codes: slabs.zeros(order.code_arrays(coding, dim, positions), WHAT)?,
                scales: slabs.zeros(Order::scales(coding, dim, positions), WHAT)?,
            },
        };
        Ok(Stored { order, dim, vectors })
    }
}

/// The scale of up to a group of values, and their codes.
#[inline(always)]
fn quantized<const GROUP: usize>(coding: Coding, values: &[f32]) -> (u16, [u8; MOST_IN_GROUP]) {
    let (mut padded, mut codes) = ([0.0; GROUP], [0; GROUP]);
    padded[..values.len()].copy_from_slice(values);
    let scale = coding.quantize(&padded, &mut codes).to_bits();
    let mut all = [0; MOST_IN_GROUP];
    all[..GROUP].copy_from_slice(&codes);
    (scale, all)
}

/// Values of a head that are rotated together before they are stored as this type; 1: they are stored as they are.
pub(super) fn rotated_block(kv_type: KvType, dim: usize) -> usize {
    if Coding::of(kv_type).is_some() { hadamard_block(dim) } else { 1 }
}

impl Stored {
    /// Values of a position.
    #[inline(always)]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Stores the values of one position; `room` is for what is made of them on the way.
    #[inline(always)]
    pub fn write<V: Vector>(&mut self, position: usize, row: &[f32], room: &mut AlignedFloats) {
        let Stored { order, dim, ref mut vectors } = *self;
        match vectors {
            Vectors::F32(floats) => {
                let vectors: &mut [Lanes] = floats.as_chunks_mut().0;
                for (i, value) in row.iter().enumerate() {
                    let (vector, lane) = order.place(dim, position, i);
                    vectors[vector][lane] = *value;
                }
            }
            Vectors::F16(vectors) => {
                for (some, values) in row.chunks(HALVES).enumerate() {
                    // Several at a time, where the processor can.
                    let mut halves = [f16::ZERO; HALVES];
                    halves[..values.len()].convert_from_f32_slice(values);
                    for (i, half) in (some * HALVES..).zip(&halves[..values.len()]) {
                        let (vector, lane) = order.place(dim, position, i);
                        vectors[vector][lane] = half.to_bits();
                    }
                }
            }
            Vectors::Codes { coding, codes, scales } => {
                let codes = codes.as_flattened_mut();
                let room = &mut room.lanes(dim.div_ceil(LANES)).as_flattened_mut()[..dim];
                room.copy_from_slice(row);
                hadamard::<V>(room, hadamard_block(dim));
                for (group, values) in room.chunks(coding.group()).enumerate() {
                    let (scale, group_codes) = match coding {
                        Coding::Eight => quantized::<{ Coding::Eight.group() }>(*coding, values),
                        Coding::Four | Coding::Two => quantized::<{ Coding::Four.group() }>(*coding, values),
                    };
                    scales[Order::scale(*coding, dim, position, group)] = scale;
                    for (i, code) in (group * coding.group()..).zip(&group_codes[..values.len()]) {
                        let (byte, bit) = order.code_place(*coding, dim, position, i);
                        coding.put(&mut codes[byte], bit, *code);
                    }
                }
            }
        }
    }

    /// Adds what is stored of a position to `raw`, as it is.
    pub fn copy(&self, position: usize, raw: &mut Vec<u32>) {
        let Stored { order, dim, ref vectors } = *self;
        let places = (0..dim).map(|i| order.place(dim, position, i));
        match vectors {
            Vectors::F32(floats) => {
                let vectors: &[Lanes] = floats.as_chunks().0;
                raw.extend(places.map(|(vector, lane)| vectors[vector][lane].to_bits()));
            }
            Vectors::F16(vectors) => {
                raw.extend(places.map(|(vector, lane)| u32::from(vectors[vector][lane])));
            }
            Vectors::Codes { coding, codes, scales } => {
                raw.extend((0..dim).map(|i| {
                    let (byte, bit) = order.code_place(*coding, dim, position, i);
                    u32::from(coding.get(codes.as_flattened()[byte], bit))
                }));
                let groups = 0..coding.groups(dim);
                raw.extend(
                    groups.map(|group| u32::from(scales[Order::scale(*coding, dim, position, group)])),
                );
            }
        }
    }

    /// Stores what [`Stored::copy`] gave of another position.
    pub fn paste(&mut self, position: usize, raw: &[u32]) {
        let Stored { order, dim, ref mut vectors } = *self;
        let (values, rest) = raw.split_at(dim);
        for (i, &value) in values.iter().enumerate() {
            let (vector, lane) = order.place(dim, position, i);
            match vectors {
                Vectors::F32(floats) => floats[vector * LANES + lane] = f32::from_bits(value),
                Vectors::F16(vectors) => vectors[vector][lane] = value as u16,
                Vectors::Codes { coding, codes, .. } => {
                    let (byte, bit) = order.code_place(*coding, dim, position, i);
                    coding.put(&mut codes.as_flattened_mut()[byte], bit, value as u8);
                }
            }
        }
        if let Vectors::Codes { coding, scales, .. } = vectors {
            for (group, &scale) in rest.iter().enumerate() {
                scales[Order::scale(*coding, dim, position, group)] = scale as u16;
            }
        }
    }

    /// Bytes of what [`Stored::save`] gives of a position.
    pub fn saved_bytes(&self) -> usize {
        let scales = match self.vectors {
            Vectors::F32(_) | Vectors::F16(_) => 0,
            Vectors::Codes { coding, .. } => coding.groups(self.dim),
        };
        self.dim * self.value_bytes() + scales * size_of::<u16>()
    }

    /// Bytes of a value that is saved; a code takes one.
    fn value_bytes(&self) -> usize {
        match self.vectors {
            Vectors::F32(_) => size_of::<f32>(),
            Vectors::F16(_) => size_of::<u16>(),
            Vectors::Codes { .. } => 1,
        }
    }

    /// Adds what is stored of a position to `bytes`: values or codes, then scales, little-endian. `raw` is room.
    pub fn save(&self, position: usize, raw: &mut Vec<u32>, bytes: &mut Vec<u8>) {
        raw.clear();
        self.copy(position, raw);
        let (values, scales) = raw.split_at(self.dim);
        let width = self.value_bytes();
        values.iter().for_each(|value| bytes.extend(&value.to_le_bytes()[..width]));
        scales.iter().for_each(|scale| bytes.extend(&scale.to_le_bytes()[..size_of::<u16>()]));
    }

    /// Stores what [`Stored::save`] gave, or any other [`Stored::saved_bytes`] bytes. `raw` is room.
    pub fn restore(&mut self, position: usize, bytes: &[u8], raw: &mut Vec<u32>) {
        let whole = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        let width = self.value_bytes();
        let (values, scales) = bytes.split_at(self.dim * width);
        let most = match &self.vectors {
            Vectors::F32(_) | Vectors::F16(_) => u32::MAX,
            // More bits would be those of other positions.
            Vectors::Codes { coding, .. } => u32::from(coding.top()),
        };
        raw.clear();
        raw.extend(values.chunks_exact(width).map(|value| whole(value) & most));
        raw.extend(scales.chunks_exact(size_of::<u16>()).map(whole));
        self.paste(position, raw);
    }
}
