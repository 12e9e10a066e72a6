//! Tensors of a source, encoded as they are planned.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{CodeTables, Layout};
use qsf_runtime::LayerWeights;
use qsf_runtime::source::{Replaced, Tensor, WeightSource};

use super::cache::{NoCache, TensorCache, TensorRun};
use super::encoder::{BlockForm, Encoder, VALUES_PER_TASK};
use super::fit::{Fit, RowFits};
use super::outliers::OutlierSet;
use super::rows::EncodedRows;
use super::stored_tensor::{StoredTensor, TensorBlocks};
use super::token_order::TokenOrder;
use crate::error::{ConvertError, Result};
use crate::options::{ConvertOptions, SearchEffort};
use crate::plan::{PlannedTensor, StoredForm, TensorReport, TensorType, layout_of, next_larger};
use crate::quantize::Effort;
use crate::session::Session;

/// Values of a streamed tensor that are encoded before they are written.
pub(crate) const VALUES_PER_RUN: usize = 1 << 23;

/// Encodes the tensors of a source.
#[derive(Clone)]
pub(crate) struct TensorEncoder<'a> {
    pub source: &'a dyn WeightSource,
    /// Encodes the rows of each.
    pub rows: Encoder<'a>,
    /// Order of the blocks of every tensor that can have it.
    pub layout: Layout,
    /// Least cosine between a matrix and what is stored of it.
    pub min_cosine: Option<f64>,
    /// Whether types were chosen for a size, so that none may become larger.
    pub sized: bool,
    /// Which tokens rows of embedding and head are for, the most frequent first.
    pub token_order: TokenOrder,
}

impl<'a> TensorEncoder<'a> {
    /// Encodes with the choices of `options` and the tables that every file has at first. `session` counts weights.
    pub fn new(
        source: &'a dyn WeightSource,
        options: &ConvertOptions,
        session: &Session<'a>,
    ) -> TensorEncoder<'a> {
        TensorEncoder {
            source,
            rows: Encoder {
                isa: session.cpu.isa(),
                block: options.block,
                tables: Arc::new(CodeTables::default()),
                effort: match options.effort {
                    SearchEffort::Low => Effort::BRIEF,
                    SearchEffort::Normal => Effort::FULL,
                    SearchEffort::High | SearchEffort::Max => Effort::THOROUGH,
                },
                source: source.path(),
                progress: session.progress,
                cancel: session.cancel,
            },
            layout: options.layout,
            min_cosine: options.min_cosine,
            sized: options.size_limit.is_some(),
            token_order: TokenOrder::of(session.tokens, source.config().vocab as usize),
        }
    }

    /// Encodes faster and a little worse, for trial runs.
    pub fn quick(&self) -> TensorEncoder<'a> {
        let rows = Encoder { effort: self.rows.effort.at_most(Effort::QUICK), ..self.rows.clone() };
        TensorEncoder { rows, ..self.clone() }
    }

    /// Encodes still faster, for what is measured to be compared with nothing but itself.
    pub fn probing(&self) -> TensorEncoder<'a> {
        let rows = Encoder { effort: Effort::PROBE, ..self.rows.clone() };
        TensorEncoder { rows, ..self.clone() }
    }

    /// Encodes a tensor.
    ///
    /// # Errors
    /// When it holds what is no number, its scales leave f16, or the user interrupts.
    pub fn encode(&self, planned: &PlannedTensor, fits: &[Fit]) -> Result<StoredTensor> {
        self.encode_in_runs(planned, fits.into(), &NoCache)
    }

    /// Encodes a tensor so that it is as near to the original as was asked for: in a larger type where it must be. Where
    /// types were chosen for a size, it keeps its own, and is fitted to itself instead of to what it reads.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and when no type is near enough.
    pub fn encode_near(&self, planned: &PlannedTensor, fits: RowFits<'_>) -> Result<StoredTensor> {
        self.encode_near_with(planned, fits, &NoCache)
    }

    /// The tensor that `cache` has, or one that is [near enough](Self::encode_near), which it then keeps.
    ///
    /// # Errors
    /// As [`encode_near`](Self::encode_near), and when the cache cannot be read or written.
    pub fn encode_once(
        &self,
        planned: &PlannedTensor,
        fit: &Fit,
        cache: &dyn TensorCache,
    ) -> Result<StoredTensor> {
        let info = &planned.info;
        if let Some(known) = cache.tensor(info.id)? {
            self.rows.progress.advance((info.rows * info.cols) as u64);
            return Ok(known);
        }
        let stored = self.encode_near_with(planned, std::slice::from_ref(fit).into(), cache)?;
        cache.keep_tensor(&stored)?;
        Ok(stored)
    }

    /// A tensor in memory, as a reader of the file will have it.
    ///
    /// # Errors
    /// When it is from a journal and has not the bytes of its shape.
    pub fn as_read(&self, stored: &StoredTensor) -> Result<Tensor> {
        stored.tensor(self.rows.block, &self.rows.tables)
    }

    /// A layer of the source with the tensors that are `stored` in their place.
    ///
    /// # Errors
    /// When one of them does not fit into the layer.
    pub fn layer_with<'t>(
        &self,
        layer: u32,
        stored: impl Iterator<Item = &'t StoredTensor>,
    ) -> Result<LayerWeights> {
        let mut replaced = Replaced::new(self.source);
        for tensor in stored {
            replaced.replace(tensor.id, self.as_read(tensor)?)?;
        }
        Ok(LayerWeights::load(&replaced, layer)?)
    }

    /// The cosine that a tensor must reach: none for vectors, which are floats.
    pub(super) fn cosine_wanted(&self, planned: &PlannedTensor) -> Option<f64> {
        self.min_cosine.filter(|_| planned.info.id.kind.is_matrix())
    }

    /// The tensor in the type after that of `record`, which is not near enough.
    pub(super) fn larger(
        &self,
        planned: &PlannedTensor,
        record: &TensorReport,
        wanted: f64,
    ) -> Result<PlannedTensor> {
        let next =
            if self.sized { None } else { next_larger(record.quant, self.rows.block, planned.info.cols) };
        match next {
            Some(quant) => Ok(PlannedTensor { quant, ..planned.clone() }),
            None => Err(ConvertError::BelowCosine {
                id: planned.info.id,
                cosine: record.cosine_or_zero(),
                wanted,
            }),
        }
    }

    /// The blocks of a tensor that is planned as a type, in the order that it can have.
    pub(super) fn form(&self, planned: &PlannedTensor, tensor: &Tensor) -> Result<BlockForm> {
        let quant = self.rows.choose_type(&planned.info, tensor, planned.quant)?;
        let layout = layout_of(self.layout, self.source.config(), &planned.info, quant);
        Ok(BlockForm { quant, layout })
    }

    /// The weights of these rows that are stored apart, where some are to be.
    pub(super) fn outliers(
        &self,
        planned: &PlannedTensor,
        quant: TensorType,
        tensor: &Tensor,
        rows: Range<usize>,
        fit: &Fit,
    ) -> Result<Option<OutlierSet>> {
        let share = StoredForm { quant, ..planned.form() }.outliers_in(tensor.cols());
        if share.is_none() || !planned.info.id.kind.is_matrix() {
            return Ok(None);
        }
        let count = share.count(rows.len(), tensor.cols());
        Ok(Some(OutlierSet::choose(&self.rows, tensor, rows, count, fit)?.0))
    }

    fn encode_near_with(
        &self,
        planned: &PlannedTensor,
        fits: RowFits<'_>,
        cache: &dyn TensorCache,
    ) -> Result<StoredTensor> {
        let mut stored = self.encode_in_runs(planned, fits, cache)?;
        let Some(wanted) = self.cosine_wanted(planned) else { return Ok(stored) };
        if self.sized && stored.cosine_or_zero() < wanted {
            stored = self.encode_in_runs(planned, RowFits::Shares(&[Fit::default()]), cache)?;
        }
        while stored.cosine_or_zero() < wanted {
            let next = self.larger(planned, &stored.record, wanted)?;
            stored = self.encode_in_runs(&next, fits, cache)?;
            stored.record.promoted_from = Some(planned.quant);
        }
        Ok(stored)
    }

    /// Encodes a tensor; runs of rows that `cache` has are not encoded again.
    fn encode_in_runs(
        &self,
        planned: &PlannedTensor,
        fits: RowFits<'_>,
        cache: &dyn TensorCache,
    ) -> Result<StoredTensor> {
        let info = &planned.info;
        let tensor = self.source.load(info.id)?;
        if !planned.finer.is_none() {
            return self.encode_parts(planned, &tensor, fits);
        }
        let form = self.form(planned, &tensor)?;
        let encoded = match fits {
            RowFits::Shares(fits) => self.encode_shares(planned, &tensor, form, fits, cache)?,
            RowFits::Groups { fits, group_of } => {
                self.encode_groups(planned, &tensor, form, fits, group_of)?
            }
        };
        let record = record(planned, form.quant, &encoded);
        let (kind, rows, cols) = (info.id.kind, record.rows, record.cols);
        let EncodedRows { data, outliers, .. } = encoded;
        let encoded = TensorBlocks { kind, rows, cols, quant: form.quant, layout: form.layout, data };
        Ok(StoredTensor { id: info.id, encoded, outliers, split: None, record })
    }

    /// Encodes the shares of a tensor, one behind the other.
    fn encode_shares(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        form: BlockForm,
        fits: &[Fit],
        cache: &dyn TensorCache,
    ) -> Result<EncodedRows> {
        let info = &planned.info;
        let mut encoded = EncodedRows::default();
        let rows = tensor.rows() / fits.len();
        for (i, fit) in fits.iter().enumerate() {
            let rows = i * rows..(i + 1) * rows;
            let apart = self.outliers(planned, form.quant, tensor, rows.clone(), fit)?;
            let encode = |rows| self.rows.encode(info, tensor, rows, form, fit, apart.as_ref());
            if apart.is_some() || !cache.keeps() {
                encoded.append(encode(rows)?);
                continue;
            }
            for rows in row_runs(rows, tensor.cols(), values_per_kept_run()) {
                let run = TensorRun { info, form, block: self.rows.block, rows };
                encoded.append(self.run_once(&run, cache, encode)?);
            }
        }
        Ok(encoded)
    }

    /// The rows that `cache` has, or those that are encoded now, which it then keeps.
    fn run_once(
        &self,
        run: &TensorRun<'_>,
        cache: &dyn TensorCache,
        encode: impl FnOnce(Range<usize>) -> Result<EncodedRows>,
    ) -> Result<EncodedRows> {
        let rows = run.rows.clone();
        if rows.len() == run.info.rows {
            // The tensor is kept soon, as a whole.
            return encode(rows);
        }
        if let Some(known) = cache.rows(run)? {
            self.rows.progress.advance((rows.len() * run.info.cols) as u64);
            return Ok(known);
        }
        let encoded = encode(rows)?;
        cache.keep_rows(run, &encoded)?;
        Ok(encoded)
    }
}

/// Values that are encoded before they are kept: enough for all threads, and no more, as a kill may cost that much.
fn values_per_kept_run() -> usize {
    2 * VALUES_PER_TASK * rayon::current_num_threads()
}

/// Rows of a tensor, whole panels of about so many values at a time.
pub(super) fn row_runs(
    rows: Range<usize>,
    cols: usize,
    values: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let run = (values / cols.max(1)).max(1).next_multiple_of(PANEL_ROWS);
    rows.clone().step_by(run).map(move |first| first..rows.end.min(first + run))
}

/// What META says of a tensor that is encoded.
pub(super) fn record(planned: &PlannedTensor, quant: TensorType, encoded: &EncodedRows) -> TensorReport {
    let EncodedRows { stats, outliers, .. } = encoded;
    let outliers = outliers.len() as u64;
    let record = planned.record(quant, stats.cosine(), stats.relative_error(), stats.max_abs_error());
    TensorReport { outliers, ..record }
}
