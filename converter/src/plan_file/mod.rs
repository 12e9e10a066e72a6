//! Plans: all that makes a file, as JSON. `--save-plan FILE` writes one, `--plan FILE` makes the same file by it, or says what is
//! missing.
//!
//! | File | Duty |
//! |---|---|
//! | `saved` | the whole of it, written and read |
//! | `options` | the options of the conversion |
//! | `text` | its texts, by path and hash |
//! | `restore` | from a plan to a conversion |

mod options;
mod restore;
mod saved;
#[cfg(test)]
mod tests;
mod text;

pub use saved::SavedPlan;
pub use text::Texts;
