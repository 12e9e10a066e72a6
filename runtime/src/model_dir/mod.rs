//! What a model directory holds beside weights: small files, read within limits, and the fields of the JSON in them.

mod fields;
pub mod files;
mod flat_json;
mod links;

pub use fields::{Fields, describe};
