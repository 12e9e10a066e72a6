//! Text through a model into activation statistics, which tell a quantizer which columns of a matrix matter.
//!
//! The error of a matrix W with inputs x is `sum over rows |(W - Q) x|^2`; with inputs of mean square m per column and no
//! correlation between columns, that is `sum over columns m * (W - Q)^2`. So m is the weight of a column in the error that
//! a quantizer minimises (the diagonal of GPTQ's Hessian, arXiv 2210.17323; the importance matrix of llama.cpp).

mod collect;
mod stats;

pub use collect::collect;
pub use stats::ActivationStats;
