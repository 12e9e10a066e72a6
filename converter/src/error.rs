//! Errors of a conversion.

use std::io;
use std::path::{Path, PathBuf};

use qsf_format::{Failure, FormatError, TensorId, human_bytes};
use qsf_runtime::RuntimeError;

use crate::hub::HubError;
use crate::plan::PlanError;
use crate::quantize::MomentError;

/// Why a conversion failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The source cannot be read or run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The output cannot be written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The source cannot be had from the hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The requested types do not fit the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A weight is not a number, or infinite.
    #[error(
        "{}: tensor {name} ({id}) holds {value} at row {row}, column {col}: the model is broken, and quantizing it \
         would hide that",
        path.display()
    )]
    NotFinite {
        /// The source.
        path: PathBuf,
        /// Name in the source.
        name: String,
        /// Which tensor.
        id: TensorId,
        /// Row of the first such value.
        row: usize,
        /// Column of the first such value.
        col: usize,
        /// The value.
        value: f32,
    },
    /// The source was quantized before, and its errors would add to those of this conversion.
    #[error(
        "{}: this model is already quantized ({types}); quantizing it again adds to its errors: use the original model, \
         pass --allow-requantize, or convert to f16, bf16 or f32",
        path.display()
    )]
    Requantize {
        /// The source.
        path: PathBuf,
        /// Names of its types.
        types: String,
    },
    /// The tokenizer splits a text differently from what the source says of it.
    #[error("{0}; --skip-tokenizer-check converts the model nonetheless")]
    TokenizerDiffers(RuntimeError),
    /// The output would replace an input.
    #[error("{}: this is one of the model's own files; choose another output", path.display())]
    OutputIsInput {
        /// The output.
        path: PathBuf,
    },
    /// What an earlier run left belongs to another conversion.
    #[error(
        "{}: this is what an unfinished conversion of another model, text or choice of options left; finish that one, \
         remove the file, or pass --force to discard it",
        path.display()
    )]
    OtherJournal {
        /// The journal.
        path: PathBuf,
    },
    /// The file is there, and what was to be measured on it was not.
    #[error("{}: the file is whole and verified, but what was to be measured on it failed", path.display())]
    Unmeasured {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<ConvertError>,
    },
    /// The file is not as good, or as small, as it was to be.
    #[error("{}: kept under this name, because it misses what was asked for: {}", path.display(), missed.join("; "))]
    MissedLimits {
        /// Where the file is.
        path: PathBuf,
        /// The limits, each with what was found.
        missed: Vec<String>,
    },
    /// The file will have more bytes than it may have.
    #[error(
        "the file would have {} at least, and --max-size allows {}: take a smaller type, or --target-size {}",
        human_bytes(*least), human_bytes(*limit), human_bytes(*limit).replace(' ', "")
    )]
    WouldMiss {
        /// Bytes that it may have.
        limit: u64,
        /// Bytes that it would have at least.
        least: u64,
    },
    /// There is too little room for the file.
    #[error(
        "{}: the conversion writes {} at least, and {} are free there",
        path.display(), human_bytes(*needed), human_bytes(*free)
    )]
    DiskTooSmall {
        /// The output.
        path: PathBuf,
        /// Bytes that the conversion writes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A matrix is further from the original than was allowed, in every type that it may have.
    #[error(
        "{id}: the cosine with the original is {cosine:.6} at best, and --min-cosine wants {wanted}: ask for a larger size, a lower \
         cosine, or another type of this tensor (--tensor-type)"
    )]
    BelowCosine {
        /// The tensor.
        id: TensorId,
        /// The best that there is.
        cosine: f64,
        /// What was asked for.
        wanted: f64,
    },
    /// The types that are near enough to the original make too large a file.
    #[error(
        "a file of at most {} was asked for, and the smallest with a cosine of {wanted} in every matrix (--min-cosine) has {}",
        human_bytes(*limit), human_bytes(*least)
    )]
    CosineTooLarge {
        /// Bytes asked for.
        limit: u64,
        /// Bytes of the smallest file.
        least: u64,
        /// The cosine asked for.
        wanted: f64,
    },
    /// The second moment of the inputs of a tensor cannot be one.
    #[error(
        "tensor {id}: {source}: the model computes numbers that are too large for its weights to be fitted to them"
    )]
    Moments {
        /// The tensor.
        id: TensorId,
        /// What is wrong.
        source: MomentError,
    },
    /// In the place of a journal is a file that no conversion has written.
    #[error(
        "{}: this is no journal of a conversion, and one is kept under this name: move or remove the file, or choose another output",
        path.display()
    )]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// A record of the journal that is whole and means nothing.
    #[error(
        "the journal of the unfinished conversion says nonsense of {what}: remove OUT.qsf.journal and start again"
    )]
    BrokenJournal {
        /// The record.
        what: String,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl ConvertError {
    /// An error of the operating system at `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> ConvertError {
        ConvertError::Io { path: path.to_owned(), action, source }
    }

    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            ConvertError::Runtime(e) | ConvertError::TokenizerDiffers(e) => e.failure(),
            ConvertError::Format(e) => e.failure(),
            ConvertError::Hub(e) => e.failure(),
            ConvertError::Plan(_)
            | ConvertError::OutputIsInput { .. }
            | ConvertError::Requantize { .. }
            | ConvertError::OtherJournal { .. }
            | ConvertError::NotAJournal { .. }
            | ConvertError::BelowCosine { .. }
            | ConvertError::CosineTooLarge { .. } => Failure::Usage,
            ConvertError::Unmeasured { source, .. } => source.failure(),
            ConvertError::MissedLimits { .. } | ConvertError::WouldMiss { .. } => Failure::LimitsMissed,
            ConvertError::DiskTooSmall { .. } => Failure::OutOfSpace,
            ConvertError::NotFinite { .. }
            | ConvertError::Moments { .. }
            | ConvertError::BrokenJournal { .. } => Failure::BadInput,
            ConvertError::Io { source, .. } => Failure::of_io(source),
        }
    }
}

/// Result with [`ConvertError`].
pub type Result<T, E = ConvertError> = std::result::Result<T, E>;
