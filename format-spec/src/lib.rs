//! The QSF file format. `SPEC.md` beside this crate says it byte by byte; these types are the same in Rust.

mod decode;
mod error;
mod failure;
mod model_config;
mod quant_type;
mod tensor_kind;

pub use decode::{decode_block, decode_row};
pub use error::{Damage, FormatError};
pub use failure::Failure;
pub use model_config::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, RopeScaling};
pub use quant_type::{BlockSize, QuantType};
pub use tensor_kind::{TensorId, TensorKind};
