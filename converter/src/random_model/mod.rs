//! Models of a shape and nothing else: random weights, written straight as blocks, for measurements of speed and memory. How
//! fast a model runs depends on its shape and types, not on what it has learned.
//!
//! Nothing is quantized. Codes are random bits, and scales are such that a matrix keeps the size of what it is multiplied
//! with below 1, so that activations stay finite through any number of layers. Norms are 1 and biases 0.
//!
//! | File | Duty |
//! |---|---|
//! | `shapes` | shapes that go by a name |
//! | `rows` | random rows in the bytes of a type |
//! | `model` | all tensors into a file |

mod model;
mod rows;
mod shapes;

pub use model::RandomModel;
pub use shapes::shape_text;
