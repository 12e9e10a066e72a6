//! What every source of weights can do, whatever kind of file it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{EarlyExits, FileMap, ModelConfig, StoredAdapter, TensorId, VocabClusters};

use crate::error::{Result, RuntimeError};
use crate::gguf::Metadata;
use crate::tensor::{StoredType, Tensor};
use crate::tokenizer::Tokenizer;

/// A model on disk.
pub trait WeightSource: Send + Sync {
    /// The file or directory, for messages.
    fn path(&self) -> &Path;

    /// The architecture.
    fn config(&self) -> &ModelConfig;

    /// The text of `tokenizer.json`, where the model has one.
    fn tokenizer_json(&self) -> Option<&[u8]>;

    /// Compares `written`, read back from what [`WeightSource::tokenizer_json`] gave, with what the source says of its
    /// tokenizer, on built-in texts. A source whose only word on it is that text has nothing to compare with.
    ///
    /// # Errors
    /// The first text that the two split differently.
    fn check_tokenizer(&self, written: &Tokenizer) -> Result<()> {
        let _ = written;
        Ok(())
    }

    /// The chat template (Jinja), where the model has one.
    fn chat_template(&self) -> Option<&[u8]>;

    /// What the file says of the model, where it is a GGUF file.
    fn gguf_metadata(&self) -> Option<&Metadata> {
        None
    }

    /// The clusters of the rows of the head, where the model has some.
    ///
    /// # Errors
    /// When they are damaged.
    fn clusters(&self) -> Result<Option<VocabClusters>> {
        Ok(None)
    }

    /// The classifiers for leaving the model early, where it has some.
    ///
    /// # Errors
    /// When they are damaged.
    fn early_exits(&self) -> Result<Option<EarlyExits>> {
        Ok(None)
    }

    /// What the file itself adds to the model.
    ///
    /// # Errors
    /// When it is damaged.
    fn adapters(&self) -> Result<Vec<StoredAdapter>> {
        Ok(Vec::new())
    }

    /// Forgets the adapters: from now on the source has none.
    fn drop_adapters(&mut self) {}

    /// How much each layer matters: the divergence of the predictions without it, where that was measured. Empty where the
    /// source knows of no layer.
    fn layer_importance(&self) -> Vec<Option<f32>> {
        Vec::new()
    }

    /// Types that the model's values were rounded to, each once, by name: those of its tensors, and those that they were
    /// made from. Empty for a model at full precision.
    fn quantized_from(&self) -> Vec<String> {
        quantized_types(self.tensors(), &[])
    }

    /// Every file that the model was read from, for provenance: the configuration, weights, tokenizer.
    fn files(&self) -> Vec<PathBuf>;

    /// Every tensor that the architecture uses, in file order of a QSF file: token embedding, layers by number (kinds in id
    /// order), then the final norm, head and positions.
    fn tensors(&self) -> &[TensorInfo];

    /// One tensor in its stored type, checked (checksums, sizes) before it is handed out. `id` is one of
    /// [`WeightSource::tensors`].
    ///
    /// # Errors
    /// When the stored bytes are damaged or contradict the configuration.
    fn load(&self, id: TensorId) -> Result<Tensor>;

    /// The file, where not all of it was checked when it was opened: [`FileMap::settle`] says whether it is sound.
    fn unchecked(&self) -> Option<Arc<FileMap>> {
        None
    }

    /// Tells the source that no tensor of this layer (`None`: of the model as a whole) is needed soon, so that memory
    /// mapped from files can be given back. Tensors already handed out stay valid.
    fn release(&self, layer: Option<u32>);
}

/// Bytes of all files of a model.
///
/// # Errors
/// When one cannot be looked at.
pub fn file_bytes(source: &dyn WeightSource) -> Result<u64> {
    let size = |path: &PathBuf| Ok(fs::metadata(path).map_err(|e| RuntimeError::io(path, "read", e))?.len());
    source.files().iter().map(size).sum()
}

/// What a source knows of a tensor without reading its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Which tensor.
    pub id: TensorId,
    /// Name in the source file, for messages.
    pub name: String,
    /// Rows; 1 for vectors.
    pub rows: usize,
    /// Values per row.
    pub cols: usize,
    /// Type of the stored values.
    pub stored: StoredType,
}

/// Names of the types of fewer than 16 bits, each once, and those that the model was quantized to `before`.
pub(crate) fn quantized_types(tensors: &[TensorInfo], before: &[String]) -> Vec<String> {
    let quantized = tensors.iter().filter(|info| info.stored.is_quantized());
    let names: BTreeSet<String> =
        quantized.map(|info| info.stored.to_string()).chain(before.iter().cloned()).collect();
    names.into_iter().collect()
}
