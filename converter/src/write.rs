//! A conversion under way: tensors from the source, encoded as planned, into the file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{
    CodeTables, EncodedTensor, Layout, ModelConfig, QsfWriter, QuantType, TensorId, TensorKind, TensorRecord,
    WriterOptions,
};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{Tensor, WeightSource};
use rayon::prelude::*;

use crate::encode::outliers::Chosen;
use crate::encode::rows::{Encoded, Encoder, VALUES_PER_TASK};
use crate::encode::stored_tensor::StoredTensor;
use crate::error::{ConvertError, Result};
use crate::fit::fits::Fit;
use crate::options::{ConvertOptions, OutlierChoice};
use crate::plan::{Plan, PlannedTensor, StoredForm, layout_of, next_larger};
use crate::quantize::Effort;
use crate::resume::tensor_cache::KeptTensors;

/// Values of a streamed tensor that are encoded before they are written.
pub(crate) const VALUES_PER_RUN: usize = 1 << 23;

/// A conversion under way.
pub(crate) struct Job<'a> {
    pub source: &'a dyn WeightSource,
    pub plan: Arc<Plan>,
    pub encoder: Encoder<'a>,
    pub writer: QsfWriter,
    pub layout: Layout,
    /// Least cosine between a matrix and what is written of it.
    pub min_cosine: Option<f64>,
    /// Whether types were chosen for a size, so that none may become larger.
    pub sized: bool,
    /// Which weights may be stored apart where types are chosen.
    pub outliers: OutlierChoice,
    /// One record for each tensor that is written.
    pub records: Vec<TensorRecord>,
}

/// Where a tensor of the model as a whole goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Embedding,
    Section,
}

impl<'a> Job<'a> {
    /// A conversion of `source` to `out` in the types of `plan`, of which nothing is done yet. `progress` counts weights.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn begin(
        source: &'a dyn WeightSource,
        out: &Path,
        plan: Plan,
        options: &ConvertOptions,
        tables: &'a CodeTables,
        tools: &Tools<'a>,
    ) -> Result<Job<'a>> {
        let ConvertOptions { force, block, compression, .. } = *options;
        let writer_options = WriterOptions { force, block, compression, tables: *tables };
        Ok(Job {
            source,
            plan: Arc::new(plan),
            encoder: Encoder {
                isa: tools.cpu.isa(),
                block,
                tables,
                effort: Effort::FULL,
                source: source.path(),
                progress: tools.progress,
                cancel: tools.cancel,
            },
            writer: QsfWriter::create(out, source.config().layers, writer_options)?,
            layout: options.layout,
            min_cosine: options.min_cosine,
            sized: options.size_limit.is_some(),
            outliers: options.outliers,
            records: Vec::new(),
        })
    }

    /// Weights of all tensors.
    pub fn weights(&self) -> u64 {
        self.plan.tensors().iter().map(|t| t.info.rows as u64 * t.info.cols as u64).sum()
    }

    /// How many experts a tensor is a stack of.
    pub fn experts(&self, id: TensorId) -> Option<u32> {
        experts_of(self.source.config(), id)
    }

    /// All tensors, each for itself, in file order; those that `kept` has are not encoded again.
    pub fn write_all(&mut self, kept: &KeptTensors<'_>) -> Result<()> {
        self.write_embedding(kept)?;
        for layer in 0..self.source.config().layers {
            let plan = self.plan.clone();
            let of_layer = plan.tensors().par_iter().filter(|t| t.info.id.layer == Some(layer));
            let stored: Vec<Result<StoredTensor>> =
                of_layer.map(|planned| kept.store(self, planned, &Fit::default())).collect();
            // The first error in file order, not the first in time: the same message in every run.
            self.write_stored_layer(stored.into_iter().collect::<Result<Vec<_>>>()?, None)?;
            self.source.release(Some(layer));
        }
        self.write_rest(&Fit::default(), kept)
    }

    /// The token embedding, in runs of rows.
    fn write_embedding(&mut self, kept: &KeptTensors<'_>) -> Result<()> {
        let plan = self.plan.clone();
        for embedding in of_model(&plan).filter(|t| t.info.id.kind == TensorKind::TokenEmbedding) {
            if kept.takes(embedding) {
                let stored = kept.store(self, embedding, &Fit::default())?;
                self.write_stored_embedding(&stored)?;
            } else {
                self.write_rows(embedding, Place::Embedding, &Fit::default())?;
            }
        }
        self.source.release(None);
        Ok(())
    }

    /// The token embedding, encoded.
    pub fn write_stored_embedding(&mut self, tensor: &StoredTensor) -> Result<()> {
        let EncodedTensor { rows, cols, quant, layout, ref data, .. } = tensor.encoded;
        self.writer.begin_embedding(quant, layout, rows, cols)?;
        self.writer.embedding_rows(data)?;
        self.writer.outliers(tensor.id, &tensor.outliers)?;
        self.records.push(tensor.record.clone());
        Ok(())
    }

    /// The plan of one tensor.
    pub fn planned(&self, id: TensorId) -> Option<&PlannedTensor> {
        self.plan.tensors().iter().find(|planned| planned.info.id == id)
    }

    /// A tensor behind the layers, encoded.
    fn write_stored(&mut self, tensor: &StoredTensor) -> Result<()> {
        let EncodedTensor { kind, rows, cols, quant, layout, ref data } = tensor.encoded;
        self.writer.begin_tensor(kind, rows, cols, quant, layout)?;
        self.writer.tensor_rows(data)?;
        self.writer.outliers(tensor.id, &tensor.outliers)?;
        self.records.push(tensor.record.clone());
        Ok(())
    }

    /// What stands behind the layers: norm, a head of its own, which is fitted to `head`, and learned positions.
    pub fn write_rest(&mut self, head: &Fit, kept: &KeptTensors<'_>) -> Result<()> {
        let plan = self.plan.clone();
        self.writer.begin_final(self.source.config().tied_head)?;
        for tensor in of_model(&plan) {
            match tensor.info.id.kind {
                TensorKind::TokenEmbedding | TensorKind::Positions => {}
                TensorKind::Head if kept.takes(tensor) => {
                    let stored = kept.store(self, tensor, head)?;
                    self.write_stored(&stored)?;
                }
                TensorKind::Head => self.write_rows(tensor, Place::Section, head)?,
                _ => self.write_rows(tensor, Place::Section, &Fit::default())?,
            }
        }
        self.writer.end_final();
        for positions in of_model(&plan).filter(|t| t.info.id.kind == TensorKind::Positions) {
            self.writer.begin_positions()?;
            self.write_rows(positions, Place::Section, &Fit::default())?;
            self.writer.end_positions();
        }
        self.source.release(None);
        Ok(())
    }

    /// A layer whose tensors are encoded.
    pub fn write_stored_layer(&mut self, tensors: Vec<StoredTensor>, importance: Option<f32>) -> Result<()> {
        for tensor in &tensors {
            self.writer.outliers(tensor.id, &tensor.outliers)?;
        }
        let (tensors, records): (Vec<_>, Vec<_>) = tensors.into_iter().map(|t| (t.encoded, t.record)).unzip();
        self.writer.layer(tensors, importance)?;
        self.records.extend(records);
        Ok(())
    }

    /// [`store`](Self::store)s a tensor so that it is as near to the original as was asked for: in a larger type where it must
    /// be. Where types were chosen for a size, it keeps its own, and is fitted to itself instead of to what it reads.
    pub fn store_well(
        &self,
        planned: &PlannedTensor,
        fits: &[Fit],
        kept: Option<&KeptTensors<'_>>,
    ) -> Result<StoredTensor> {
        let mut stored = self.store_in_runs(planned, fits, kept)?;
        let Some(wanted) = self.cosine_wanted(planned) else { return Ok(stored) };
        if self.sized && stored.record.cosine < wanted {
            stored = self.store_in_runs(planned, &[Fit::default()], kept)?;
        }
        while stored.record.cosine < wanted {
            let next = self.larger(planned, &stored.record, wanted)?;
            stored = self.store_in_runs(&next, fits, kept)?;
            stored.record.promoted_from = Some(planned.quant);
        }
        Ok(stored)
    }

    /// The cosine that a tensor must reach: none for vectors, which are floats.
    fn cosine_wanted(&self, planned: &PlannedTensor) -> Option<f64> {
        self.min_cosine.filter(|_| planned.info.id.kind.is_matrix())
    }

    /// The tensor in the type after that of `record`, which is not near enough.
    fn larger(&self, planned: &PlannedTensor, record: &TensorRecord, wanted: f64) -> Result<PlannedTensor> {
        let next = if self.sized { None } else { next_larger(record.quant, self.encoder.block) };
        match next {
            Some(quant) => Ok(PlannedTensor { quant, ..planned.clone() }),
            None => Err(ConvertError::BelowCosine { id: planned.info.id, cosine: record.cosine, wanted }),
        }
    }

    /// Encodes a tensor; of a stack of experts there may be a fit for each.
    pub fn store(&self, planned: &PlannedTensor, fits: &[Fit]) -> Result<StoredTensor> {
        self.store_in_runs(planned, fits, None)
    }

    /// [`store`](Self::store)s a tensor; runs of rows that `kept` has are not encoded again.
    fn store_in_runs(
        &self,
        planned: &PlannedTensor,
        fits: &[Fit],
        kept: Option<&KeptTensors<'_>>,
    ) -> Result<StoredTensor> {
        let info = &planned.info;
        let tensor = self.source.load(info.id)?;
        let quant = self.encoder.choose_type(info, &tensor, planned.quant)?;
        let layout = layout_of(self.layout, self.source.config(), info, quant);
        let mut encoded = Encoded::default();
        let rows = tensor.rows() / fits.len();
        for (i, fit) in fits.iter().enumerate() {
            let rows = i * rows..(i + 1) * rows;
            let chosen = self.choose_outliers(planned, quant, &tensor, rows.clone(), fit)?;
            let encode =
                |rows| self.encoder.encode(info, &tensor, rows, (quant, layout), fit, chosen.as_ref());
            match kept.filter(|kept| chosen.is_none() && kept.keeps_runs()) {
                Some(kept) => {
                    for run in runs(rows, tensor.cols(), values_per_kept_run()) {
                        encoded.append(kept.run(&self.encoder, planned, (quant, layout), run, encode)?);
                    }
                }
                None => encoded.append(encode(rows)?),
            }
        }
        let record = record(planned, quant, &encoded);
        let (kind, rows, cols) = (info.id.kind, record.rows, record.cols);
        let Encoded { data, outliers, .. } = encoded;
        let encoded = EncodedTensor { kind, rows, cols, quant, layout, data };
        Ok(StoredTensor { id: info.id, encoded, outliers, record })
    }

    /// The weights of these rows that are stored apart, where some are to be.
    fn choose_outliers(
        &self,
        planned: &PlannedTensor,
        quant: QuantType,
        tensor: &Tensor,
        rows: Range<usize>,
        fit: &Fit,
    ) -> Result<Option<Chosen>> {
        let share = StoredForm { quant, ..planned.form() }.outliers_in(tensor.cols());
        if share.is_none() || !planned.info.id.kind.is_matrix() {
            return Ok(None);
        }
        let count = share.count(rows.len(), tensor.cols());
        Ok(Some(Chosen::new(&self.encoder, tensor, rows, count, fit)?.0))
    }

    /// A tensor of the model as a whole, which may be as large as many layers: encoded and written in runs of rows.
    fn write_rows(&mut self, planned: &PlannedTensor, place: Place, fit: &Fit) -> Result<()> {
        let (info, tensor) = (&planned.info, self.source.load(planned.info.id)?);
        let (planned_as, fit) = match self.cosine_wanted(planned) {
            Some(wanted) => self.near_enough(planned, &tensor, fit, wanted)?,
            None => (planned.clone(), fit.clone()),
        };
        let quant = self.encoder.choose_type(info, &tensor, planned_as.quant)?;
        let layout = layout_of(self.layout, self.source.config(), info, quant);
        let chosen = self.choose_outliers(planned, quant, &tensor, 0..tensor.rows(), &fit)?;
        let mut all = Encoded::default();
        let TensorRecord { rows, cols, .. } = record(planned, quant, &all);
        match place {
            Place::Embedding => self.writer.begin_embedding(quant, layout, rows, cols)?,
            Place::Section => self.writer.begin_tensor(info.id.kind, rows, cols, quant, layout)?,
        }
        for range in runs(0..tensor.rows(), tensor.cols(), VALUES_PER_RUN) {
            let form = (quant, layout);
            let encoded = self.encoder.encode(info, &tensor, range, form, &fit, chosen.as_ref())?;
            match place {
                Place::Embedding => self.writer.embedding_rows(&encoded.data)?,
                Place::Section => self.writer.tensor_rows(&encoded.data)?,
            }
            // Without the blocks, which are written.
            all.append(Encoded { data: Vec::new(), ..encoded });
        }
        self.writer.outliers(info.id, &all.outliers)?;
        self.records.push(record(planned, quant, &all));
        Ok(())
    }

    /// The type and the fit that [`store_well`](Self::store_well) would come to, found before anything is written.
    fn near_enough(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        fit: &Fit,
        wanted: f64,
    ) -> Result<(PlannedTensor, Fit)> {
        let trial = |planned: &PlannedTensor, fit: &Fit| -> Result<TensorRecord> {
            let quant = self.encoder.choose_type(&planned.info, tensor, planned.quant)?;
            let chosen = self.choose_outliers(planned, quant, tensor, 0..tensor.rows(), fit)?;
            let mut all = Encoded::default();
            for range in runs(0..tensor.rows(), tensor.cols(), VALUES_PER_RUN) {
                let form = (quant, Layout::Rows);
                let run = self.encoder.encode(&planned.info, tensor, range, form, fit, chosen.as_ref())?;
                all.append(Encoded { data: Vec::new(), ..run });
            }
            Ok(record(planned, quant, &all))
        };
        let (mut form, mut fit) = (planned.clone(), fit.clone());
        let mut found = trial(&form, &fit)?;
        if self.sized && found.cosine < wanted {
            fit = Fit::default();
            found = trial(&form, &fit)?;
        }
        while found.cosine < wanted {
            form = self.larger(planned, &found, wanted)?;
            found = trial(&form, &fit)?;
        }
        Ok((form, fit))
    }
}

/// Values that are encoded before they are kept: enough for all threads, and no more, as a kill may cost that much.
fn values_per_kept_run() -> usize {
    2 * VALUES_PER_TASK * rayon::current_num_threads()
}

/// Rows of a tensor, whole panels of about so many values at a time.
fn runs(rows: Range<usize>, cols: usize, values: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let run = (values / cols.max(1)).max(1).next_multiple_of(PANEL_ROWS);
    rows.clone().step_by(run).map(move |first| first..rows.end.min(first + run))
}

/// How many experts a tensor of a model of this `config` is a stack of.
pub(crate) fn experts_of(config: &ModelConfig, id: TensorId) -> Option<u32> {
    use TensorKind::*;
    let stacked = matches!(id.kind, ExpertGate | ExpertUp | ExpertDown);
    let experts = id.layer.filter(|_| stacked).and_then(|layer| config.experts(layer));
    experts.map(|experts| experts.count)
}

/// The tensors that belong to no layer.
fn of_model(plan: &Plan) -> impl Iterator<Item = &PlannedTensor> {
    plan.tensors().iter().filter(|t| t.info.id.layer.is_none())
}

fn record(planned: &PlannedTensor, quant: QuantType, encoded: &Encoded) -> TensorRecord {
    let Encoded { stats, outliers, .. } = encoded;
    let outliers = outliers.len() as u64;
    let record = planned.record(quant, stats.cosine(), stats.relative_error(), stats.max_abs_error());
    TensorRecord { outliers, ..record }
}

/// What fitting needs beside the job.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub cpu: &'a Cpu,
    /// The calibration text.
    pub tokens: &'a [u32],
    pub progress: &'a dyn Progress,
    pub cancel: &'a Cancel,
}
