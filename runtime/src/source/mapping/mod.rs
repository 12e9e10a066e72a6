//! From the tensors that a source stores to those of the model: matched once, by name tables, when a model is opened;
//! arranged when they are loaded.
//!
//! | File | Duty |
//! |---|---|
//! | `store` | named tensors on disk |
//! | `table` | what tensors are called, and how kinds lie in them |
//! | `matching` | which stored tensor, or part of one, each tensor of the model is |
//! | `measure` | the shape of a stored tensor |
//! | `place` | where in a stored tensor a kind is |
//! | `assemble` | the tensor, made of those |
//! | `module` | the matrices that a named module of the model has |
//! | `saved` | the way back: stored tensors, made of those of the model |

mod assemble;
mod matching;
mod measure;
mod module;
mod place;
mod saved;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub(in crate::source) use assemble::StoredPart;
pub use matching::{Mapping, MappingRequest, is_ignored};
pub(in crate::source) use module::{Module, ModulePart, PartOrder, module_of};
pub(in crate::source) use place::parts_of;
pub use saved::SavedTensor;
pub(crate) use saved::{SavedNames, saved_tensors};
pub use store::{TensorStore, no_such_tensor};
pub(crate) use table::join_rules;
pub use table::{Form, NameRule, NameTable, formed, join, rows};
