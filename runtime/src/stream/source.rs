//! A QSF file of which only the outline was read: what is where, and the vectors.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use qsf_format::{
    EarlyExits, ModelConfig, Outline, QsfFile, RowParts, SectionTag, SplitMatrix, StoredAdapter, TensorEntry,
    TensorId, TensorKind, VocabClusters,
};

use crate::arena::Arena;
use crate::error::{Result, RuntimeError};
use crate::on_disk::chunk_reader::{ChunkReader, ReaderBytes, SLACK};
use crate::on_disk::disk::{self, Io};
use crate::on_disk::matrix::MatrixForm;
use crate::on_disk::part::StreamPart;
use crate::source::{Found, TensorInfo, WeightSource, check_complete, has_gate, model_config};
use crate::tensor::Tensor;

/// A matrix of the file, and where it is.
#[derive(Debug, Clone)]
pub struct Place {
    /// Which matrix.
    pub id: TensorId,
    /// Shape and type.
    pub form: MatrixForm,
    /// The part of the file that it is in.
    pub part: StreamPart,
    /// Which part of the matrix it is, where the rows of that are in several types.
    pub number: u8,
    /// Rows of the whole matrix.
    pub all_rows: usize,
}

impl Place {
    /// Its raw bytes in the part.
    pub fn raw(&self) -> Range<usize> {
        self.form.raw_of(&(0..self.form.rows))
    }

    /// Whether it is that of all experts, or of all heads, of a layer, or of all streams: each is read by itself, when it is used.
    pub fn is_of_experts(&self) -> bool {
        use TensorKind::*;
        matches!(self.id.kind, ExpertGate | ExpertUp | ExpertDown | AttnKUp | AttnVUp | StreamReturn)
    }
}

/// An open QSF file. Its weights are read when they are used.
pub struct StreamSource {
    file: QsfFile,
    io: Io,
    config: ModelConfig,
    tokenizer: Option<Vec<u8>>,
    chat_template: Option<Vec<u8>>,
    /// In the order of use: layer by layer, then a separate head.
    places: Vec<Place>,
    /// The token embedding; none where it is in parts, which are in memory.
    embedding: Option<Place>,
    /// Stacks of experts that are in parts, each of which is a place of its own.
    split: HashMap<TensorId, RowParts>,
    parts: Vec<StreamPart>,
    /// Norms, biases, learned positions, and embedding and head where they are in parts.
    vectors: HashMap<TensorId, Tensor>,
    infos: Vec<TensorInfo>,
    quantized_before: Vec<String>,
    without_adapters: bool,
    reader: Mutex<ChunkReader>,
}

impl StreamSource {
    /// Opens a file and reads its headers and vectors; matrices will be read by `io`.
    ///
    /// # Errors
    /// When the file is no QSF file, what was read of it is damaged, or its tensors are not those of its model.
    pub fn open(path: &Path, io: Io) -> Result<StreamSource> {
        let file = QsfFile::open(path)?;
        let layers = 0..file.layers().len();
        let outlines = layers.map(|layer| file.layer_outline(layer)).collect::<Result<Vec<_>, _>>()?;
        let (tied_head, last) = file.final_outline()?;
        let embedding = file.embedding_outline()?;
        let gated = outlines.first().is_some_and(|outline| has_gate(&outline.tensors));
        let config = model_config(&file, tied_head, gated)?;
        let part = |(id, outline): (usize, Outline)| StreamPart { id, outline: Arc::new(outline) };
        let parts: Vec<_> = outlines.into_iter().chain([last, embedding]).enumerate().map(part).collect();
        let mut reader = reader(path, io, &parts)?;
        let outliers = file.outliers()?;
        let row_parts = file.row_parts()?;
        let mut found = Found::new(&file, &config, outliers, row_parts);
        let (mut places, mut split_stacks) = (Vec::new(), HashMap::new());
        let [layers @ .., last, embedding] = &parts[..] else {
            return Err(RuntimeError::bad_input(
                path,
                "the file",
                "an embedding and a final section",
                "none",
            ));
        };
        let of_embedding = &embedding.outline.tensors[0];
        let mut in_memory = false;
        for (layer, part) in (0..).map(Some).zip(layers).chain([(None, last)]) {
            file.check_kinds_known(layer, &part.outline.tensors)?;
            let with = layer.is_none().then_some(of_embedding);
            let split = found.take_split(layer, part.outline.tensors.iter().chain(with))?;
            let is_split = |kind: TensorKind| split.iter().any(|matrix| matrix.kind == kind);
            if with.is_some() && is_split(TensorKind::TokenEmbedding) {
                let bytes = read_all(&mut reader, embedding, &of_embedding.data)?;
                found.add_entry(None, of_embedding, &split, bytes.into())?;
                in_memory = true;
            }
            for entry in &part.outline.tensors {
                // Rows of it are looked up, and nothing is multiplied with it.
                let looked_up = entry.kind == Some(TensorKind::PerLayerEmbedding);
                let streamed = entry.kind.is_some_and(|kind| !is_split(kind));
                let of_split = split.iter().find(|matrix| entry.matrix_kind() == Some(matrix.kind));
                if let Some(matrix) = of_split.filter(|matrix| is_stack(matrix.kind)) {
                    places.push(part_place(&mut found, layer, part, entry, matrix)?);
                } else if entry.rows > 1 && streamed && !looked_up {
                    found.check_experts(
                        entry,
                        TensorId { layer, kind: entry.kind.unwrap_or(TensorKind::Head) },
                    )?;
                    places.push(place(&mut found, layer, part, entry)?);
                } else {
                    let bytes = read_all(&mut reader, part, &entry.data)?;
                    found.add_entry(layer, entry, &split, bytes.into())?;
                }
            }
            for matrix in split {
                let id = TensorId { layer, kind: matrix.kind };
                if is_stack(matrix.kind) {
                    split_stacks.insert(id, matrix.rows);
                } else {
                    found.join(layer, matrix)?;
                }
            }
        }
        let embedding = match in_memory {
            true => None,
            false => Some(place(&mut found, None, embedding, of_embedding)?),
        };
        // As in the file: a fingerprint of the model is by this order.
        let id = TensorId::of_model(TensorKind::TokenEmbedding);
        if let Some(at) = found.infos.iter().position(|info| info.id == id) {
            found.infos[..=at].rotate_right(1);
        }
        if let Some(positions) = file.positions()? {
            found.add_group(None, &positions, None)?;
        }
        let (vectors, infos) = found.finish()?;
        check_complete(path, &config, &infos)?;
        // What layers get of a token, and streams, are made before the first, and streams come together before the head.
        let order = |place: &Place| {
            let layer = match place.id.kind {
                TensorKind::PerLayerProjection | TensorKind::StreamProjection => 0,
                TensorKind::StreamReturn => u32::MAX - 1,
                _ => place.id.layer.map_or(u32::MAX, |layer| layer + 1),
            };
            (layer, place.id.kind.order_of_use())
        };
        places.sort_by_key(order);
        let tokenizer = file.section_bytes(SectionTag::TOKENIZER)?;
        let chat_template = file.section_bytes(SectionTag::CHAT_TEMPLATE)?;
        let quantized_before = file.meta()?.map_or_else(Vec::new, |meta| meta.provenance.requantized_from);
        let reader = Mutex::new(reader);
        Ok(StreamSource {
            file,
            io,
            config,
            tokenizer,
            chat_template,
            places,
            embedding,
            parts,
            split: split_stacks,
            vectors,
            infos,
            quantized_before,
            without_adapters: false,
            reader,
        })
    }

    /// How matrices are read.
    pub fn io(&self) -> Io {
        self.io
    }

    /// The matrices that tokens are multiplied with, in the order of use, a tied head too: those of the layers `skipped`, or
    /// all others.
    pub(super) fn matrices<'a>(
        &'a self,
        skipped: &'a [usize],
        of_skipped: bool,
    ) -> impl Iterator<Item = &'a Place> {
        let tied = self.embedding.as_ref().filter(|_| self.config.tied_head);
        let is_skipped =
            |place: &Place| place.id.layer.is_some_and(|layer| skipped.contains(&(layer as usize)));
        self.places.iter().chain(tied).filter(move |place| is_skipped(place) == of_skipped)
    }

    /// The token embedding, unless it is in parts, which are in memory as vectors are.
    pub(super) fn embedding(&self) -> Option<&Place> {
        self.embedding.as_ref()
    }

    /// Which rows of a stack of experts are in which part, where it is in parts.
    pub(super) fn split(&self, id: TensorId) -> Option<&RowParts> {
        self.split.get(&id)
    }

    /// Bytes of the matrices in parts: tokens are multiplied with all of them.
    pub(super) fn split_bytes(&self) -> u64 {
        self.vectors.values().filter(|tensor| tensor.split().is_some()).map(Tensor::stored_bytes).sum()
    }

    /// All parts with weights.
    pub(super) fn parts(&self) -> &[StreamPart] {
        &self.parts
    }

    /// A vector, the learned positions, or a matrix in parts.
    pub(super) fn vector(&self, id: TensorId) -> Option<&Tensor> {
        self.vectors.get(&id)
    }

    /// Forgets the text of the tokenizer, which is of no use any more when it was read.
    pub fn drop_tokenizer_json(&mut self) {
        self.tokenizer = None;
    }
}

/// A reader of these parts with memory of its own.
pub(super) fn reader(path: &Path, io: Io, parts: &[StreamPart]) -> Result<ChunkReader> {
    let bytes = ReaderBytes::of(parts);
    let mut arena = Arena::new(bytes.stored + bytes.border + 2 * crate::arena::REGION_ALIGN)?;
    let (stored, border) = (arena.take("reading", bytes.stored)?, arena.take("reading", bytes.border)?);
    Ok(ChunkReader::new(path, disk::open(path, io)?, stored, border))
}

/// Raw bytes in memory of their own.
fn read_all(reader: &mut ChunkReader, part: &StreamPart, raw: &Range<usize>) -> Result<Vec<u8>> {
    let (mut bytes, len) = (Vec::new(), raw.len() + SLACK);
    bytes.try_reserve_exact(len).map_err(|_| RuntimeError::OutOfMemory {
        what: format!("tensor in {}", part.outline.place),
        bytes: len as u64,
    })?;
    bytes.resize(len, 0);
    let start = reader.read(part, raw, &mut bytes)?;
    bytes.truncate(start + raw.len());
    bytes.drain(..start);
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Notes a matrix.
fn place(found: &mut Found<'_>, layer: Option<u32>, part: &StreamPart, entry: &TensorEntry) -> Result<Place> {
    let id = TensorId { layer, kind: entry.kind.unwrap_or(TensorKind::Head) };
    let outliers = found.outliers.take(id, entry.quant, entry.rows, entry.cols);
    let outliers = outliers.map_err(|damage| damage.in_file(found.file.path()))?;
    let (rows, cols) = (entry.rows as usize, entry.cols as usize);
    found.infos.push(TensorInfo { id, name: id.to_string(), rows, cols, stored: entry.quant.into() });
    let form = MatrixForm {
        rows,
        cols,
        quant: entry.quant,
        block: found.file.header().block,
        layout: entry.layout,
        start: entry.data.start,
        tables: found.file.tables().clone(),
        outliers,
    };
    Ok(Place { id, form, part: part.clone(), number: 0, all_rows: rows })
}

/// Whether a matrix is a stack of experts, which are read when they are used.
fn is_stack(kind: TensorKind) -> bool {
    matches!(kind, TensorKind::ExpertGate | TensorKind::ExpertUp | TensorKind::ExpertDown)
}

/// Notes a part of a stack of experts; with the first, the stack.
fn part_place(
    found: &mut Found<'_>,
    layer: Option<u32>,
    part: &StreamPart,
    entry: &TensorEntry,
    matrix: &SplitMatrix,
) -> Result<Place> {
    let id = TensorId { layer, kind: matrix.kind };
    let (all_rows, infos) = (matrix.rows.rows(), found.infos.len());
    let number = entry.part_of.map_or(0, |(_, number)| number);
    let of_stack = TensorEntry { kind: Some(matrix.kind), ..entry.clone() };
    let place = place(found, layer, part, &of_stack)?;
    match number {
        0 => found.infos[infos].rows = all_rows,
        _ => found.infos.truncate(infos),
    }
    Ok(Place { id, number, all_rows, ..place })
}

impl WeightSource for StreamSource {
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
        crate::source::quantized_types(&self.infos, &self.quantized_before)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.path().to_owned()]
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        if let Some(vector) = self.vectors.get(&id) {
            return Ok(vector.clone());
        }
        let mut places: Vec<&Place> =
            self.places.iter().chain(&self.embedding).filter(|place| place.id == id).collect();
        places.sort_by_key(|place| place.number);
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = |place: &&Place| {
            let bytes = read_all(&mut reader, &place.part, &place.raw())?;
            place.form.tensor(&(0..place.form.rows), bytes.into())
        };
        let mut parts = places.iter().map(&mut read).collect::<Result<Vec<Tensor>>>()?;
        match (self.split.get(&id), parts.pop()) {
            (_, None) => {
                let (expected, found) = ("a tensor of the file", "none");
                Err(RuntimeError::bad_input(self.file.path(), id.to_string(), expected, found))
            }
            (None, Some(tensor)) => Ok(tensor),
            (Some(rows), Some(last)) => {
                parts.push(last);
                Ok(Tensor::of_parts(parts, rows.clone()))
            }
        }
    }

    fn release(&self, _layer: Option<u32>) {}
}
