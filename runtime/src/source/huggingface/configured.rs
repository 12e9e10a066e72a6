//! What a `config.json` says of a model that has no weights: its configuration, and the tensors that it would have.

use std::path::Path;

use qsf_format::{ModelConfig, QuantType, TensorKind};
use serde_json::{Map, Value};

use super::config::ConfigFiles;
use super::names::Names;
use crate::error::{Result, RuntimeError};
use crate::model_dir::files;
use crate::source::TensorInfo;
use crate::source::mapping::{TensorStore, no_such_tensor};
use crate::source::shape::{expected_shape, is_required, used_kinds};
use crate::tensor::{StoredType, Tensor};

/// The fields of the `config.json` in `dir`, within the limits that hold when a model is opened.
///
/// # Errors
/// When it is missing, too large or no JSON.
pub fn configuration_of(dir: &Path) -> Result<Map<String, Value>> {
    files::read_object(&dir.join("config.json"))
}

/// Reads `json`, the text of a `config.json`, as a model directory's is read. `path` is where it came from, for messages. The
/// tensors are those that a model of this configuration needs or that the configuration says it has, in file order of a QSF
/// file, as f16.
///
/// # Errors
/// When it is not JSON, no known architecture, or no model that can be run.
pub fn configured_model(path: &Path, json: &[u8]) -> Result<(ModelConfig, Vec<TensorInfo>)> {
    let files = ConfigFiles::of_text(path, json)?;
    let architecture = files
        .architecture()?
        .ok_or_else(|| RuntimeError::bad_input(path, "model_type", "the name of an architecture", "none"))?;
    let names = Names { prefix: architecture.base.to_owned(), heads: Vec::new() };
    let config = files.model(architecture, &names, &NoTensors(path))?;
    let model = config.model;
    let declared = |kind: TensorKind| config.declared.contains(&(kind, true));
    let mut tensors: Vec<TensorInfo> = (0..model.layers)
        .map(Some)
        .chain([None])
        .flat_map(|layer| used_kinds(&model, layer))
        .filter(|&id| is_required(&model, id) || declared(id.kind))
        .filter_map(|id| {
            let (rows, cols) = expected_shape(&model, id)?;
            Some(TensorInfo { id, name: id.to_string(), rows, cols, stored: QuantType::F16.into() })
        })
        .collect();
    // The token embedding comes first.
    tensors.sort_by_key(|info| info.id.kind != TensorKind::TokenEmbedding);
    Ok((model, tensors))
}

/// The weights of a model that has none.
#[derive(Debug)]
struct NoTensors<'a>(&'a Path);

impl TensorStore for NoTensors<'_> {
    fn file_of(&self, _name: &str) -> &Path {
        self.0
    }

    fn describe(&self, _name: &str) -> Option<(&[usize], StoredType)> {
        None
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        Err(no_such_tensor(self.0, name))
    }
}
