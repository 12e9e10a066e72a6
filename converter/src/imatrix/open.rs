//! Which form a file has, and what it says of a model.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use qsf_calibration::LayerStats;
use qsf_runtime::RuntimeError;
use qsf_runtime::file_hash::hash_file;
use qsf_runtime::gguf::is_gguf;
use qsf_runtime::source::WeightSource;

use super::dat_form::{MAX_ENTRIES, MAX_NAME, read_dat};
use super::entries::{Entry, Expected, expected_entries, statistics};
use super::gguf_form::read_gguf;
use crate::error::{ConvertError, Result};
use crate::gguf::names_of;

/// Whether a file begins as importance matrices of llama.cpp do: as GGUF, or in the old form with the number of entries and the
/// length of a name.
pub fn is_imatrix(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let [entries, length] =
        [0, 4].map(|at| i32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]));
    is_gguf(path) || read.is_ok() && (1..=MAX_ENTRIES).contains(&entries) && (1..=MAX_NAME).contains(&length)
}

/// The entries of a file, in either form, that are `expected`; others are passed over.
///
/// # Errors
/// When it is no importance matrix, is damaged, or an entry has another length.
pub fn read_entries(path: &Path, expected: &HashMap<String, Expected>) -> Result<HashMap<String, Entry>> {
    if is_gguf(path) {
        return read_gguf(path, expected);
    }
    let file = File::open(path).map_err(|e| ConvertError::io(path, "open", e))?;
    read_dat(path, &mut BufReader::new(file), expected)
}

/// The importance matrix of a model.
pub(crate) struct ModelImatrix {
    layers: Vec<LayerStats>,
    /// SHA-256 of the file.
    pub sha256: String,
}

impl ModelImatrix {
    /// Reads the file at `path` for the model `source`.
    ///
    /// # Errors
    /// When it is damaged or of another model.
    pub fn open(source: &dyn WeightSource, path: &Path) -> Result<ModelImatrix> {
        let wanted = expected_entries(source, &names_of(source)?);
        let shapes: HashMap<String, Expected> =
            wanted.iter().map(|(name, (shape, _))| (name.clone(), *shape)).collect();
        let mut found = read_entries(path, &shapes)?;
        // In the order of the model, so that the same file says the same.
        let mut entries = Vec::new();
        let mut names: Vec<_> = wanted.into_iter().collect();
        names.sort_by_key(|(_, (_, ids))| ids.first().map(|id| (id.layer.unwrap_or(u32::MAX), id.kind.id())));
        for (name, (shape, ids)) in &names {
            entries.extend(found.remove(name).map(|entry| (ids.clone(), *shape, entry)));
        }
        let layers = statistics(source, &entries)?;
        let known = |layer| layers.iter().any(|stats| stats.layer == Some(layer) && !stats.inputs.is_empty());
        if let Some(missing) = (0..source.config().layers).find(|layer| !known(*layer)) {
            let example = names.iter().find(|(_, (_, ids))| ids.iter().any(|id| id.layer == Some(missing)));
            let expected = example.map_or_else(String::new, |(name, _)| format!("entries such as {name}"));
            let found = "none: it is of another model, or of too little text";
            return Err(RuntimeError::bad_input(path, format!("layer {missing}"), expected, found).into());
        }
        Ok(ModelImatrix { layers, sha256: hash_file(path, &[])?.sha256 })
    }

    /// The statistics of a layer, or of the head.
    pub fn layer(&self, layer: Option<u32>) -> LayerStats {
        let found = self.layers.iter().find(|stats| stats.layer == layer).cloned();
        found.unwrap_or_else(|| LayerStats { layer, ..LayerStats::default() })
    }
}
