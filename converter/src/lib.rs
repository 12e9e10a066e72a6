//! Turns a source model into one QSF file.
//!
//! The road of a tensor: [`plan`] chooses its type, `encode` takes it from the source in runs of rows, [`quantize`] makes its
//! blocks, and [`convert`] streams them into the file.

mod calibrate;
pub mod demo;
mod encode;
mod error;
pub mod hub;
mod journal;
mod pipeline;
pub mod plan;
mod provenance;
pub mod quantize;
pub mod report;

pub use calibrate::calibrate;
pub use error::{ConvertError, Result};
pub use pipeline::{Calibration, Conversion, ConvertOptions, convert};
