//! Queries as products with keys take them.

use super::super::hadamard::hadamard;
use super::super::lanes::Lanes;
use super::super::vector::Vector;
use super::key_codes::{PART, QueryPart};
use super::queries::Queries;
use super::room::QueryRoom;
use super::tile::{ROW, ROW_LANES};

/// Queries, rotated as keys are.
#[derive(Clone, Copy)]
pub(super) enum Packed<'a> {
    /// For keys that become floats: 256 dimensions of all rows, [`ROW_LANES`] each, then the next 256.
    Floats(&'a [Lanes]),
    /// For keys in codes: 32 dimensions of a row, and its next.
    Parts(&'a [QueryPart]),
}

/// Brings the first `rows` queries to where products take them from.
#[inline(always)]
pub(super) fn pack<'a, V: Vector>(queries: &Queries<'_>, rows: usize, room: &'a mut QueryRoom) -> Packed<'a> {
    let (dim, rotated) = (queries.kv.dim(), queries.kv.rotated_keys());
    let Some(coding) = queries.kv.coding_of_keys() else {
        let packed = room.floats.lanes(dim.div_ceil(ROW) * rows * ROW_LANES);
        for row in 0..rows {
            for (piece, values) in queries.query(row).chunks(ROW).enumerate() {
                let packed = &mut packed[(piece * rows + row) * ROW_LANES..][..ROW_LANES];
                packed.as_flattened_mut()[..values.len()].copy_from_slice(values);
            }
        }
        return Packed::Floats(packed);
    };
    let QueryRoom { floats, parts } = room;
    let row_parts = dim.div_ceil(PART);
    if parts.len() < rows * row_parts {
        parts.resize(rows * row_parts, QueryPart::ZERO);
    }
    let parts = &mut parts[..rows * row_parts];
    let turned = floats.at_least(dim);
    for (row, parts) in parts.chunks_exact_mut(row_parts).enumerate() {
        turned.copy_from_slice(queries.query(row));
        hadamard::<V>(turned, rotated);
        let groups = parts.chunks_mut(coding.group() / PART).zip(turned.chunks(coding.group()));
        for (parts, values) in groups {
            QueryPart::set::<V>(parts, values, queries.attention.scale, coding);
        }
    }
    Packed::Parts(parts)
}
