//! Mixers that carry a state from token to token: what the decoder computes between their projections.
//!
//! Every row of a state is worked on by itself, token by token, so a text gives the same bits in whatever steps it comes and on
//! however many threads.
//!
//! | File | Duty |
//! |---|---|
//! | `short_conv` | a causal convolution of each channel |
//! | `delta`, `delta_block`, `delta_tile` | the gated delta rule: rows by themselves, what both read, and rows as lanes |
//! | `tile` | rows of a state turned into lanes |
//! | `gates` | steps, decays and rates of states |
//! | `selective` | the state space of Mamba-1 |
//! | `state_space`, `state_block`, `state_tile` | the state space of Mamba-2, likewise |
//! | `unit` | vectors of length 1 |

mod delta;
mod delta_block;
mod delta_tile;
mod gates;
mod selective;
mod short_conv;
mod state_block;
mod state_space;
mod state_tile;
mod tile;
mod unit;

pub use delta_block::GatedDelta;
pub use gates::{decays, positive_steps, rates};
pub use selective::SelectiveScan;
pub use short_conv::{ShortConv, keep_last};
pub use state_block::StateSpace;
pub use unit::scale_to_length;
