//! Turns a source model into one QSF file.
//!
//! The road of a tensor: [`plan`] chooses its type, `encode` takes it from the source in runs of rows, [`quantize`] makes its
//! blocks, and [`convert`] streams them into the file.

mod apart;
pub mod batch;
mod calibrate;
mod calibrated;
mod checkpoint;
pub mod cli;
mod clusters;
pub mod demo;
mod encode;
mod error;
mod evaluation;
mod exits;
mod fit;
pub mod hub;
mod job;
mod journal;
mod kept_tensors;
mod limits;
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
mod statistics_run;
mod stats_report;
mod stored;
mod survey;

pub use calibrate::calibrate;
pub use clusters::ClusterOptions;
pub use error::{ConvertError, Result};
pub use evaluation::EvaluationText;
pub use journal::path_of as journal_path;
pub use limits::{Limits, Percent, rejected_path};
pub use options::{Calibration, ConvertOptions, OutlierChoice, SearchEffort};
pub use pipeline::{Conversion, convert};
pub use predict::{Prediction, predict, predict_peak, predict_statistics_peak};
pub use statistics_run::{collect_statistics, merge_statistics};
pub use stats_report::StatsReport;
