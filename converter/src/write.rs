//! Encoded tensors into the file, in the order in which it has them. At most one layer of output is in memory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use qsf_format::{
    CompleteFile, EarlyExits, EncodedTensor, FormatError, META_VERSION, Meta, Provenance, QsfWriter,
    TensorId, TensorKind, VocabClusters, WriterOptions,
};
use qsf_runtime::source::WeightSource;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::encode::{
    BlockForm, EncodedRows, Fit, StoredTensor, TensorBlocks, TensorCache, TensorEncoder, TensorRuns,
    VALUES_PER_RUN,
};
use crate::error::{ConvertError, Result};
use crate::gguf::{GgufFileOut, GgufRequest, GgufWriter};
use crate::hf::{HfDirectory, HfWriter};
use crate::options::ConvertOptions;
use crate::plan::{Plan, PlannedTensor, TensorReport};
use crate::sections::unhashed_provenance;

/// A file that is being written.
pub(crate) struct FileWriter {
    writer: Writer,
    /// One for each tensor that is written.
    records: Vec<TensorReport>,
    /// Parts of the embedding, which stand behind the layers.
    behind: Vec<(EncodedTensor, TensorReport)>,
}

/// Its format.
enum Writer {
    Qsf(Box<QsfWriter>),
    Gguf(Box<GgufWriter>),
    Hf(Box<HfWriter>),
}

/// A file with all tensors and its description.
pub(crate) struct Written {
    pub file: Finished,
    /// One for each tensor, in file order.
    pub tensors: Vec<TensorReport>,
}

/// A file that is whole and has no name yet.
#[expect(clippy::large_enum_variant, reason = "there is one for each conversion")]
pub(crate) enum Finished {
    Qsf(CompleteFile),
    Gguf(Box<GgufFileOut>),
    Hf(Box<HfDirectory>),
}

/// What has its names.
pub(crate) struct Published {
    /// Bytes of all files.
    pub bytes: u64,
    /// The files, the one first that readers open; of a directory, the directory.
    pub files: Vec<PathBuf>,
}

/// Where a tensor of the model as a whole goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Embedding,
    Section,
}

impl FileWriter {
    /// The file `out` of a conversion of `plan` with `encoder`, of which nothing is written yet; `recorded` are its options.
    ///
    /// # Errors
    /// When the output is there already, or cannot be written.
    pub fn create(
        out: &Path,
        encoder: &TensorEncoder<'_>,
        plan: &Plan,
        options: &ConvertOptions,
        recorded: &Map<String, Value>,
    ) -> Result<FileWriter> {
        let ConvertOptions { force, block, compression, .. } = *options;
        let source = encoder.source;
        let writer = match (options.hf, options.gguf) {
            (Some(hf), _) => {
                let reads = (encoder.rows.isa, block, encoder.rows.tables.clone());
                Writer::Hf(Box::new(HfWriter::create(out, source, hf, plan, force, reads)?))
            }
            (None, Some(recipe)) => {
                let request = GgufRequest {
                    source,
                    plan,
                    file_type: (!options.types_chosen()).then(|| recipe.file_type()),
                    provenance: unhashed_provenance(source, recorded.clone())?,
                    evaluated: options.evaluation.is_some(),
                    check_tokenizer: !options.skip_tokenizer_check,
                    force,
                    split_size: options.split_size,
                };
                Writer::Gguf(Box::new(GgufWriter::create(out, &request)?))
            }
            (None, None) => {
                let tables = *encoder.rows.tables;
                let writer_options = WriterOptions { force, block, compression, tables };
                Writer::Qsf(Box::new(QsfWriter::create(out, source.config().layers, writer_options)?))
            }
        };
        Ok(FileWriter { writer, records: Vec::new(), behind: Vec::new() })
    }

    /// Takes the types of `plan` for what is to come; no tensor is written yet.
    ///
    /// # Errors
    /// When the file cannot have them.
    pub fn expect(&mut self, source: &dyn WeightSource, plan: &Plan) -> Result<()> {
        match &mut self.writer {
            Writer::Gguf(writer) => writer.expect(source, plan),
            Writer::Hf(writer) => writer.expect(source, plan),
            Writer::Qsf(_) => Ok(()),
        }
    }

    /// All tensors of `plan`, each for itself; those that `cache` has are not encoded again.
    ///
    /// # Errors
    /// When one of them cannot be encoded, writing fails, or the user interrupts.
    pub fn all(&mut self, encoder: &TensorEncoder<'_>, plan: &Plan, cache: &dyn TensorCache) -> Result<()> {
        let source = encoder.source;
        self.embedding_alone(encoder, plan, cache)?;
        for layer in 0..source.config().layers {
            let of_layer = plan.tensors().par_iter().filter(|t| t.info.id.layer == Some(layer));
            let stored: Vec<Result<StoredTensor>> =
                of_layer.map(|planned| encoder.encode_once(planned, &Fit::default(), cache)).collect();
            // The first error in file order, not the first in time: the same message in every run.
            self.layer(stored.into_iter().collect::<Result<Vec<_>>>()?, None)?;
            source.release(Some(layer));
        }
        self.rest(encoder, plan, &Fit::default(), cache, &HashMap::new())
    }

    /// The token embedding, fitted to nothing.
    fn embedding_alone(
        &mut self,
        encoder: &TensorEncoder<'_>,
        plan: &Plan,
        cache: &dyn TensorCache,
    ) -> Result<()> {
        for embedding in of_model(plan).filter(|t| t.info.id.kind == TensorKind::TokenEmbedding) {
            if is_whole(embedding, cache) {
                self.embedding(&encoder.encode_once(embedding, &Fit::default(), cache)?)?;
            } else {
                self.in_runs(encoder, embedding, Place::Embedding, &Fit::default())?;
            }
        }
        encoder.source.release(None);
        Ok(())
    }

    /// The token embedding, encoded.
    ///
    /// # Errors
    /// When writing fails.
    pub fn embedding(&mut self, tensor: &StoredTensor) -> Result<()> {
        match &mut self.writer {
            Writer::Qsf(writer) => {
                let TensorBlocks { rows, cols, quant, layout, ref data, .. } = tensor.encoded;
                writer.begin_embedding(quant.qsf().ok_or_else(|| foreign(tensor.id))?, layout, rows, cols)?;
                writer.embedding_rows(data)?;
                writer.outliers(tensor.id, &tensor.outliers)?;
                if let Some(split) = &tensor.split {
                    writer.row_parts(tensor.id, &split.rows)?;
                    let parts = split.for_qsf().ok_or_else(|| foreign(tensor.id))?;
                    self.behind.extend(parts.into_iter().zip(split.records().cloned()));
                }
            }
            Writer::Gguf(writer) => writer.tensor(tensor.id, tensor.encoded.clone())?,
            Writer::Hf(writer) => writer.tensor(tensor)?,
        }
        self.records.push(tensor.record.clone());
        Ok(())
    }

    /// A layer whose tensors are encoded, and how much it matters, where that is known.
    ///
    /// # Errors
    /// When writing fails.
    pub fn layer(&mut self, tensors: Vec<StoredTensor>, importance: Option<f32>) -> Result<()> {
        self.records.extend(tensors.iter().flat_map(StoredTensor::records).cloned());
        match &mut self.writer {
            Writer::Qsf(writer) => {
                for tensor in &tensors {
                    writer.outliers(tensor.id, &tensor.outliers)?;
                    if let Some(split) = &tensor.split {
                        writer.row_parts(tensor.id, &split.rows)?;
                    }
                }
                let mut encoded = Vec::new();
                for StoredTensor { id, encoded: first, split, .. } in tensors {
                    let parts = split.map_or(Some(Vec::new()), |split| split.for_qsf());
                    encoded.push(first.for_qsf().ok_or_else(|| foreign(id))?);
                    encoded.extend(parts.ok_or_else(|| foreign(id))?);
                }
                writer.layer(encoded, importance)?;
            }
            Writer::Gguf(writer) => {
                for tensor in tensors {
                    writer.tensor(tensor.id, tensor.encoded)?;
                }
            }
            Writer::Hf(writer) => tensors.iter().try_for_each(|tensor| writer.tensor(tensor))?,
        }
        Ok(())
    }

    /// What stands behind the layers: norm, a head of its own, which is fitted to `head`, and learned positions. What is `done` is
    /// written as it is.
    ///
    /// # Errors
    /// When one of them cannot be encoded, writing fails, or the user interrupts.
    pub fn rest(
        &mut self,
        encoder: &TensorEncoder<'_>,
        plan: &Plan,
        head: &Fit,
        cache: &dyn TensorCache,
        done: &HashMap<TensorId, StoredTensor>,
    ) -> Result<()> {
        if let Writer::Qsf(writer) = &mut self.writer {
            writer.begin_final(encoder.source.config().tied_head)?;
        }
        for tensor in of_model(plan) {
            if let Some(done) = done.get(&tensor.info.id) {
                self.behind_layers(done)?;
                continue;
            }
            match tensor.info.id.kind {
                TensorKind::TokenEmbedding | TensorKind::Positions => {}
                TensorKind::Head if is_whole(tensor, cache) => {
                    self.behind_layers(&encoder.encode_once(tensor, head, cache)?)?;
                }
                TensorKind::Head => self.in_runs(encoder, tensor, Place::Section, head)?,
                _ => self.in_runs(encoder, tensor, Place::Section, &Fit::default())?,
            }
        }
        if let Writer::Qsf(writer) = &mut self.writer {
            for (part, record) in self.behind.drain(..) {
                write_part(writer, &part)?;
                self.records.push(record);
            }
            writer.end_final();
        }
        for positions in of_model(plan).filter(|t| t.info.id.kind == TensorKind::Positions) {
            if let Writer::Qsf(writer) = &mut self.writer {
                writer.begin_positions()?;
            }
            self.in_runs(encoder, positions, Place::Section, &Fit::default())?;
            if let Writer::Qsf(writer) = &mut self.writer {
                writer.end_positions();
            }
        }
        encoder.source.release(None);
        Ok(())
    }

    /// A tensor behind the layers, encoded.
    fn behind_layers(&mut self, tensor: &StoredTensor) -> Result<()> {
        match &mut self.writer {
            Writer::Qsf(writer) => {
                let TensorBlocks { kind, rows, cols, quant, layout, ref data } = tensor.encoded;
                writer.begin_tensor(
                    kind,
                    rows,
                    cols,
                    quant.qsf().ok_or_else(|| foreign(tensor.id))?,
                    layout,
                )?;
                writer.tensor_rows(data)?;
                writer.outliers(tensor.id, &tensor.outliers)?;
                if let Some(split) = &tensor.split {
                    writer.row_parts(tensor.id, &split.rows)?;
                    for part in split.for_qsf().ok_or_else(|| foreign(tensor.id))? {
                        write_part(writer, &part)?;
                    }
                }
            }
            Writer::Gguf(writer) => writer.tensor(tensor.id, tensor.encoded.clone())?,
            Writer::Hf(writer) => writer.tensor(tensor)?,
        }
        self.records.extend(tensor.records().cloned());
        Ok(())
    }

    /// A tensor that may be as large as many layers: encoded and written in runs of rows.
    fn in_runs(
        &mut self,
        encoder: &TensorEncoder<'_>,
        planned: &PlannedTensor,
        place: Place,
        fit: &Fit,
    ) -> Result<()> {
        let id = planned.info.id;
        let runs = TensorRuns::new(encoder, planned, fit)?;
        let BlockForm { quant, layout } = runs.form;
        let mut all = EncodedRows::default();
        let TensorReport { rows, cols, .. } = runs.record(&all);
        match &mut self.writer {
            Writer::Qsf(writer) => {
                let quant = quant.qsf().ok_or_else(|| foreign(id))?;
                match place {
                    Place::Embedding => writer.begin_embedding(quant, layout, rows, cols)?,
                    Place::Section => writer.begin_tensor(id.kind, rows, cols, quant, layout)?,
                }
            }
            Writer::Gguf(writer) => writer.begin_runs(quant)?,
            Writer::Hf(writer) => writer.begin_runs(id, quant)?,
        }
        for rows in runs.ranges() {
            let count = rows.len() as u32;
            let mut encoded = runs.encode(rows)?;
            let data = std::mem::take(&mut encoded.data);
            match (&mut self.writer, place) {
                (Writer::Qsf(writer), Place::Embedding) => writer.embedding_rows(&data)?,
                (Writer::Qsf(writer), Place::Section) => writer.tensor_rows(&data)?,
                (Writer::Gguf(writer), _) => writer.run(&data)?,
                (Writer::Hf(writer), _) => {
                    let blocks = TensorBlocks { kind: id.kind, rows: count, cols, quant, layout, data };
                    writer.run(id, &blocks, &encoded.outliers)?;
                }
            }
            // Without the blocks, which are written.
            all.append(encoded);
        }
        match &mut self.writer {
            Writer::Qsf(writer) => writer.outliers(id, &all.outliers)?,
            Writer::Gguf(writer) => writer.end_runs()?,
            Writer::Hf(writer) => writer.end_runs(id, cols as usize)?,
        }
        self.records.push(runs.record(&all));
        Ok(())
    }

    /// The file with its description; what else is to be in it can be measured on it now. `type_id` is the type that the header
    /// of a QSF file names.
    ///
    /// # Errors
    /// When a tensor is missing, or writing fails.
    pub fn complete(self, source: &dyn WeightSource, type_id: u8, provenance: Provenance) -> Result<Written> {
        let FileWriter { writer, records: tensors, .. } = self;
        let file = match writer {
            Writer::Qsf(writer) => {
                let model = source.config().clone();
                let records = tensors.iter().filter_map(TensorReport::for_meta).collect();
                let meta = Meta { version: META_VERSION, model, provenance, tensors: records };
                Finished::Qsf(writer.complete(
                    &meta,
                    type_id,
                    source.tokenizer_json(),
                    source.chat_template(),
                )?)
            }
            Writer::Gguf(writer) => Finished::Gguf(Box::new(writer.complete(provenance)?)),
            Writer::Hf(writer) => Finished::Hf(Box::new(writer.complete(source, &provenance)?)),
        };
        Ok(Written { file, tensors })
    }
}

impl Finished {
    /// Its name for now.
    pub fn path(&self) -> &Path {
        match self {
            Finished::Qsf(file) => file.path(),
            Finished::Gguf(file) => file.path(),
            Finished::Hf(dir) => dir.path(),
        }
    }

    /// Bytes of it, of a directory or several files of all.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn bytes(&self) -> Result<u64> {
        match self {
            Finished::Hf(dir) => dir.bytes(),
            Finished::Gguf(file) => Ok(file.bytes()),
            file => {
                let path = file.path();
                Ok(fs::metadata(path).map_err(|e| ConvertError::io(path, "read", e))?.len())
            }
        }
    }

    /// Adds clusters of the vocabulary, where the format has a place for them.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append_clusters(&mut self, clusters: &VocabClusters) -> Result<()> {
        if let Finished::Qsf(file) = self {
            file.append_clusters(clusters)?;
        }
        Ok(())
    }

    /// Adds where the model may be left early, where the format has a place for that.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append_early_exits(&mut self, exits: &EarlyExits) -> Result<()> {
        if let Finished::Qsf(file) = self {
            file.append_early_exits(exits)?;
        }
        Ok(())
    }

    /// Adds how good the file is.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append_evaluation(&mut self, found: &Value) -> Result<()> {
        match self {
            Finished::Qsf(file) => Ok(file.append_evaluation(found.to_string().as_bytes())?),
            Finished::Gguf(file) => file.add_evaluation(found),
            Finished::Hf(dir) => dir.add_evaluation(found),
        }
    }

    /// Gives the file its name, or the files theirs.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_as(self, path: &Path) -> Result<Published> {
        let one = |bytes| Published { bytes, files: vec![path.to_owned()] };
        Ok(match self {
            Finished::Qsf(file) => one(file.publish_as(path)?),
            Finished::Gguf(file) => Published { bytes: file.bytes(), files: file.publish_as(path)? },
            Finished::Hf(dir) => one(dir.publish_as(path)?),
        })
    }
}

/// A part of a matrix of the final section.
fn write_part(writer: &mut QsfWriter, part: &EncodedTensor) -> Result<()> {
    writer.begin_part((part.kind, part.part), part.rows, part.cols, part.quant, part.layout)?;
    Ok(writer.tensor_rows(&part.data)?)
}

/// A type that a QSF file cannot have: plans have none for such files.
fn foreign(id: TensorId) -> FormatError {
    FormatError::Unwritable {
        path: Default::default(),
        what: id.to_string(),
        why: "its type is one of GGUF files".into(),
    }
}

/// Whether a tensor of the model as a whole is encoded before it is written: where a cache keeps it, for which those are too large
/// that are written as they are encoded, and where its rows are in several types.
fn is_whole(planned: &PlannedTensor, cache: &dyn TensorCache) -> bool {
    let kept = cache.keeps() && planned.info.rows.saturating_mul(planned.info.cols) <= VALUES_PER_RUN;
    kept || !planned.finer.is_none()
}

/// The tensors that belong to no layer.
fn of_model(plan: &Plan) -> impl Iterator<Item = &PlannedTensor> {
    plan.tensors().iter().filter(|t| t.info.id.layer.is_none())
}
