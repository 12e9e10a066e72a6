//! What is recorded for a step: the dispatches of one compute pass.
//!
//! | File | Duty |
//! |---|---|
//! | `layers` | a step as a whole |
//! | `attention`, `attend` | attention of a layer, and its part over the cache |
//! | `recurrent` | recurrent mixer of a layer |
//! | `latent` | attention by way of latents |
//! | `feed_forward`, `experts` | feed-forward of a layer, and a mixture of experts |
//! | `streams` | residual streams beside each other |
//! | `per_layer` | what a layer gets of a token besides the residual stream |
//! | `multiply`, `low_rank` | matrices, and what adapters add to them |
//! | `recorder`, `command` | what makes commands, and one of them |

pub mod attend;
mod attention;
mod command;
mod experts;
mod feed_forward;
mod latent;
pub mod layers;
mod low_rank;
pub mod multiply;
mod per_layer;
mod recorder;
mod recurrent;
mod streams;

pub use command::{Command, MANY, TILE, padded};
pub use recorder::Recorder;
