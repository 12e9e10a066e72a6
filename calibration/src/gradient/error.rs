//! Why there are no gradients.

use qsf_format::Failure;
use qsf_runtime::RuntimeError;

/// Why the gradients of a model could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// The model has a part through which no gradient is passed back.
    #[error("gradients of {part} cannot be computed; those of attention, feed-forwards and experts can")]
    Unsupported {
        /// The part, as in "gradients of {part}".
        part: String,
    },
    /// The model could not be run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl GradientError {
    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            GradientError::Unsupported { .. } => Failure::Unsupported,
            GradientError::Runtime(error) => error.failure(),
        }
    }
}

/// Result with [`GradientError`].
pub type GradientResult<T> = Result<T, GradientError>;
