//! Encoded tensors into the file, in the order in which it has them. At most one layer of output is in memory.

use std::path::Path;

use qsf_format::{
    CompleteFile, EncodedTensor, META_VERSION, Meta, Provenance, QsfWriter, TensorKind, TensorRecord,
    WriterOptions,
};
use qsf_runtime::source::WeightSource;
use rayon::prelude::*;

use crate::encode::{
    BlockForm, EncodedRows, Fit, StoredTensor, TensorCache, TensorEncoder, TensorRuns, VALUES_PER_RUN,
};
use crate::error::Result;
use crate::options::ConvertOptions;
use crate::plan::{Plan, PlannedTensor};

/// A file that is being written.
pub(crate) struct FileWriter {
    writer: QsfWriter,
    /// One for each tensor that is written.
    records: Vec<TensorRecord>,
}

/// Where a tensor of the model as a whole goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Embedding,
    Section,
}

impl FileWriter {
    /// The file `out` of a conversion with `encoder`, of which nothing is written yet.
    ///
    /// # Errors
    /// When the output is there already, or cannot be written.
    pub fn create(out: &Path, encoder: &TensorEncoder<'_>, options: &ConvertOptions) -> Result<FileWriter> {
        let ConvertOptions { force, block, compression, .. } = *options;
        let tables = *encoder.rows.tables;
        let writer_options = WriterOptions { force, block, compression, tables };
        let writer = QsfWriter::create(out, encoder.source.config().layers, writer_options)?;
        Ok(FileWriter { writer, records: Vec::new() })
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
        self.rest(encoder, plan, &Fit::default(), cache)
    }

    /// The token embedding, fitted to nothing.
    fn embedding_alone(
        &mut self,
        encoder: &TensorEncoder<'_>,
        plan: &Plan,
        cache: &dyn TensorCache,
    ) -> Result<()> {
        for embedding in of_model(plan).filter(|t| t.info.id.kind == TensorKind::TokenEmbedding) {
            if is_kept(embedding, cache) {
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
        let EncodedTensor { rows, cols, quant, layout, ref data, .. } = tensor.encoded;
        self.writer.begin_embedding(quant, layout, rows, cols)?;
        self.writer.embedding_rows(data)?;
        self.writer.outliers(tensor.id, &tensor.outliers)?;
        self.records.push(tensor.record.clone());
        Ok(())
    }

    /// A layer whose tensors are encoded, and how much it matters, where that is known.
    ///
    /// # Errors
    /// When writing fails.
    pub fn layer(&mut self, tensors: Vec<StoredTensor>, importance: Option<f32>) -> Result<()> {
        for tensor in &tensors {
            self.writer.outliers(tensor.id, &tensor.outliers)?;
        }
        let (tensors, records): (Vec<_>, Vec<_>) = tensors.into_iter().map(|t| (t.encoded, t.record)).unzip();
        self.writer.layer(tensors, importance)?;
        self.records.extend(records);
        Ok(())
    }

    /// What stands behind the layers: norm, a head of its own, which is fitted to `head`, and learned positions.
    ///
    /// # Errors
    /// When one of them cannot be encoded, writing fails, or the user interrupts.
    pub fn rest(
        &mut self,
        encoder: &TensorEncoder<'_>,
        plan: &Plan,
        head: &Fit,
        cache: &dyn TensorCache,
    ) -> Result<()> {
        self.writer.begin_final(encoder.source.config().tied_head)?;
        for tensor in of_model(plan) {
            match tensor.info.id.kind {
                TensorKind::TokenEmbedding | TensorKind::Positions => {}
                TensorKind::Head if is_kept(tensor, cache) => {
                    self.behind_layers(&encoder.encode_once(tensor, head, cache)?)?;
                }
                TensorKind::Head => self.in_runs(encoder, tensor, Place::Section, head)?,
                _ => self.in_runs(encoder, tensor, Place::Section, &Fit::default())?,
            }
        }
        self.writer.end_final();
        for positions in of_model(plan).filter(|t| t.info.id.kind == TensorKind::Positions) {
            self.writer.begin_positions()?;
            self.in_runs(encoder, positions, Place::Section, &Fit::default())?;
            self.writer.end_positions();
        }
        encoder.source.release(None);
        Ok(())
    }

    /// A tensor behind the layers, encoded.
    fn behind_layers(&mut self, tensor: &StoredTensor) -> Result<()> {
        let EncodedTensor { kind, rows, cols, quant, layout, ref data } = tensor.encoded;
        self.writer.begin_tensor(kind, rows, cols, quant, layout)?;
        self.writer.tensor_rows(data)?;
        self.writer.outliers(tensor.id, &tensor.outliers)?;
        self.records.push(tensor.record.clone());
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
        let TensorRecord { rows, cols, .. } = runs.record(&all);
        match place {
            Place::Embedding => self.writer.begin_embedding(quant, layout, rows, cols)?,
            Place::Section => self.writer.begin_tensor(id.kind, rows, cols, quant, layout)?,
        }
        for rows in runs.ranges() {
            let encoded = runs.encode(rows)?;
            match place {
                Place::Embedding => self.writer.embedding_rows(&encoded.data)?,
                Place::Section => self.writer.tensor_rows(&encoded.data)?,
            }
            // Without the blocks, which are written.
            all.append(EncodedRows { data: Vec::new(), ..encoded });
        }
        self.writer.outliers(id, &all.outliers)?;
        self.records.push(runs.record(&all));
        Ok(())
    }

    /// The file with its description; what else is to be in it can be measured on it now. `type_id` is the type that its
    /// header names.
    ///
    /// # Errors
    /// When a tensor is missing, or writing fails.
    pub fn complete(
        self,
        source: &dyn WeightSource,
        type_id: u8,
        provenance: Provenance,
    ) -> Result<(CompleteFile, Meta)> {
        let FileWriter { writer, records } = self;
        let model = source.config().clone();
        let meta = Meta { version: META_VERSION, model, provenance, tensors: records };
        let file = writer.complete(&meta, type_id, source.tokenizer_json(), source.chat_template())?;
        Ok((file, meta))
    }
}

/// Whether a cache keeps a tensor of the model as a whole. Those that are written as they are encoded are too large for it.
fn is_kept(planned: &PlannedTensor, cache: &dyn TensorCache) -> bool {
    cache.keeps() && planned.info.rows.saturating_mul(planned.info.cols) <= VALUES_PER_RUN
}

/// The tensors that belong to no layer.
fn of_model(plan: &Plan) -> impl Iterator<Item = &PlannedTensor> {
    plan.tensors().iter().filter(|t| t.info.id.layer.is_none())
}
