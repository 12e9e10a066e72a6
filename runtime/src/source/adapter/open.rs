//! An adapter, whatever kind of file it is.

use std::path::{Path, PathBuf};

use qsf_format::ModelConfig;

use super::update::Update;
use super::{gguf, peft};
use crate::error::{Result, RuntimeError};
use crate::gguf::is_gguf;

/// What an adapter adds to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its directory or file, or the file of the model that it is in.
    pub path: PathBuf,
    /// What it is called.
    pub name: String,
    /// What it is multiplied with, besides the scale of its own.
    pub scale: f32,
    /// Every file that it was read from.
    pub files: Vec<PathBuf>,
    /// One for each matrix that it changes.
    pub updates: Vec<Update>,
}

impl Adapter {
    /// Reads the adapter at `path`, a directory of PEFT or a GGUF file, for a model of this configuration.
    ///
    /// # Errors
    /// When it is damaged, has a part that is not done here, or is for another model.
    pub fn open(path: &Path, config: &ModelConfig, scale: f32) -> Result<Adapter> {
        let (updates, files) = if path.is_dir() {
            peft::read(path, config, scale)?
        } else if is_gguf(path) {
            (gguf::read(path, config, scale)?, vec![path.to_owned()])
        } else {
            std::fs::metadata(path).map_err(|error| RuntimeError::io(path, "open", error))?;
            let expected = "a directory with adapter_config.json, or a GGUF file";
            return Err(RuntimeError::bad_input(path, "the adapter", expected, "something else"));
        };
        if updates.is_empty() {
            return Err(RuntimeError::bad_input(
                path,
                "the adapter",
                "at least one pair of matrices",
                "none",
            ));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Adapter { path: path.to_owned(), name, scale, files, updates })
    }

    /// The largest rank of its updates.
    pub fn rank(&self) -> usize {
        self.updates.iter().map(|update| update.low_rank.rank()).max().unwrap_or(0)
    }

    /// Bytes of its matrices in memory.
    pub fn bytes(&self) -> u64 {
        let values = |update: &Update| {
            let [outputs, inputs] = update.low_rank.shape();
            update.low_rank.rank() * (outputs + inputs)
        };
        self.updates.iter().map(values).sum::<usize>() as u64 * size_of::<f32>() as u64
    }

    /// An error about a part of it that cannot be applied as asked for.
    pub fn not_applied(&self, update: &Update, supported: &str) -> RuntimeError {
        let what = format!("an update of {} ({})", update.id, update.module);
        RuntimeError::unsupported(&self.path, what, supported)
    }
}
