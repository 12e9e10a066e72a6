//! The tensors of a GGUF file by name.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use qsf_format::printable::quote;
use qsf_format::{BlockSize, QuantType};

use super::config::LayerValues;
use super::rows::{GgmlRows, stored_type};
use crate::error::{Result, RuntimeError};
use crate::ggml::GgmlType;
use crate::gguf::{GgufFile, GgufTensor};
use crate::source::mapping::{NameTable, TensorStore, is_ignored};
use crate::tensor::{StoredType, Tensor, TensorBytes};

/// What the name of a matrix becomes in that of its scale, and of one that only concerns activations. NVFP4 has one for
/// the whole matrix besides those in its blocks (one for each expert where there are several).
const WEIGHT: &str = ".weight";
const SCALE: &str = ".scale";
const ACTIVATION_SCALE: &str = ".input_scale";

/// A file whose tensors all have types that can be read.
#[derive(Debug)]
pub(in crate::source) struct Store {
    file: GgufFile,
    by_name: HashMap<String, Entry>,
    /// Vectors that the file has as keys.
    of_keys: HashMap<String, f32>,
}

#[derive(Debug)]
struct Entry {
    /// Place in the file's list.
    at: usize,
    ty: GgmlType,
    /// Dimensions, slowest first.
    shape: Vec<usize>,
    /// Place of the tensor with the scales, where there is one.
    scale: Option<usize>,
}

impl Store {
    /// # Errors
    /// When a tensor that `table` does not ignore has a type that cannot be read, or scales make no sense.
    pub fn new(file: GgufFile, table: &NameTable) -> Result<Store> {
        let mut by_name = HashMap::new();
        for (at, tensor) in file.tensors.iter().enumerate() {
            let ignored = is_ignored(table.ignored, &tensor.name);
            let Some(ty) = tensor.known_type() else {
                if ignored {
                    continue;
                }
                return Err(unknown_type(&file, tensor));
            };
            let shape = tensor.shape.iter().rev().copied().collect();
            by_name.insert(tensor.name.clone(), Entry { at, ty, shape, scale: None });
        }
        let mut store = Store { file, by_name, of_keys: HashMap::new() };
        store.join_scales()?;
        Ok(store)
    }

    /// Gives keys with a number for each layer names as tensors.
    ///
    /// # Errors
    /// When such a key has no numbers.
    pub(super) fn with_layer_values(mut self, all: &[LayerValues]) -> Result<Store> {
        for values in all {
            let numbers = self.file.metadata.f32s(values.key)?.unwrap_or_default();
            let named = numbers.into_iter().enumerate();
            self.of_keys.extend(named.map(|(i, number)| (values.name.replace("{}", &i.to_string()), number)));
        }
        Ok(self)
    }

    /// Gives each matrix of a block type its scale. Beside any other type a tensor of such a name stays on its own, and is
    /// refused, for nothing uses it.
    fn join_scales(&mut self) -> Result<()> {
        let is_scaled = |entry: &Entry| entry.ty.block_len() > 1;
        let matrices = self.by_name.iter().filter(|(_, entry)| is_scaled(entry));
        let mut stems: Vec<String> =
            matrices.filter_map(|(name, _)| name.strip_suffix(WEIGHT)).map(str::to_owned).collect();
        stems.sort();
        for stem in stems {
            self.by_name.remove(&format!("{stem}{ACTIVATION_SCALE}"));
            let name = format!("{stem}{SCALE}");
            let Some(scale) = self.by_name.remove(&name) else { continue };
            let Some(entry) = self.by_name.get_mut(&format!("{stem}{WEIGHT}")) else { continue };
            // Experts are the slowest dimension of three.
            let parts = if entry.shape.len() == 3 { entry.shape[0] } else { 1 };
            if scale.ty != GgmlType::F32 || scale.shape != [parts] {
                let path = &self.file.shards[self.file.tensors[scale.at].shard].path;
                let expected = format!("{parts} values of type F32, as {} has parts", quote(&stem));
                let found = format!("shape {:?}, type {}", scale.shape, scale.ty);
                return Err(RuntimeError::bad_input(
                    path,
                    format!("tensor {}", quote(&name)),
                    expected,
                    found,
                ));
            }
            entry.scale = Some(scale.at);
        }
        Ok(())
    }

    /// The file.
    pub fn file(&self) -> &GgufFile {
        &self.file
    }

    /// A tensor as the file has it.
    pub fn find(&self, name: &str) -> Option<&GgufTensor> {
        self.by_name.get(name).map(|entry| &self.file.tensors[entry.at])
    }

    fn scales(&self, entry: &Entry) -> Vec<f32> {
        let Some(at) = entry.scale else { return Vec::new() };
        let (values, _) = self.file.bytes(&self.file.tensors[at]).as_chunks();
        values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }
}

impl TensorStore for Store {
    fn file_of(&self, name: &str) -> &Path {
        self.find(name).map_or_else(|| self.file.path(), |tensor| &self.file.shards[tensor.shard].path)
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        if self.of_keys.contains_key(name) {
            return Some((&[1], QuantType::F32.into()));
        }
        let entry = self.by_name.get(name)?;
        let stored = native_type(entry.ty).map_or_else(|| stored_type(entry.ty), StoredType::Native);
        Some((&entry.shape, stored))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.by_name.keys().chain(self.of_keys.keys()).map(String::as_str))
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let wrong = |expected: &str, found: &str| {
            RuntimeError::bad_input(self.file_of(name), format!("tensor {}", quote(name)), expected, found)
        };
        if let Some(value) = self.of_keys.get(name) {
            return Ok(Tensor::from_f32(1, 1, &[*value]));
        }
        let Some(entry) = self.by_name.get(name) else { return Err(wrong("a tensor of that name", "none")) };
        let tensor = &self.file.tensors[entry.at];
        // In range: the shape was checked against the bytes when the file was opened.
        let cols = tensor.shape.first().copied().unwrap_or(1);
        let rows = tensor.shape.iter().skip(1).product();
        let bytes = TensorBytes::Mapped(self.file.shards[tensor.shard].map.clone(), tensor.range.clone());
        let loaded = match native_type(entry.ty) {
            Some(quant) => Tensor::new(rows, cols, quant, BlockSize::default(), bytes).ok(),
            None => GgmlRows::new(entry.ty, rows, cols, bytes, self.scales(entry))
                .map(|values| Tensor::foreign(rows, cols, Arc::new(values))),
        };
        loaded.ok_or_else(|| wrong("as many bytes as its shape takes", "others"))
    }
}

/// The type of the file format that is the same.
fn native_type(ty: GgmlType) -> Option<QuantType> {
    match ty {
        GgmlType::F32 => Some(QuantType::F32),
        GgmlType::F16 => Some(QuantType::F16),
        GgmlType::BF16 => Some(QuantType::Bf16),
        _ => None,
    }
}

fn unknown_type(file: &GgufFile, tensor: &GgufTensor) -> RuntimeError {
    let known: Vec<&str> = GgmlType::ALL.iter().map(|ty| ty.name()).collect();
    let what = format!("unknown type {} of tensor {}", tensor.type_id, quote(&tensor.name));
    RuntimeError::unsupported(
        &file.shards[tensor.shard].path,
        what,
        format!("supported: {}", known.join(", ")),
    )
}
