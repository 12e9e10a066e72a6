//! A model of which some tensors are others: as quantized so far, or one at a time, to see what that does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use qsf_format::{ModelConfig, TensorId};

use super::{TensorInfo, WeightSource};
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use crate::tokenizer::Tokenizer;

/// A source with some of its tensors replaced. Everything else, and what is asked of the files, is that of the source.
pub struct Replaced<'a> {
    source: &'a dyn WeightSource,
    tensors: Vec<TensorInfo>,
    replaced: HashMap<TensorId, Tensor>,
}

impl<'a> Replaced<'a> {
    /// `source`, as it is so far.
    pub fn new(source: &'a dyn WeightSource) -> Replaced<'a> {
        Replaced { source, tensors: source.tensors().to_vec(), replaced: HashMap::new() }
    }

    /// Puts `tensor` in the place of `id`.
    ///
    /// # Errors
    /// When the source has no such tensor, or one of another shape.
    pub fn replace(&mut self, id: TensorId, tensor: Tensor) -> Result<()> {
        let path = self.source.path();
        let Some(info) = self.tensors.iter_mut().find(|info| info.id == id) else {
            return Err(RuntimeError::bad_input(path, id.to_string(), "a tensor to replace", "none"));
        };
        let (expected, found) = ((info.rows, info.cols), (tensor.rows(), tensor.cols()));
        if expected != found {
            let shape = |(rows, cols)| format!("{rows} x {cols}");
            return Err(RuntimeError::bad_input(path, id.to_string(), shape(expected), shape(found)));
        }
        info.stored = tensor.stored_type();
        self.replaced.insert(id, tensor);
        Ok(())
    }
}

impl WeightSource for Replaced<'_> {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn config(&self) -> &ModelConfig {
        self.source.config()
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        self.source.tokenizer_json()
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.source.chat_template()
    }

    fn check_tokenizer(&self, written: &Tokenizer) -> Result<()> {
        self.source.check_tokenizer(written)
    }

    fn quantized_from(&self) -> Vec<String> {
        self.source.quantized_from()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.source.files()
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        self.replaced.get(&id).map_or_else(|| self.source.load(id), |tensor| Ok(tensor.clone()))
    }

    fn release(&self, layer: Option<u32>) {
        self.source.release(layer);
    }
}
