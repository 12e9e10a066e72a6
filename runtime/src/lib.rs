//! Reads QSF files and source models and runs them.

pub mod cpu;
mod error;
mod printable;
pub mod sample;
pub mod source;
pub mod tokenizer;

#[cfg(test)]
mod test_data;

pub use error::{Result, RuntimeError};
