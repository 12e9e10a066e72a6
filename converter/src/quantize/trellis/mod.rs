//! The trellis types: weights into paths through the states of a code.
//!
//! | File | Duty |
//! |---|---|
//! | `code` | which level follows which bits |
//! | `search` | the path of least loss through one row, feedback included |
//! | `path` | how a path goes on by one step |
//! | `survivors` | the paths that are kept at a step |
//! | `cut` | which paths are kept |
//! | `rows` | whole rows: search, row scale, bytes |

mod code;
mod cut;
mod path;
mod rows;
mod search;
mod survivors;

pub(super) use rows::TrellisRows;
