//! QSF files as a source of weights.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{
    EarlyExits, FileBytes, FileMap, ModelConfig, QsfFile, SectionTag, StoredAdapter, TensorEntry, TensorId,
    TensorKind, VocabClusters, is_untrusted,
};
use rayon::prelude::*;

use super::Found;
use super::expansion::{check_headers, is_suspicious, too_expansive};
use super::shape::check_complete;
use super::{TensorInfo, WeightSource};
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;

/// An open QSF file, every layer of it checked.
pub struct QsfSource {
    file: QsfFile,
    config: ModelConfig,
    tokenizer: Option<Vec<u8>>,
    chat_template: Option<Vec<u8>>,
    tensors: HashMap<TensorId, Tensor>,
    infos: Vec<TensorInfo>,
    /// Types that the file's own sources were quantized to.
    quantized_before: Vec<String>,
    without_adapters: bool,
}

impl QsfSource {
    /// Opens a file, checks all of it that a model needs, and finds its tensors.
    ///
    /// # Errors
    /// When it is damaged, or its tensors are not those of the model that it describes.
    pub fn open(path: &Path) -> Result<QsfSource> {
        Self::from_file(QsfFile::open(path)?)
    }

    /// [`QsfSource::open`] of a model that will answer at once: the weights of a large file in the system's cache are checked when they are
    /// first used, and all of them before the first logits are given out ([`Runner::settle`](crate::Runner::settle)). Reading them twice
    /// would take half as long again. Who takes tensors of it in another way than [`Model::load`](crate::Model::load) asks
    /// [`WeightSource::unchecked`] whether they are sound.
    ///
    /// # Errors
    /// As [`QsfSource::open`], but for damage in weights.
    pub fn open_for_answer(path: &Path) -> Result<QsfSource> {
        let file = QsfFile::open(path)?;
        if file.begin_deferral() {
            let source = Self::from_file(file);
            if let Ok(source) = source {
                source.file.end_deferral();
                return Ok(source);
            }
            // What contradicts something may be damaged, which then is what to say.
        }
        Self::open(path)
    }

    /// The source of a file that is open already, perhaps in memory.
    ///
    /// # Errors
    /// As [`QsfSource::open`].
    pub fn from_file(file: QsfFile) -> Result<QsfSource> {
        // What describes no model, or another than the tensors are of, need not be decompressed.
        let meta = file.meta()?;
        if let Some(meta) = meta.as_ref().filter(|_| is_suspicious(&file)) {
            if is_untrusted() {
                return Err(too_expansive(&file));
            }
            check_headers(&file, &meta.model)?;
        }
        // The two parts that may be far larger than a layer come first, so that no thread is left alone with one.
        let layer = |layer| file.layer(layer);
        let embedding = || file.embedding_info().and_then(|info| Ok((file.embedding(&info)?, info)));
        let ((embedding, last), layers) = rayon::join(
            || rayon::join(embedding, || file.final_section()),
            || (0..file.layers().len()).into_par_iter().map(layer).collect::<Result<Vec<_>, _>>(),
        );
        let (layers, (tied_head, last)) = (layers?, last?);
        let gated = layers.first().is_some_and(|group| has_gate(&group.tensors));
        let config = model_config(&file, tied_head, gated)?;
        let outliers = file.outliers()?;
        let row_parts = file.row_parts()?;
        let mut found = Found::new(&file, &config, outliers, row_parts);
        let (bytes, info) = embedding?;
        found.add_embedding(&bytes, &info)?;
        for (layer, group) in (0..).zip(&layers) {
            found.add_group(Some(layer), group, None)?;
        }
        let len = bytes.as_slice().len();
        found.add_group(None, &last, Some(&info.entry(0..len)))?;
        if let Some(positions) = file.positions()? {
            found.add_group(None, &positions, None)?;
        }
        let (tensors, infos): (HashMap<_, _>, Vec<TensorInfo>) = found.finish()?;
        check_complete(file.path(), &config, &infos)?;
        let tokenizer = file.section_bytes(SectionTag::TOKENIZER)?;
        let chat_template = file.section_bytes(SectionTag::CHAT_TEMPLATE)?;
        let quantized_before = meta.map_or_else(Vec::new, |meta| meta.provenance.requantized_from);
        Ok(QsfSource {
            config,
            tokenizer,
            chat_template,
            tensors,
            infos,
            quantized_before,
            file,
            without_adapters: false,
        })
    }

    /// The file.
    pub fn file(&self) -> &QsfFile {
        &self.file
    }
}

/// Whether the feed-forward of the layer with these tensors is gated.
pub(crate) fn has_gate(tensors: &[TensorEntry]) -> bool {
    tensors.iter().any(|tensor| tensor.kind == Some(TensorKind::FfnGate))
}

/// The model that META describes; for a plain file, what the header and the tensors say.
pub(crate) fn model_config(file: &QsfFile, tied_head: bool, gated: bool) -> Result<ModelConfig> {
    if let Some(meta) = file.meta()? {
        if meta.model.tied_head != tied_head {
            return Err(RuntimeError::bad_input(
                file.path(),
                "final section, head flag",
                if meta.model.tied_head { "a tied head as in META" } else { "a separate head as in META" },
                if tied_head { "tied" } else { "separate" },
            ));
        }
        return Ok(meta.model);
    }
    let config = file.header().plain_model(gated, tied_head).ok_or_else(|| RuntimeError::Unsupported {
        path: file.path().to_owned(),
        what: "a plain file of this architecture".into(),
        supported: "it needs the section META; convert the source model again".into(),
    })?;
    config.check().map_err(|e| RuntimeError::bad_input(file.path(), "file header", "a possible model", e))?;
    Ok(config)
}

impl WeightSource for QsfSource {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        self.tokenizer.as_deref()
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.chat_template.as_deref()
    }

    fn clusters(&self) -> Result<Option<VocabClusters>> {
        Ok(self.file.clusters()?)
    }

    fn early_exits(&self) -> Result<Option<EarlyExits>> {
        Ok(self.file.early_exits()?)
    }

    fn adapters(&self) -> Result<Vec<StoredAdapter>> {
        Ok(if self.without_adapters { Vec::new() } else { self.file.adapters()? })
    }

    fn drop_adapters(&mut self) {
        self.without_adapters = true;
    }

    fn layer_importance(&self) -> Vec<Option<f32>> {
        // A layer whose keys and values others use is never left out.
        let all = (0..).zip(self.file.layers());
        all.map(|(i, layer)| layer.importance.filter(|_| !self.config.is_kv_source(i))).collect()
    }

    fn quantized_from(&self) -> Vec<String> {
        super::quantized_types(&self.infos, &self.quantized_before)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.path().to_owned()]
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        self.tensors.get(&id).cloned().ok_or_else(|| {
            RuntimeError::bad_input(self.file.path(), id.to_string(), "a tensor of the file", "none")
        })
    }

    fn unchecked(&self) -> Option<Arc<FileMap>> {
        match self.file.bytes() {
            FileBytes::Mapped(map) => map.has_deferred_checks().then(|| map.clone()),
            FileBytes::Memory(_) => None,
        }
    }

    /// Nothing to do: the file is mapped, and its pages are the operating system's to keep or drop.
    fn release(&self, _layer: Option<u32>) {}
}
