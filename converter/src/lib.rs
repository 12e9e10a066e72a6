//! Turns a source model into one QSF file.
//!
//! The road of a tensor: [`plan`] chooses its type, `encode` takes it from the source in runs of rows, [`quantize`] makes its
//! blocks, and [`convert`](convert()) streams them into the file.

mod choose;
mod convert;
mod encode;
mod error;
mod fit;
pub mod hub;
mod limits;
mod options;
pub mod plan;
mod plan_file;
mod predict;
pub mod quantize;
pub mod random_model;
mod resume;
mod sections;

pub use convert::{Conversion, convert};
pub use error::{ConvertError, Result};
pub use fit::{calibrate, collect_statistics, merge_statistics};
pub use limits::{Limits, Percent, rejected_path};
pub use options::{Calibration, ConvertOptions, OutlierChoice, SearchEffort};
pub use plan_file::{read_plan, write_plan};
pub use predict::{Prediction, predict, predict_peak, predict_statistics_peak};
pub use resume::journal_path;
pub use sections::{ClusterOptions, EvaluationText, TOOL, hash_files};
