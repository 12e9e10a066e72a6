//! Matches what the architecture expects with what the files hold, once, when a model is opened.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use qsf_format::{QuantType, TensorId, TensorKind};
use safetensors::Dtype;

use super::config::{SourceConfig, unsupported};
use super::names::{self, Expected};
use super::shards::{Shards, Stored};
use crate::error::{Result, RuntimeError};
use crate::source::TensorInfo;
use qsf_format::printable::quote;

/// Every tensor of a model and where its bytes are.
#[derive(Debug)]
pub(super) struct Layout {
    tensors: Vec<TensorInfo>,
    /// One for each of `tensors`.
    places: Vec<Place>,
    by_id: HashMap<TensorId, usize>,
}

/// Where the bytes of a tensor are.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Which file.
    pub shard: usize,
    /// The bytes in it.
    pub range: Range<usize>,
    /// Bytes of one value.
    pub value_bytes: usize,
    /// For a tensor that is stored as `[in, out]`: which of the outputs are its rows. `range` is the whole then.
    pub transposed: Option<Range<usize>>,
}

impl Layout {
    /// Finds every tensor that `config` needs.
    ///
    /// # Errors
    /// A tensor is missing, is not of the architecture, or has the wrong shape or an unsupported type.
    pub fn new(dir: &Path, config: &SourceConfig, shards: &Shards) -> Result<Layout> {
        let prefix = names::prefix(config.architecture);
        let embedding = names::embedding_name(config.architecture);
        let bare = shards.get(&format!("{prefix}{embedding}")).is_none() && shards.get(embedding).is_some();
        let mut found = Vec::new();
        let mut used = HashSet::new();
        for tensor in names::expected(config) {
            let name = match tensor.name.as_str() {
                names::HEAD => names::HEAD.to_owned(),
                name if bare => name.to_owned(),
                name => format!("{prefix}{name}"),
            };
            match shards.get(&name) {
                Some(stored) => {
                    let (file, _) = shards.file(stored.shard);
                    place_parts(file, &name, &tensor, stored, &mut found)?;
                    used.insert(name);
                }
                None if tensor.required => return Err(missing(dir, &name, config)),
                None => {}
            }
        }
        refuse_unused(dir, config, shards, &used)?;
        // File order of a QSF file: embedding, layers, the rest; in each, kinds by id.
        found.sort_by_key(|(info, _)| {
            let id = info.id;
            (id.kind != TensorKind::TokenEmbedding, id.layer.unwrap_or(u32::MAX), id.kind.id())
        });
        let (tensors, places): (Vec<TensorInfo>, Vec<Place>) = found.into_iter().unzip();
        let by_id = tensors.iter().enumerate().map(|(i, info)| (info.id, i)).collect();
        Ok(Layout { tensors, places, by_id })
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// One tensor and its place.
    pub fn find(&self, id: TensorId) -> Option<(&TensorInfo, &Place)> {
        let &at = self.by_id.get(&id)?;
        Some((&self.tensors[at], &self.places[at]))
    }

    /// The parts of files that the tensors of `layer` lie in, with neighbours joined.
    #[cfg_attr(not(unix), expect(dead_code))]
    pub fn ranges(&self, layer: Option<u32>) -> Vec<(usize, Range<usize>)> {
        let of_layer = self.tensors.iter().zip(&self.places).filter(|(info, _)| info.id.layer == layer);
        let mut ranges: Vec<_> = of_layer.map(|(_, place)| (place.shard, place.range.clone())).collect();
        ranges.sort_by_key(|(shard, range)| (*shard, range.start, range.end));
        let mut joined: Vec<(usize, Range<usize>)> = Vec::new();
        for (shard, range) in ranges {
            match joined.last_mut() {
                Some((s, last)) if *s == shard && range.start <= last.end => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push((shard, range)),
            }
        }
        joined
    }
}

fn place_parts(
    file: &Path,
    name: &str,
    tensor: &Expected,
    stored: &Stored,
    found: &mut Vec<(TensorInfo, Place)>,
) -> Result<()> {
    if stored.shape != tensor.shape {
        let (expected, shape) = (format!("shape {:?}", tensor.shape), format!("shape {:?}", stored.shape));
        return Err(RuntimeError::bad_input(file, format!("tensor {name}"), expected, shape));
    }
    let (quant, value_bytes) = match stored.dtype {
        Dtype::F16 => (QuantType::F16, 2),
        Dtype::BF16 => (QuantType::Bf16, 2),
        Dtype::F32 => (QuantType::F32, 4),
        other => {
            let what = format!("type {other:?} of tensor {name}");
            return Err(unsupported(file, what, "supported: F16, BF16, F32"));
        }
    };
    let is_vector = tensor.shape.len() == 1;
    let mut first = 0;
    for &(kind, len) in &tensor.parts {
        let outputs = first..first + len;
        first += len;
        // A vector is one row of its values; a matrix has a row per output.
        let (rows, cols) = match (is_vector, tensor.transposed) {
            (true, _) => (1, len),
            (false, true) => (len, tensor.shape[0]),
            (false, false) => (len, tensor.shape[1]),
        };
        let output_bytes = if is_vector { value_bytes } else { cols * value_bytes };
        let start = stored.range.start;
        let place = Place {
            shard: stored.shard,
            range: if tensor.transposed {
                stored.range.clone()
            } else {
                start + outputs.start * output_bytes..start + outputs.end * output_bytes
            },
            value_bytes,
            transposed: tensor.transposed.then_some(outputs),
        };
        let id = TensorId { layer: tensor.layer, kind };
        found.push((TensorInfo { id, name: name.to_owned(), rows, cols, stored: quant.into() }, place));
    }
    Ok(())
}

fn missing(dir: &Path, name: &str, config: &SourceConfig) -> RuntimeError {
    let expected = if name == names::HEAD {
        "a tensor of that name, for tie_word_embeddings is not set".to_owned()
    } else {
        format!("a tensor of that name, as every {} model has one", config.model.architecture)
    };
    RuntimeError::bad_input(dir, format!("tensor {name}"), expected, "none")
}

/// A tensor that nothing uses would be dropped silently: the result would be another model.
fn refuse_unused(dir: &Path, config: &SourceConfig, shards: &Shards, used: &HashSet<String>) -> Result<()> {
    let unused =
        shards.names().filter(|&name| !used.contains(name) && !names::is_redundant(config, name)).min();
    match unused {
        None => Ok(()),
        Some(name) => {
            let file = shards.get(name).map_or(dir, |stored| shards.file(stored.shard).0);
            let expected = format!("only tensors of a {} model as configured", config.model.architecture);
            Err(RuntimeError::bad_input(file, format!("tensor {}", quote(name)), expected, "this one too"))
        }
    }
}
