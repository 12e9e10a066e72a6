//! The tensors of a GGUF file by name.

use std::collections::HashMap;
use std::path::Path;

use qsf_format::printable::quote;
use qsf_format::{BlockSize, QuantType};

use super::config::unsupported;
use super::descriptor::GgufTensor;
use super::file::GgufFile;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameTable, TensorStore};
use crate::source::{StoredType, Tensor, TensorBytes};
use gguf_rs_lib::format::GGUFTensorType;

/// A file whose tensors all have types that can be read.
#[derive(Debug)]
pub(super) struct Store {
    file: GgufFile,
    by_name: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Place in the file's list.
    at: usize,
    /// Dimensions, slowest first.
    shape: Vec<usize>,
    stored: StoredType,
}

impl Store {
    /// # Errors
    /// When a tensor that `table` does not ignore has a type that cannot be read.
    pub fn new(file: GgufFile, table: &NameTable) -> Result<Store> {
        let mut by_name = HashMap::new();
        for (at, tensor) in file.tensors.iter().enumerate() {
            let ignored = table.ignored.iter().any(|end| tensor.name.ends_with(end));
            let stored = match stored_type(tensor) {
                Some(stored) => stored,
                None if ignored => continue,
                None => return Err(unknown_type(&file, tensor)),
            };
            let shape = tensor.shape.iter().rev().copied().collect();
            by_name.insert(tensor.name.clone(), Entry { at, shape, stored });
        }
        Ok(Store { file, by_name })
    }

    /// The file.
    pub fn file(&self) -> &GgufFile {
        &self.file
    }

    /// A tensor as the file has it.
    pub fn find(&self, name: &str) -> Option<&GgufTensor> {
        self.by_name.get(name).map(|entry| &self.file.tensors[entry.at])
    }
}

impl TensorStore for Store {
    fn file_of(&self, name: &str) -> &Path {
        self.find(name).map_or_else(|| self.file.path(), |tensor| &self.file.shards[tensor.shard].path)
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        self.by_name.get(name).map(|entry| (entry.shape.as_slice(), entry.stored))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.by_name.keys().map(String::as_str))
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let wrong = |expected: &str, found: &str| {
            RuntimeError::bad_input(self.file_of(name), format!("tensor {}", quote(name)), expected, found)
        };
        let Some(tensor) = self.find(name) else { return Err(wrong("a tensor of that name", "none")) };
        // In range: the shape was checked against the bytes when the file was opened.
        let cols = tensor.shape.first().copied().unwrap_or(1);
        let rows = tensor.shape.iter().skip(1).product();
        let bytes = TensorBytes::Mapped(self.file.shards[tensor.shard].map.clone(), tensor.range.clone());
        match tensor.known_type().and_then(native_type) {
            Some(quant) => Tensor::new(rows, cols, quant, BlockSize::default(), bytes)
                .map_err(|_| wrong("as many bytes as its shape takes", "others")),
            None => Err(unknown_type(&self.file, tensor)),
        }
    }
}

fn stored_type(tensor: &GgufTensor) -> Option<StoredType> {
    native_type(tensor.known_type()?).map(StoredType::Native)
}

/// The type of the file format that is the same.
fn native_type(known: GGUFTensorType) -> Option<QuantType> {
    match known {
        GGUFTensorType::F32 => Some(QuantType::F32),
        GGUFTensorType::F16 => Some(QuantType::F16),
        GGUFTensorType::BF16 => Some(QuantType::Bf16),
        _ => None,
    }
}

fn unknown_type(file: &GgufFile, tensor: &GgufTensor) -> RuntimeError {
    let kind = match tensor.known_type() {
        Some(known) => format!("type {} ({})", known.name(), tensor.type_id),
        None => format!("unknown type {}", tensor.type_id),
    };
    let what = format!("{kind} of tensor {}", quote(&tensor.name));
    unsupported(&file.shards[tensor.shard].path, what, "supported: F32, F16, BF16")
}
