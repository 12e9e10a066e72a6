//! Gradients of a text's loss for every tensor of a model, by a pass backwards in f32.
//!
//! Forwards, what enters each layer is kept for all sequences. Backwards, a layer is computed again with all that is between its
//! parts, and its gradients go to a visitor before those of the layer before it are begun. So weights, gradients and what is
//! between are those of one layer, and of embedding and head, at a time. Products of matrices are those that the decoder and
//! the moments use: every number of threads and instruction set gives the same bits.
//!
//! | File | Duty |
//! |---|---|
//! | `pass` | the whole way, forwards and back |
//! | `support`, `error` | which models have gradients, and why one has none |
//! | `ends` | embedding and head |
//! | `loss` | what is differentiated |
//! | `layer` | attention, feed-forward and the residual stream |
//! | `attention`, `place`, `attend` | projections; norms and rotation of queries and keys; the sum over positions |
//! | `feed_forward`, `function`, `experts` | a feed-forward and its functions, and mixtures of these |
//! | `linear`, `norm` | a matrix, a norm |
//! | `parameters` | tensors of a source as these parts |
//! | `sink` | where gradients go |
//! | `output_moments` | second moments of those at what matrices give |

mod attend;
mod attention;
mod ends;
mod error;
mod experts;
mod feed_forward;
mod function;
mod layer;
mod linear;
mod loss;
mod norm;
mod output_moments;
mod parameters;
mod pass;
mod place;
mod sink;
mod support;
#[cfg(test)]
mod tests;

pub use error::{GradientError, GradientResult};
pub use output_moments::OutputMoments;
pub use pass::{BACKWARD_WORK, GradientText, Predictions, Target};
pub use sink::{GradientVisitor, MatrixPart};
pub use support::check_gradients;
