//! How likely a model finds given continuations of a context: what multiple-choice tasks and `score` of other languages ask.
//!
//! A context is run once, and what it has in common with the one before not even that: the state goes back to where they part.
//! Behind the context each continuation is run alone. As results do not depend on what is computed together, they are to the bit
//! those of running every context with its continuation from the beginning.
//!
//! A context that does not fit is cut on the left, for each continuation as much as that needs: lm-evaluation-harness does so,
//! and its figures are compared with.
//!
//! | File | Duty |
//! |---|---|
//! | `scorer` | contexts and continuations |
//! | `pair` | texts of both as tokens |
//! | `expected` | what a model expects behind a token |

mod expected;
mod pair;
mod scorer;

pub use pair::encode_pair;
pub use scorer::{ContinuationScore, ScoreOptions, Scorer};
