//! The type of each matrix where a size is asked for instead.
//!
//! | File | Duty |
//! |---|---|
//! | `types` | the types among which one is chosen |
//! | `finer`, `expert_forms` | forms with rows in several types: of tokens, and of experts |
//! | `probed` | what errors of a matrix do to the model |
//! | `sample` | some rows of a matrix, and what each type does to them |
//! | `matrices` | what each type of each matrix of a layer does to the model |
//! | `ends` | what each form of embedding and head does to it |
//! | `survey` | that of all matrices, layer by layer |
//! | `survey_size` | how much of them it measures |
//! | `survey_text` | what of a text it takes |
//! | `survey_work` | how much work it is |
//! | `refine` | whether what was chosen is the best of the model as a whole |
//! | `for_size` | the plan that does least damage at a size |

mod ends;
mod expert_forms;
mod finer;
mod for_size;
mod matrices;
mod probed;
mod refine;
mod sample;
mod survey;
mod survey_size;
mod survey_text;
mod survey_work;
mod types;

pub(crate) use for_size::SizeRequest;
pub(crate) use matrices::Surveyor;
pub(crate) use survey::survey;
pub(crate) use survey_size::SurveySize;
pub(crate) use survey_text::LEAST_TOKENS;
