//! From a tensor of the source to its bytes in the file. Nothing here knows of files that are written: whoever measures,
//! predicts or converts encodes by the same code.
//!
//! | File | Duty |
//! |---|---|
//! | `fit` | what the rows of a matrix are fitted to |
//! | `encoder` | what encoding needs beside the tensor; some rows into blocks |
//! | `outliers` | the weights that are stored apart from the blocks |
//! | `along_rows` | rows that make up for errors of those before them |
//! | `rows` | rows on all threads, and how far they are from the original |
//! | `stored_tensor` | a tensor that is ready to be written |
//! | `token_order` | which tokens come most often |
//! | `cache` | what an earlier run has encoded |
//! | `tensor` | a tensor as it is planned |
//! | `expert_order` | which experts of a stack matter most |
//! | `chosen_rows` | some rows of a matrix as a matrix of their own, or changed in it |
//! | `row_groups` | rows that are fitted in groups |
//! | `parts` | a matrix whose rows are in several types |
//! | `report_again` | how far a tensor is from the original whose stored values were changed |
//! | `runs` | a tensor too large for memory, some rows at a time |

mod along_rows;
mod cache;
mod chosen_rows;
mod encoder;
mod expert_order;
mod fit;
mod outliers;
mod parts;
mod report_again;
mod row_groups;
mod rows;
mod runs;
mod stored_tensor;
mod tensor;
mod token_order;

pub(crate) use cache::{NoCache, TensorCache, TensorRun};
pub(crate) use chosen_rows::mix_rows;
pub(crate) use encoder::{BlockForm, Encoder};
pub(crate) use expert_order::{ExpertInputs, by_energy, expert_energies};
pub(crate) use fit::{Fit, RowFits};
pub(crate) use outliers::{OutlierSet, Saliency, add_outliers};
pub(crate) use rows::EncodedRows;
pub(crate) use runs::TensorRuns;
pub(crate) use stored_tensor::{StoredPart, StoredParts, StoredTensor, TensorBlocks};
pub(crate) use tensor::{TensorEncoder, VALUES_PER_RUN};
