//! Weight matrices times activations, on all threads.
//!
//! | File | Duty |
//! |---|---|
//! | `products` | the products that a decoder asks for, as tasks for all threads |
//! | `gated` | two weights and the product of what they give |
//! | `low_rank`, `narrow` | what adapters add to a matrix; the same while a model runs |
//! | `adapted` | the adapters of a call |
//! | `parts` | a matrix whose rows are in several types |
//! | `task` | some columns of one product, on one thread |
//! | `input` | activations as kernels take them |
//! | `output` | an output that several threads fill |

mod adapted;
#[cfg(test)]
mod adapter_tests;
mod gated;
mod input;
mod low_rank;
mod narrow;
mod output;
mod parts;
mod products;
mod task;
#[cfg(test)]
mod tests;

pub use adapted::{Adapted, Latents};
pub use input::Input;
pub use low_rank::LowRank;
pub use narrow::Narrow;
pub use products::Products;
