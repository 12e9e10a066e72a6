//! Tensors of kinds that this version does not know (SPEC.md section 5.1): what they are called, and who must refuse them.
//!
//! A reader carries them. Who computes with a model must know what each tensor is for, but for those marked optional.

use std::fmt;

use crate::meta::Meta;
use crate::tensor_header::TensorEntry;
use crate::tensor_kind::TensorKind;

/// A tensor whose kind is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKind {
    /// The layer, counted from 0; `None` outside of layers.
    pub layer: Option<u32>,
    /// The kind's id as stored.
    pub kind_id: u32,
    /// The kind's name, where META has a record of the tensor.
    pub name: Option<String>,
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layer {layer} ")?;
        }
        match &self.name {
            Some(name) => write!(f, "{name} (kind {})", self.kind_id),
            None => write!(f, "kind {}", self.kind_id),
        }
    }
}

impl UnknownKind {
    /// Those among the tensors of a layer or of the final section, in file order. META lists a tensor of unknown kind under
    /// its name, so the i-th name that is not known belongs to the i-th of them. Names of parts are known (SPEC.md section 8).
    pub fn among(layer: Option<u32>, tensors: &[TensorEntry], meta: Option<&Meta>) -> Vec<UnknownKind> {
        let records = meta.map_or(&[][..], |meta| &meta.tensors);
        let mut names =
            records.iter().filter(|r| r.layer == layer && !is_known_name(&r.kind)).map(|r| r.kind.clone());
        let unknown = tensors.iter().filter(|tensor| tensor.is_unknown());
        unknown.map(|tensor| UnknownKind { layer, kind_id: tensor.kind_id, name: names.next() }).collect()
    }
}

/// Whether this version knows what is called so: a kind, or a part of one that may have parts.
fn is_known_name(name: &str) -> bool {
    let of = |name: &str| TensorKind::ALL.iter().find(|kind| kind.name() == name);
    match name.rsplit_once('.') {
        Some((kind, "1" | "2" | "3")) => of(kind).is_some_and(|kind| kind.may_have_parts()),
        _ => of(name).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_header::part_name;

    #[test]
    fn names_of_parts_are_known_where_there_may_be_such_and_nowhere_else() {
        for kind in TensorKind::ALL {
            assert!(is_known_name(kind.name()));
            for part in 0..6 {
                let is_part = kind.may_have_parts() && (1..4).contains(&part);
                assert_eq!(is_known_name(&part_name(*kind, part)), is_part, "{kind}.{part}");
            }
        }
        for name in ["new", "new.1", "head.", "head.1.1", "head.01", ".1", ""] {
            assert!(!is_known_name(name), "{name}");
        }
    }
}
