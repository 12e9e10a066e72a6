//! What each type of each matrix does to the model.
//!
//! The damage of tensor t in type b is taken as `a_t * e_t(b)`. e is the error of the tensor's outputs, `tr(E H E')`, from
//! really quantizing some of its rows; a is measured once: the divergence of the whole model's predictions when only that
//! tensor is in a probe type, over the error there. Sums of such damages
//! predict well what types together do (docs/quantization.md).

use qsf_calibration::{LayerStats, Probe};
use qsf_format::{QuantType, TensorId, TensorKind};
use qsf_runtime::LayerWeights;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{Replaced, Tensor};
use serde::{Deserialize, Serialize};

use super::expert_forms::{Stack, expert_forms};
use super::probed::{Probed, probed_rows, within_bounds};
use super::sample::{Sample, SampleError, spread_rows};
use super::survey_size::SurveySize;
use super::survey_work::SurveyWork;
use super::types::form_of;
use crate::encode::{ExpertInputs, Fit, TensorEncoder, expert_energies};
use crate::error::{ConvertError, Result};
use crate::fit::{Fits, Squares};
use crate::options::OutlierChoice;
use crate::plan::{OutlierShare, Plan, PlannedTensor, StoredForm, TensorType, experts_of};

/// The type in which a tensor's effect on the model is measured: damage well above rounding, of every tensor.
const PROBE: QuantType = QuantType::N2;
/// Divergence that is measured, for each unit of what gradients say: these know small errors only, and errors on the text that matrices
/// are fitted to (docs/measurements/gradients.md).
const OF_SQUARES: f64 = 1.6;
/// Types that outliers are measured with: from 5 bits on, a bit more costs less than what it takes to pay for them.
const WITH_OUTLIERS: [QuantType; 5] =
    [QuantType::X2, QuantType::X3, QuantType::N3, QuantType::X4, QuantType::N4];
/// Shares of the weights that may be stored apart.
const SHARES: [OutlierShare; 2] = [OutlierShare::millionths(1_000), OutlierShare::millionths(5_000)];
/// Part of the output error's energy that the larger share must have for outliers to be tried at all. Half a percent apart
/// costs 0.2 bits a weight, which as a finer type take a quarter of the error; of normally distributed weights it has 5 %.
const LEAST_ENERGY: f64 = 0.1;

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
    pub(super) fn new(id: TensorId, options: Vec<(StoredForm, f64)>) -> SurveyedTensor {
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
    /// How much of them.
    pub size: SurveySize,
    /// What gradients say, where they were measured.
    pub squares: Option<&'a Squares>,
    /// In which types.
    pub types: &'a dyn Fn(&PlannedTensor) -> Vec<TensorType>,
    /// Whether rows of embedding and head, and experts of a stack, may be in several types.
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
            let mut options = self.matrix(layer, planned, &fit, probe)?;
            let id = planned.info.id;
            if let Some(count) = experts_of(self.encoder.source.config(), id).filter(|_| self.finer) {
                let inputs = self.expert_inputs(id, fits.expert_inputs(id.kind, count));
                options.extend(self.experts(planned, &options, &inputs)?);
            }
            if !options.is_empty() {
                tensors.push(SurveyedTensor::new(planned.info.id, options));
            }
            work.done(self.work_of_matrix(work, layer, planned));
            drop(fit);
            fits.keep_for(wanted.clone().map(|planned| planned.info.id));
        }
        work.done(work.run_from(layer));
        Ok(SurveyedLayer { tensors, importance: Some(probe.divergence_without()?) })
    }

    /// The work that measuring the matrices of a layer, or embedding and head, is.
    pub(super) fn work_of(&self, work: &SurveyWork<'_>, layer: Option<u32>) -> u64 {
        let of = |planned: &PlannedTensor| match layer {
            Some(layer) => self.work_of_matrix(work, layer, planned),
            None => self.work_of_end(work, planned),
        };
        self.wanted_of(layer).map(of).sum::<u64>() + layer.map_or(0, |layer| work.run_from(layer))
    }

    /// What gradients say of a matrix; nothing where none were taken, or a damaged journal has none of any output.
    fn squares_of(&self, id: TensorId) -> Option<&[f32]> {
        self.squares?.outputs.get(&id).map(Vec::as_slice).filter(|squares| !squares.is_empty())
    }

    /// The inputs of experts, with shares by gradients where these were measured.
    fn expert_inputs(&self, id: TensorId, inputs: Vec<ExpertInputs>) -> Vec<ExpertInputs> {
        match self.squares.and_then(|squares| squares.experts.get(&id)) {
            Some(sums) if sums.len() == inputs.len() => {
                let with =
                    |(inputs, sum): (ExpertInputs, &f32)| ExpertInputs { share: (*sum).into(), ..inputs };
                inputs.into_iter().zip(sums).map(with).collect()
            }
            _ => inputs,
        }
    }

    /// How a stack may be stored with experts in several types; `uniform` is what types do to all of it.
    fn experts(
        &self,
        planned: &PlannedTensor,
        uniform: &[(StoredForm, f64)],
        inputs: &[ExpertInputs],
    ) -> Result<Vec<(StoredForm, f64)>> {
        let encoder = &self.encoder.rows;
        let tensor = self.encoder.source.load(planned.info.id)?;
        let energies = expert_energies(encoder, &tensor, inputs);
        let stack = Stack { rows: tensor.rows(), cols: tensor.cols(), block: encoder.block };
        Ok(expert_forms(uniform, &energies, stack))
    }

    fn work_of_matrix(&self, work: &SurveyWork<'_>, layer: u32, planned: &PlannedTensor) -> u64 {
        let probed = self.squares_of(planned.info.id).is_none();
        work.matrix(layer, planned, (self.types)(planned).len(), probed)
    }

    pub(super) fn wanted_of(&self, layer: Option<u32>) -> impl Iterator<Item = &PlannedTensor> + Clone {
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
        let tensor = encoder.source.load(id)?;
        let effect = match self.squares_of(id) {
            Some(squares) => Effect::Squares(squares),
            None => {
                let rows = spread_rows(tensor.rows(), probed_rows(tensor.rows(), tensor.cols()));
                let part = rows.len() as f64 / tensor.rows().max(1) as f64;
                let probed = Probed { encoder, cpu: self.cpu, planned, tensor: &tensor, fit, quant: PROBE };
                let measure =
                    |changed: &Replaced<'_>| Ok(probe.divergence(&LayerWeights::load(changed, layer)?)?);
                let Some(per_error) = probed.per_error(rows, measure)? else { return Ok(Vec::new()) };
                Effect::PerError(per_error / part)
            }
        };
        let rows = spread_rows(tensor.rows(), self.size.sample_rows);
        let sample = Sample::new(&encoder.rows, self.cpu, &tensor, fit, rows);
        let matrix = Matrix { surveyor: self, tensor: &tensor, sample, effect };
        let (mut options, mut best) = (Vec::new(), 0.0f64);
        for quant in (self.types)(planned) {
            // A type that the tensor would not be stored in has another size.
            if encoder.rows.choose_type(&planned.info, &tensor, quant)? == quant
                && let Some(error) = matrix.sample.error(form_of(planned, quant))?
            {
                best = best.max(error.cosine);
                if self.is_allowed(error.cosine) {
                    options.push((form_of(planned, quant), matrix.damage(&error)));
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
    pub(super) fn is_allowed(&self, cosine: f64) -> bool {
        self.encoder.min_cosine.is_none_or(|least| cosine >= least)
    }

    /// Where a cosine is asked for, the `best` of all types of a tensor must have it; 0: none was measured.
    pub(super) fn check_reached(&self, id: TensorId, best: f64) -> Result<()> {
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
    effect: Effect<'a>,
}

/// What errors of a matrix do to the model.
enum Effect<'a> {
    /// Divergence of its predictions for each unit of the mean error of an output.
    PerError(f64),
    /// By the mean squares of gradients at each output.
    Squares(&'a [f32]),
}

impl Matrix<'_> {
    fn damage(&self, error: &SampleError) -> f64 {
        within_bounds(match self.effect {
            Effect::PerError(per_error) => per_error * error.per_row(),
            Effect::Squares(squares) => OF_SQUARES * self.sample.divergence(error, squares),
        })
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
            Ok(found.map(|error| self.damage(&error)))
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
