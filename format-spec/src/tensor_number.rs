//! Numbers that stand for tensors in sections OUTL and PART (SPEC.md section 7.8).

use crate::tensor_kind::{TensorId, TensorKind};
use crate::unknown_kind::UnknownKind;

/// The layer in the number of a tensor that is in none.
pub(crate) const NO_LAYER: u32 = 0xFF_FFFF;

/// The number that stands for a tensor: its kind, and 256 times its layer.
pub(crate) fn tensor_number(id: TensorId) -> u32 {
    id.layer.unwrap_or(NO_LAYER) << 8 | id.kind.id()
}

/// The number that stands for a tensor of a part; `None` for kinds that numbers have no room for.
pub(crate) fn number_in_part(layer: Option<u32>, kind_id: u32) -> Option<u32> {
    (kind_id < 256).then_some(layer.unwrap_or(NO_LAYER) << 8 | kind_id)
}

/// The tensor that a number stands for, in words.
pub(crate) fn name_of(number: u32) -> String {
    let layer = Some(number >> 8).filter(|layer| *layer != NO_LAYER);
    TensorKind::from_id(number & 0xFF).map_or_else(
        || UnknownKind { layer, kind_id: number & 0xFF, name: None }.to_string(),
        |kind| TensorId { layer, kind }.to_string(),
    )
}
