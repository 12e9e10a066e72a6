//! QSF files as a source of weights.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{
    BlockSize, Damage, EarlyExits, EmbeddingInfo, FileBytes, Layout, ModelConfig, OutlierTable, QsfFile,
    QuantType, RawBytes, SectionTag, StoredAdapter, TensorEntry, TensorGroup, TensorId, TensorKind,
    VocabClusters, is_untrusted,
};
use rayon::prelude::*;

use super::expansion::{check_headers, is_suspicious, too_expansive};
use super::shape::check_complete;
use super::{TensorInfo, WeightSource};
use crate::error::{Result, RuntimeError};
use crate::tensor::{Tensor, TensorBytes};

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
        let mut tensors =
            Found { file: &file, config: &config, outliers, tensors: HashMap::new(), infos: Vec::new() };
        let (bytes, info) = embedding?;
        tensors.add_embedding(&bytes, &info)?;
        for (layer, group) in (0..).zip(&layers) {
            tensors.add_group(Some(layer), group)?;
        }
        tensors.add_group(None, &last)?;
        if let Some(positions) = file.positions()? {
            tensors.add_group(None, &positions)?;
        }
        let Found { tensors, infos, outliers, .. } = tensors;
        outliers.check_all_taken().map_err(|damage| damage.in_file(file.path()))?;
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

/// Collects the tensors of a file.
pub(crate) struct Found<'a> {
    pub file: &'a QsfFile,
    pub config: &'a ModelConfig,
    /// What is stored apart from the blocks of tensors that were not found yet.
    pub outliers: OutlierTable,
    pub tensors: HashMap<TensorId, Tensor>,
    pub infos: Vec<TensorInfo>,
}

impl Found<'_> {
    fn add_embedding(&mut self, bytes: &RawBytes, info: &EmbeddingInfo) -> Result<()> {
        let len = bytes.as_slice().len();
        let id = TensorId::of_model(TensorKind::TokenEmbedding);
        self.add(id, info.rows, info.cols, info.quant, info.layout, tensor_bytes(bytes, 0..len))
    }

    pub fn add_group(&mut self, layer: Option<u32>, group: &TensorGroup) -> Result<()> {
        self.file.check_kinds_known(layer, &group.tensors)?;
        for entry in &group.tensors {
            self.add_entry(layer, entry, tensor_bytes(&group.bytes, entry.data.clone()))?;
        }
        Ok(())
    }

    /// One tensor with these bytes.
    pub fn add_entry(&mut self, layer: Option<u32>, entry: &TensorEntry, bytes: TensorBytes) -> Result<()> {
        let Some(kind) = entry.kind else {
            // An optional kind of a later version. What it has apart from its blocks is passed over with it.
            let taken = self.outliers.take_of_entry(layer, entry);
            return taken.map(|_| ()).map_err(|damage| damage.in_file(self.file.path()).into());
        };
        let id = TensorId { layer, kind };
        if kind == TensorKind::FfnBiases {
            return self.add_joined_biases(id, entry.quant, &bytes);
        }
        self.check_experts(entry, id)?;
        self.add(id, entry.rows, entry.cols, entry.quant, entry.layout, bytes)
    }

    /// Kind 13 holds the up bias followed by the down bias.
    fn add_joined_biases(&mut self, id: TensorId, quant: QuantType, bytes: &TensorBytes) -> Result<()> {
        let (up, down) = (self.config.ffn, self.config.hidden);
        let width = |cols: u32| quant.row_bytes(BlockSize::B64, cols.into()).unwrap_or(u64::MAX) as usize;
        let all = bytes.as_slice();
        if !quant.is_float() || all.len() != width(up) + width(down) {
            return Err(RuntimeError::bad_input(
                self.file.path(),
                id.to_string(),
                format!("{up} + {down} floats"),
                format!("{} bytes of {quant}", all.len()),
            ));
        }
        let (first, second) = all.split_at(width(up));
        for (kind, cols, part) in
            [(TensorKind::FfnUpBias, up, first), (TensorKind::FfnDownBias, down, second)]
        {
            let bytes = part.to_vec().into();
            self.add(TensorId { kind, ..id }, 1, cols, quant, Layout::Rows, bytes)?;
        }
        Ok(())
    }

    /// Each expert is used as a matrix of its own, so none may end inside a panel.
    pub fn check_experts(&self, entry: &TensorEntry, id: TensorId) -> Result<()> {
        // A stack in a layer without experts, or of other rows than the configuration says, is refused later.
        let (Layout::Panels16, Some(count)) = (entry.layout, self.config.stacked(id)) else { return Ok(()) };
        let rows = entry.rows / count;
        if rows.is_multiple_of(PANEL_ROWS as u32) {
            return Ok(());
        }
        Err(RuntimeError::bad_input(
            self.file.path(),
            id.to_string(),
            "experts of whole panels of 16 rows (layout 3)",
            format!("{rows} rows per expert"),
        ))
    }

    fn add(
        &mut self,
        id: TensorId,
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
        bytes: TensorBytes,
    ) -> Result<()> {
        let path = self.file.path();
        let shape = (rows as usize, cols as usize);
        let block = self.file.header().block;
        let found = bytes.as_slice().len() as u64;
        let tensor =
            Tensor::with_layout(shape.0, shape.1, quant, block, layout, bytes).map_err(|expected| {
                let expected = format!("{} bytes", expected.unwrap_or(u64::MAX));
                RuntimeError::from(Damage::new(id.to_string(), 0, expected, found).in_file(path))
            })?;
        let outliers = self.outliers.take(id, quant, rows, cols).map_err(|damage| damage.in_file(path))?;
        let tensor = tensor.with_tables(self.file.tables());
        let tensor = match outliers {
            Some(outliers) => tensor.with_outliers(outliers, 0),
            None => tensor,
        };
        let name = id.to_string();
        if self.tensors.insert(id, tensor).is_some() {
            return Err(RuntimeError::bad_input(path, name, "each tensor once", "a second one"));
        }
        self.infos.push(TensorInfo { id, name, rows: shape.0, cols: shape.1, stored: quant.into() });
        Ok(())
    }
}

/// A range of raw bytes, shared rather than copied.
fn tensor_bytes(raw: &RawBytes, range: std::ops::Range<usize>) -> TensorBytes {
    match raw {
        RawBytes::Owned(bytes) => TensorBytes::Owned(bytes.clone(), range),
        RawBytes::InFile(file, all) => {
            let range = all.start + range.start..all.start + range.end;
            match file {
                FileBytes::Mapped(map) => TensorBytes::Mapped(map.clone(), range),
                FileBytes::Memory(bytes) => TensorBytes::Owned(bytes.clone(), range),
            }
        }
    }
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

    /// Nothing to do: the file is mapped, and its pages are the operating system's to keep or drop.
    fn release(&self, _layer: Option<u32>) {}
}
