//! The one decoder: every architecture is a configuration of it.
//!
//! A step takes one or more tokens, extends the key/value cache, and leaves the normed hidden state of each of its tokens;
//! logits are made of those on request, for as many positions as are needed.
//!
//! | File | Duty |
//! |---|---|
//! | `step`, `logits` | the decoder, what a step of it is, and logits of what that leaves |
//! | `attention`, `feed_forward`, `experts`, `residual` | the parts of a layer, and what is between them |
//! | `latent`, `latent_buffers` | attention by way of latents |
//! | `per_layer`, `per_layer_buffers` | what layers get of a token besides the residual stream |
//! | `streams`, `stream_buffers` | residual streams beside each other, and what is added beside attention |
//! | `rotation`, `routing` | rotary tables and the slopes of ALiBi; which experts a token goes to |
//! | `activations` | in which type matrices get their inputs |
//! | `state`, `caches` | what changes while a decoder runs; the sequences of it, and which rows of a step are whose |
//! | `recurrent`, `mixer_buffers` | layers that carry a state from token to token |
//! | `selective`, `channel_decay` | of these, Mamba-1; projections of Kimi Delta Attention |
//! | `both` | attention beside such a mixer, and factors of parts |
//! | `kv_cache`, `kv_keep`, `recurrent_state` | keys and values, which of them are kept, and what recurrent layers keep |
//! | `kv_saved` | all of that as bytes |
//! | `clustered_head` | logits of the likeliest clusters of tokens only |
//! | `exit_rule`, `early_exit`, `skipping` | layers that are left out for a token, or always |
//! | `layer_runner`, `observe` | layers one by one, and who looks at the inputs of their matrices |
//! | `profile`, `matrix_times` | where the time goes, by kinds of work and by matrices |

mod activations;
mod attention;
mod both;
mod caches;
mod channel_decay;
mod clustered_head;
mod early_exit;
mod exit_rule;
mod experts;
mod feed_forward;
mod kv_cache;
mod kv_keep;
mod kv_saved;
mod latent;
mod latent_buffers;
mod layer_runner;
mod logits;
mod matrix_times;
mod mixer_buffers;
mod observe;
mod per_layer;
mod per_layer_buffers;
mod profile;
mod recurrent;
mod recurrent_state;
mod residual;
mod rotation;
mod routing;
mod selective;
mod skipping;
mod state;
mod step;
mod stream_buffers;
mod streams;

pub use activations::{Activations, LEAST_WIDE_TOKENS};
pub use attention::query_factor;
pub use clustered_head::{ClusterRanking, ClusteredHead};
pub use exit_rule::LayerCount;
pub use kv_cache::{KvCache, KvOptions};
pub use kv_keep::{KvKeep, KvPolicy};
pub use layer_runner::LayerRunner;
pub use matrix_times::{MatrixTime, MatrixTimes};
pub use observe::{AttentionLook, InputObserver, LinearInput};
pub use profile::{Profile, Section};
#[cfg(feature = "gpu")]
pub(crate) use recurrent_state::{no_way_back, recurrent_sizes};
pub use rotation::{Rotation, alibi_slopes};
pub use routing::Routing;
pub use skipping::skipped_layers;
pub use state::{DecoderState, StateBytes};
pub use step::{Decoder, PROMPT_BATCH};
