//! Queries as products with keys take them.

use super::super::hadamard::hadamard;
use super::super::lanes::Lanes;
use super::codes::GROUP;
use super::key_codes::QueryGroup;
use super::queries::Queries;
use super::room::QueryRoom;
use super::tile::{ROW, ROW_LANES};

/// Queries, rotated as keys are.
#[derive(Clone, Copy)]
pub(super) enum Packed<'a> {
    /// For keys that become floats: 256 dimensions of all rows, [`ROW_LANES`] each, then the next 256.
    Floats(&'a [Lanes]),
    /// For keys in codes: 32 dimensions of a row, and its next.
    Groups(&'a [QueryGroup]),
}

/// Brings the first `rows` queries to where products take them from.
#[inline(always)]
pub(super) fn pack<'a>(queries: &Queries<'_>, rows: usize, room: &'a mut QueryRoom) -> Packed<'a> {
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
    let QueryRoom { floats, groups } = room;
    let row_groups = dim.div_ceil(GROUP);
    if groups.len() < rows * row_groups {
        groups.resize(rows * row_groups, QueryGroup::ZERO);
    }
    let groups = &mut groups[..rows * row_groups];
    let turned = floats.at_least(dim);
    for (row, groups) in groups.chunks_exact_mut(row_groups).enumerate() {
        turned.copy_from_slice(queries.query(row));
        hadamard(turned, rotated);
        for (group, values) in groups.iter_mut().zip(turned.chunks(GROUP)) {
            *group = QueryGroup::of(values, queries.attention.scale, coding);
        }
    }
    Packed::Groups(groups)
}
