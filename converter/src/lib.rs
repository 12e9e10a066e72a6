//! Turns a source model into one QSF file.

pub mod plan;
pub mod quantize;
