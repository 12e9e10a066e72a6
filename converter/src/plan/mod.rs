//! Which tensor is stored in which type: decided before anything is read, from names and shapes alone.
//!
//! | File | Duty |
//! |---|---|
//! | `recipe` | `--quant`: a type for each kind of tensor |
//! | `gguf_recipe`, `gguf_recipe_tests` | `--quant` of GGUF files: what llama-quantize does |
//! | `group_recipe` | `--quant` of directories for compressed-tensors |
//! | `nearest` | the type that is meant by a name of another program |
//! | `finer_rows` | rows of a matrix in several types |
//! | `stored_form` | a type, and the share of weights that is apart |
//! | `type_override` | `--tensor-type`: exceptions |
//! | `planned` | every tensor with its type |
//! | `layout` | the order of its blocks |
//! | `ladder` | the next larger type |
//! | `allocate` | types under a bound on bytes: a knapsack |
//! | `tensor_type` | what values are stored as, in QSF and in GGUF files |
//! | `tensor_report` | what is said of a tensor that was stored |
//! | `target` | types for a size of the file |

mod allocate;
mod error;
mod finer_rows;
mod gguf_recipe;
#[cfg(test)]
mod gguf_recipe_tests;
mod group_recipe;
mod ladder;
mod layout;
mod nearest;
mod planned;
mod recipe;
mod stored_form;
mod target;
mod tensor_report;
mod tensor_type;
mod type_override;

pub use allocate::{Choice, allocate};
pub use error::PlanError;
pub use finer_rows::FinerRows;
pub use gguf_recipe::{GgufRecipe, GgufRules};
pub use group_recipe::{GroupRecipe, GroupScheme};
pub use ladder::next_larger;
pub use layout::{experts_of, layout_of};
pub use planned::{Plan, PlannedTensor};
pub use recipe::{Recipe, nearest_type};
pub use stored_form::{OutlierShare, StoredForm};
pub use target::{Candidate, Container, SizeModel, plan_for_size};
pub use tensor_report::TensorReport;
pub use tensor_type::{GGML_TYPES, TensorType};
pub use type_override::TypeOverride;
