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
    /// its name, so the i-th name that is not known belongs to the i-th of them.
    pub fn among(layer: Option<u32>, tensors: &[TensorEntry], meta: Option<&Meta>) -> Vec<UnknownKind> {
        let is_known = |name: &str| {
            let name = name.split_once('.').map_or(name, |(kind, _)| kind);
            TensorKind::ALL.iter().any(|kind| kind.name() == name)
        };
        let records = meta.map_or(&[][..], |meta| &meta.tensors);
        let mut names =
            records.iter().filter(|r| r.layer == layer && !is_known(&r.kind)).map(|r| r.kind.clone());
        let unknown = tensors.iter().filter(|tensor| tensor.is_unknown());
        unknown.map(|tensor| UnknownKind { layer, kind_id: tensor.kind_id, name: names.next() }).collect()
    }
}
