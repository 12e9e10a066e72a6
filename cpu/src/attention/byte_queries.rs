//! Queries as bytes, for products with the keys of [`super::byte_columns`].

use super::super::byte_products::QUAD;
use super::super::hadamard::hadamard_block;
use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;
use super::byte_columns::{MOST, Magnitudes, QUERY_CENTER, hadamard_vectors, quad, quads};
use super::byte_room::ByteQuery;
use super::queries::Queries;

/// The center in each byte of a quad: taken from a byte with a sign, or added to it, is the same.
const CENTERS: u32 = u32::from_ne_bytes([QUERY_CENTER as u8; QUAD]);

/// Makes queries bytes, rotated as keys are; those from `count` on are zeros. `room` is for 16 of them. Returns the length of the longest,
/// times the scale of scores, and the largest score of the reference: not finite where any query is not.
#[inline(always)]
pub(super) fn pack<V: Vector>(
    queries: &Queries<'_>,
    count: usize,
    reference: &[f32],
    (bytes, of_rows): (&mut [u8], &mut [ByteQuery]),
    room: &mut Vec<Lanes>,
) -> (f32, f32) {
    let (dim, scale) = (queries.kv.dim(), queries.attention.scale);
    let stored = queries.kv.rotated_keys();
    room.resize(QUAD * quads(dim), [0.0; LANES]);
    room[dim..].fill([0.0; LANES]);
    let (mut longest, mut largest_base) = (0, 0);
    let strips = bytes.chunks_mut(LANES * QUAD * quads(dim)).zip(of_rows.chunks_mut(LANES));
    for (strip, (bytes, of_rows)) in strips.enumerate() {
        // A vector has a value of each.
        room[..dim].fill([0.0; LANES]);
        let some = count.saturating_sub(strip * LANES).min(LANES);
        for lane in 0..some {
            for (to, q) in room.iter_mut().zip(queries.query(strip * LANES + lane)) {
                to[lane] = *q;
            }
        }
        hadamard_vectors::<V>(&mut room[..dim], stored);
        let mut bases = V::splat(0.0);
        for (q, key) in room.iter().zip(reference) {
            bases = bases.fma(V::from_lanes(q), V::splat(*key));
        }
        let bases = bases.mul(V::splat(scale)).to_lanes();
        if stored <= 1 {
            hadamard_vectors::<V>(&mut room[..dim], hadamard_block(dim));
        }
        let mut magnitudes = Magnitudes::<V>::none();
        for q in room[..dim].iter() {
            magnitudes.add(V::from_lanes(q));
        }
        let (largest, squares) = (magnitudes.largest.to_lanes(), magnitudes.squares.to_lanes());
        let mut inverses = [0.0; LANES];
        for (lane, query) in of_rows.iter_mut().enumerate() {
            // NaN has larger bits than all numbers.
            longest = (squares[lane].sqrt() * scale.abs()).to_bits().max(longest);
            largest_base = bases[lane].abs().to_bits().max(largest_base);
            inverses[lane] = if largest[lane] > 0.0 { MOST / largest[lane] } else { 0.0 };
            *query = ByteQuery { scale: largest[lane] / MOST * scale, base: bases[lane] };
        }
        let inverses = [V::from_lanes(&inverses); QUAD];
        for (i, four) in room.as_chunks::<QUAD>().0.iter().enumerate() {
            let codes = quad(four, &inverses, &mut [0; LANES]).0;
            for (bytes, codes) in
                bytes.as_chunks_mut::<QUAD>().0[i..].iter_mut().step_by(quads(dim)).zip(codes)
            {
                *bytes = (codes ^ CENTERS).to_le_bytes();
            }
        }
    }
    (f32::from_bits(longest), f32::from_bits(largest_base))
}
