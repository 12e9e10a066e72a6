//! Turns a source model into one QSF file.
//!
//! The road of a tensor: [`plan`] chooses its type, `encode` takes it from the source in runs of rows, [`quantize`] makes its
//! blocks, and [`convert`](convert()) streams them into the file.
//!
//! ```
//! use qsf_converter::random_model::RandomModel;
//! use qsf_converter::{ConvertOptions, convert};
//! use qsf_format::Compression;
//! use qsf_runtime::cpu::{Cpu, Isa};
//! use qsf_runtime::progress::{Cancel, Unwatched};
//! use qsf_runtime::source::{QsfSource, configured_model};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model to convert: a small one of random weights.
//! let config = br#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
//!     "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}"#;
//! let (config, tensors) = configured_model("config.json".as_ref(), config)?;
//! let folder = tempfile::tempdir()?;
//! let (original, out) = (folder.path().join("original.qsf"), folder.path().join("small.qsf"));
//! let (recipe, compression) = ("f32".parse()?, Compression::None);
//! let model =
//!     RandomModel { config, tensors, tokenizer: None, recipe, compression, seed: 1, force: false };
//! let before = model.write(&original)?;
//!
//! let source = QsfSource::open(&original)?;
//! let options = ConvertOptions { recipe: "4bit".parse()?, ..ConvertOptions::default() };
//! let made = convert(&source, &out, &options, &Cpu::new(Isa::best()), &Unwatched, &Cancel::default())?;
//! assert!(made.file_bytes < before / 4);
//! # Ok(())
//! # }
//! ```

mod checks;
mod choose;
mod convert;
mod dtype;
mod encode;
mod error;
mod fit;
mod foresee;
mod gguf;
mod hf;
pub mod hub;
pub mod imatrix;
mod inputs;
mod limits;
mod options;
pub mod plan;
mod plan_file;
mod planning;
mod predict;
pub mod quantize;
pub mod random_model;
mod replay;
mod resume;
mod sections;
mod session;
mod tune;
mod write;

pub use convert::{Conversion, convert};
pub use dtype::HfOut;
pub use error::{ConvertError, Result};
pub use fit::{
    StatisticsFile, calibrate, collect_statistics, default_tokens, merge_statistics, tell_parts,
    write_calibration, writing_bytes,
};
pub use hf::COMPANIONS;
pub use limits::{Limits, Percent, rejected_path};
pub use options::{
    Calibration, ClusterOptions, ConvertOptions, EvaluationText, OutlierChoice, SearchEffort, Written,
};
pub use plan_file::{SavedPlan, Texts};
pub use predict::{DivergenceEstimate, Prediction, predict, predict_peak, predict_statistics_peak};
pub use replay::{Replay, SurveyedModel};
pub use resume::journal_path;
pub use sections::{TOOL, evaluation_record, evaluation_text, hash_files};
