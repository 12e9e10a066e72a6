//! Reads QSF files and source models and runs them.

pub mod cpu;
mod error;
pub mod source;

pub use error::{Result, RuntimeError};
