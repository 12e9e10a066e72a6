//! Turns a source model into one QSF file.
//!
//! The road of a tensor: [`plan`] chooses its type, `encode` takes it from the source in runs of rows, [`quantize`] makes its
//! blocks, and [`convert`] streams them into the file.

mod apart;
mod calibrate;
mod calibrated;
mod checkpoint;
mod clusters;
pub mod demo;
mod encode;
mod error;
mod evaluation;
mod fit;
pub mod hub;
mod job;
mod journal;
mod options;
mod pipeline;
pub mod plan;
mod predict;
mod provenance;
pub mod quantize;
pub mod random_model;
mod refine;
pub mod report;
mod sequential;
mod statistics;
mod stats_report;
mod stored;
mod survey;

pub use calibrate::calibrate;
pub use clusters::ClusterOptions;
pub use error::{ConvertError, Result};
pub use evaluation::EvaluationText;
pub use journal::path_of as journal_path;
pub use options::{Calibration, ConvertOptions, OutlierChoice, SearchEffort};
pub use pipeline::{Conversion, convert};
pub use predict::{Prediction, predict};
pub use stats_report::StatsReport;
