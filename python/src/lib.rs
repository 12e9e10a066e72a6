//! The module `qsf._qsf`: what the Python package `qsf` is made of. Nothing is computed here; each function turns its
//! arguments into those of the crates, and what comes back into objects of Python.
//!
//! | File | Duty |
//! |---|---|
//! | `work` | long work on a thread of its own, while Python hears signals and calls callbacks |
//! | `errors` | errors of the crates as exceptions |
//! | `values` | options and results: between objects of Python and those of the command lines |
//! | `convert`, `inspect`, `evaluate` | a function or two each |
//! | `model`, `generation`, `text_stream` | text from a model; the keywords of it, its pieces |
//! | `chat` | conversations as Python has them |
//! | `outputs` | what a model computes for texts: logits, scores, hidden states |
//! | `batch` | a batch whose jobs other machines do |
//! | `split` | parts of an evaluation and of statistics, which other machines make |
//! | `tensors`, `arrays` | a file's tensors as NumPy arrays |

mod arrays;
mod attention;
mod batch;
mod chat;
mod convert;
mod errors;
mod evaluate;
mod generation;
mod inspect;
mod model;
mod outputs;
mod split;
mod tensors;
mod text_stream;
mod values;
mod work;

/// What the package `qsf` is made of.
#[pyo3::pymodule]
mod _qsf {
    #[pymodule_export]
    use crate::arrays::{ComputedValues, StoredBytes};
    #[pymodule_export]
    use crate::batch::{Batch, job_process, run_errand};
    #[pymodule_export]
    use crate::convert::{convert, run_program};
    #[pymodule_export]
    use crate::evaluate::{evaluate, evaluate_task};
    #[pymodule_export]
    use crate::inspect::{diff, inspect, report};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::split::{calibrate, evaluation_demand, join_parts, merge_statistics, statistics_demand};
    #[pymodule_export]
    use crate::tensors::{Tensor, TensorFile, open};
    #[pymodule_export]
    use crate::text_stream::TextStream;
    /// The version of the package, which is that of the programs.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
