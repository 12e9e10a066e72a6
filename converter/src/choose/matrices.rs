//! What each type of each matrix does to the model.
//!
//! The damage of tensor t in type b is taken as `a_t * e_t(b)`. e is the error of the tensor's outputs, `tr(E H E')`, from
//! really quantizing some of its rows; a is measured once: the divergence of the whole model's predictions when only that
//! tensor is in a probe type, over the error there. Embedding and head are measured in every type. Sums of such damages
//! predict well what types together do (docs/quantization.md).

use qsf_calibration::{LayerStats, Probe};
use qsf_format::{QuantType, TensorId, TensorKind};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{Replaced, Tensor};
use serde::{Deserialize, Serialize};

use super::finer::finer_forms;
use super::sample::Sample;
use super::survey_work::SurveyWork;
use super::types::form_of;
use crate::encode::{Fit, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::fit::Fits;
use crate::options::OutlierChoice;
use crate::plan::{OutlierShare, Plan, PlannedTensor, StoredForm, TensorType};

/// The type in which a tensor's effect on the model is measured: damage well above rounding, of every tensor.
const PROBE: QuantType = QuantType::N2;
/// Types that outliers are measured with: from 5 bits on, a bit more costs less than what it takes to pay for them.
const WITH_OUTLIERS: [QuantType; 5] =
    [QuantType::X2, QuantType::X3, QuantType::N3, QuantType::X4, QuantType::N4];
/// Shares of the weights that may be stored apart.
const SHARES: [OutlierShare; 2] = [OutlierShare::millionths(1_000), OutlierShare::millionths(5_000)];
/// Part of the output error's energy that the larger share must have for outliers to be tried at all. Half a percent apart
/// costs 0.2 bits a weight, which as a finer type take a quarter of the error; of normally distributed weights it has 5 %.
const LEAST_ENERGY: f64 = 0.1;
/// Least damage of anything: that a measured divergence is below its noise does not make a tensor free.
const LEAST_DAMAGE: f64 = 1e-9;
/// Most damage of anything, and that of what makes predictions that are no numbers.
pub(super) const MOST_DAMAGE: f64 = 1e6;

/// One tensor in every type that it may get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SurveyedTensor {
    /// Name of its kind.
    kind: String,
    /// Layer, of those that are in one.
    layer: Option<u32>,
    /// Forms and damages.
    pub options: Vec<(StoredForm, f64)>,
}

impl SurveyedTensor {
    fn new(id: TensorId, options: Vec<(StoredForm, f64)>) -> SurveyedTensor {
        SurveyedTensor { kind: id.kind.name().into(), layer: id.layer, options }
    }

    /// Which tensor.
    pub fn id(&self) -> Option<TensorId> {
        let kind = TensorKind::ALL.iter().copied().find(|kind| kind.name() == self.kind)?;
        Some(TensorId { layer: self.layer, kind })
    }
}

/// What was measured of a layer, or of embedding and head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SurveyedLayer {
    pub tensors: Vec<SurveyedTensor>,
    /// Divergence of the model without this layer.
    pub importance: Option<f64>,
}

/// Measures the matrices of a model in some types.
pub(crate) struct Surveyor<'a> {
    pub encoder: &'a TensorEncoder<'a>,
    pub plan: &'a Plan,
    /// Which weights may be stored apart.
    pub outliers: OutlierChoice,
    /// Which matrices are measured.
    pub wanted: &'a dyn Fn(&PlannedTensor) -> bool,
    /// In which types.
    pub types: &'a dyn Fn(&PlannedTensor) -> Vec<TensorType>,
    /// Whether rows of embedding and head may be in several types.
    pub finer: bool,
    pub cpu: &'a Cpu,
}

impl Surveyor<'_> {
    /// The matrices of the layer that the probe stands at.
    pub(super) fn layer(
        &self,
        layer: u32,
        stats: LayerStats,
        probe: &mut Probe<'_>,
        work: &SurveyWork<'_>,
    ) -> Result<SurveyedLayer> {
        let mut fits = Fits::of_stats(self.encoder.rows.isa, stats);
        let mut tensors = Vec::new();
        let mut wanted = self.wanted_of(Some(layer));
        while let Some(planned) = wanted.next() {
            let fit = fits.of(planned.info.id, None)?;
            let options = self.matrix(layer, planned, &fit, probe)?;
            if !options.is_empty() {
                tensors.push(SurveyedTensor::new(planned.info.id, options));
            }
            work.done(work.matrix(layer, planned, (self.types)(planned).len()));
            drop(fit);
            fits.keep_for(wanted.clone().map(|planned| planned.info.id));
        }
        work.done(work.run_from(layer));
        Ok(SurveyedLayer { tensors, importance: Some(probe.divergence_without()?) })
    }

    /// Embedding and head. Every form costs a run of the model there, so outliers are those of the plan.
    pub(super) fn ends(
        &self,
        stats: &LayerStats,
        probe: &mut Probe<'_>,
        work: &SurveyWork<'_>,
    ) -> Result<SurveyedLayer> {
        let encoder = self.encoder;
        let mut fits = Fits::of_stats(encoder.rows.isa, stats.clone());
        let mut tensors = Vec::new();
        for planned in self.wanted_of(None) {
            let (id, is_fitted) = (planned.info.id, self.is_fitted(planned.info.id));
            let fit = if is_fitted { fits.of(id, None)? } else { Fit::default() };
            let (mut options, mut best) = (Vec::new(), 0.0f64);
            for form in self.forms_of_end(planned) {
                let stored = encoder.encode(&planned.stored_as(form), std::slice::from_ref(&fit))?;
                work.done(work.end(planned, is_fitted));
                best = best.max(stored.cosine_or_zero());
                if !stored.is_of(form) || !self.is_allowed(stored.cosine_or_zero()) {
                    continue;
                }
                let mut replaced = Replaced::new(encoder.source);
                replaced.replace(id, encoder.as_read(&stored)?)?;
                let divergence = match id.kind {
                    // What enters it is the same: no layer has to run again.
                    TensorKind::Head => probe.divergence_of_head(&replaced)?,
                    _ => probe.divergence_of_ends(&replaced)?,
                };
                options.push((form, within_bounds(divergence)));
            }
            if options.is_empty() {
                self.check_reached(id, best)?;
            } else {
                tensors.push(SurveyedTensor::new(id, options));
            }
        }
        Ok(SurveyedLayer { tensors, importance: None })
    }

    /// The work that measuring the matrices of a layer, or embedding and head, is.
    pub(super) fn work_of(&self, work: &SurveyWork<'_>, layer: Option<u32>) -> u64 {
        let of = |planned: &PlannedTensor| match layer {
            Some(layer) => work.matrix(layer, planned, (self.types)(planned).len()),
            None => {
                let forms = self.forms_of_end(planned).len() as u64;
                forms * work.end(planned, self.is_fitted(planned.info.id))
            }
        };
        self.wanted_of(layer).map(of).sum::<u64>() + layer.map_or(0, |layer| work.run_from(layer))
    }

    /// How embedding or head may be stored.
    fn forms_of_end(&self, planned: &PlannedTensor) -> Vec<StoredForm> {
        let types = (self.types)(planned);
        let form = |quant: &TensorType| match *quant == planned.quant {
            // Of a plan that is measured as it is.
            true => planned.form(),
            false => form_of(planned, *quant),
        };
        let mut forms: Vec<StoredForm> = types.iter().map(form).collect();
        if self.finer {
            forms.extend(finer_forms(planned, &types));
        }
        forms
    }

    /// Whether a matrix outside of layers multiplies something: an embedding that is not the head, too, does not.
    fn is_fitted(&self, id: TensorId) -> bool {
        id.kind != TensorKind::TokenEmbedding || self.encoder.source.config().tied_head
    }

    fn wanted_of(&self, layer: Option<u32>) -> impl Iterator<Item = &PlannedTensor> + Clone {
        self.plan.tensors().iter().filter(move |t| t.info.id.layer == layer && (self.wanted)(t))
    }

    /// A matrix of a layer in every form that it may get; nothing where the probe's scales leave f16: so do those of all
    /// types, and the tensor keeps what the plan has for it.
    fn matrix(
        &self,
        layer: u32,
        planned: &PlannedTensor,
        fit: &Fit,
        probe: &mut Probe<'_>,
    ) -> Result<Vec<(StoredForm, f64)>> {
        let (encoder, id) = (self.encoder, planned.info.id);
        let probed = encoder.encode(&as_probe(planned), std::slice::from_ref(fit))?;
        let divergence = probe.divergence(&encoder.layer_with(layer, std::iter::once(&probed))?)?;
        let tensor = encoder.source.load(id)?;
        let sample = Sample::new(&encoder.rows, self.cpu, &tensor, fit);
        let Some(probe_error) = sample.error(PROBE.into())? else { return Ok(Vec::new()) };
        let per_error = within_bounds(divergence) / probe_error.outputs.max(f64::MIN_POSITIVE);
        let matrix = Matrix { surveyor: self, tensor: &tensor, sample, per_error };
        let (mut options, mut best) = (Vec::new(), 0.0f64);
        for quant in (self.types)(planned) {
            // A type that the tensor would not be stored in has another size.
            if encoder.rows.choose_type(&planned.info, &tensor, quant)? == quant
                && let Some(error) = matrix.sample.error(form_of(planned, quant))?
            {
                best = best.max(error.cosine);
                if self.is_allowed(error.cosine) {
                    options.push((form_of(planned, quant), matrix.damage(error.outputs)));
                }
            }
        }
        if options.is_empty() {
            self.check_reached(id, best)?;
        }
        if self.outliers == OutlierChoice::Auto && matrix.may_gain()? {
            matrix.add_outliers(&mut options)?;
        }
        Ok(options)
    }

    /// Whether a matrix may be stored with this cosine.
    fn is_allowed(&self, cosine: f64) -> bool {
        self.encoder.min_cosine.is_none_or(|least| cosine >= least)
    }

    /// Where a cosine is asked for, the `best` of all types of a tensor must have it; 0: none was measured.
    fn check_reached(&self, id: TensorId, best: f64) -> Result<()> {
        match self.encoder.min_cosine.filter(|wanted| best > 0.0 && best < *wanted) {
            Some(wanted) => Err(ConvertError::BelowCosine { id, cosine: best, wanted }),
            None => Ok(()),
        }
    }
}

/// A matrix whose effect on the model is known.
struct Matrix<'a> {
    surveyor: &'a Surveyor<'a>,
    tensor: &'a Tensor,
    sample: Sample<'a>,
    /// Divergence of the model for each unit of error of its outputs.
    per_error: f64,
}

impl Matrix<'_> {
    fn damage(&self, outputs: f64) -> f64 {
        within_bounds(self.per_error * outputs)
    }

    /// Whether few enough weights of the sample have enough of its energy. Spares most matrices the quantizing.
    fn may_gain(&self) -> Result<bool> {
        let most = StoredForm { outliers: SHARES[SHARES.len() - 1], ..PROBE.into() };
        let found = self.sample.saliency(most.outliers_in(self.tensor.cols()))?;
        Ok(found.is_some_and(|saliency| saliency.chosen >= LEAST_ENERGY * saliency.all))
    }

    /// Adds the forms with outliers to the `options` of the matrix: all of them if the one that is tried first does less damage
    /// than a type of its size would, by the two types that it is between.
    fn add_outliers(&self, options: &mut Vec<(StoredForm, f64)>) -> Result<()> {
        let (block, tensor) = (self.surveyor.encoder.rows.block, self.tensor);
        let bytes =
            |form: StoredForm| form.bytes(block, tensor.rows(), tensor.cols()).unwrap_or(u64::MAX) as f64;
        let damage = |form: StoredForm| -> Result<Option<f64>> {
            let found = self.sample.error(form)?.filter(|error| self.surveyor.is_allowed(error.cosine));
            Ok(found.map(|error| self.damage(error.outputs)))
        };
        let known = |quant: QuantType| options.iter().find(|(form, _)| *form == quant.into()).copied();
        let (Some(below), Some(above)) = (known(QuantType::N3), known(QuantType::N4)) else { return Ok(()) };
        let trial = StoredForm { outliers: SHARES[SHARES.len() - 1], ..QuantType::N3.into() };
        let Some(tried) = damage(trial)? else { return Ok(()) };
        // Damage falls by about the same factor with each bit.
        let part = (bytes(trial) - bytes(below.0)) / (bytes(above.0) - bytes(below.0));
        if tried >= below.1 * (above.1 / below.1).powf(part) {
            return Ok(());
        }
        // Types that the tensor cannot be stored in are not among the options.
        let possible = WITH_OUTLIERS.into_iter().filter(|quant| known(*quant).is_some()).collect::<Vec<_>>();
        for quant in possible {
            for outliers in SHARES {
                let form = StoredForm { outliers, ..quant.into() };
                let found = if form == trial { Some(tried) } else { damage(form)? };
                options.extend(found.map(|damage| (form, damage)));
            }
        }
        Ok(())
    }
}

/// The tensor as it is probed.
fn as_probe(planned: &PlannedTensor) -> PlannedTensor {
    planned.stored_as(PROBE.into())
}

/// A damage that can be added up: not NaN, which `max` alone would make the least of all.
fn within_bounds(damage: f64) -> f64 {
    if damage.is_nan() { MOST_DAMAGE } else { damage.clamp(LEAST_DAMAGE, MOST_DAMAGE) }
}
