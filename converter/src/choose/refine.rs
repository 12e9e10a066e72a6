//! Types that were chosen by a sum of damages, checked on the model as a whole (`--effort max`).
//!
//! A survey measures each tensor alone, in a model that is exact otherwise. Here the whole model is in its chosen types, and
//! each tensor in turn gets the next larger and the next smaller one: what that does to the divergence of the whole is what
//! counts. Types are chosen anew by these differences, as many changes at once as really make the divergence smaller.

use std::collections::HashMap;

use qsf_calibration::Probe;
use qsf_format::{JsonLimits, TensorId, TensorKind, from_json};
use qsf_runtime::LayerWeights;
use qsf_runtime::source::{Replaced, Tensor, WeightSource};
use serde::{Deserialize, Serialize};

use super::probed::MOST_DAMAGE;
use super::survey_text::SurveyText;
use crate::encode::{Fit, TensorEncoder};
use crate::error::Result;
use crate::fit::{Fits, Squares, StatsFiles};
use crate::plan::{Candidate, Plan, PlannedTensor, SizeModel, StoredForm, plan_for_size};
use crate::resume::Records;
use crate::session::Session;

/// Times that all tensors are measured. The first round brings most.
const ROUNDS: usize = 2;
/// Choices that a round tries, each more reluctant to change anything than the one before.
const TRIALS: usize = 6;
/// Chunks of text that differences are measured on.
const CHUNKS: usize = 8;

/// A plan for a size, on its way to a better one of the same size.
pub(super) struct Refinement<'a> {
    pub encoder: &'a TensorEncoder<'a>,
    /// The tensors whose types may change.
    pub candidates: &'a [Candidate],
    /// Bytes that the file may have.
    pub limit: u64,
    /// What decides its size.
    pub size: SizeModel<'a>,
    /// What gradients say, where they were measured: which experts matter.
    pub squares: Option<&'a Squares>,
    pub session: Session<'a>,
}

/// Forms of tensors, for the journal.
#[derive(Debug, Serialize, Deserialize)]
struct Types(Vec<StoredForm>);

impl Refinement<'_> {
    /// `plan`, changed where that makes the model as a whole better; rounds that `records` has are not repeated.
    pub fn of(&self, mut plan: Plan, stats: &mut StatsFiles, records: &mut dyn Records) -> Result<Plan> {
        for round in 0..ROUNDS {
            let name = format!("types after round {round}");
            let known =
                records.get(&name)?.and_then(|json| from_json::<Types>(&json, JsonLimits::DESCRIPTION).ok());
            let next = match known.filter(|types| types.0.len() == self.candidates.len()) {
                Some(types) => {
                    let mut next = plan.clone();
                    let ids = self.candidates.iter().map(|candidate| candidate.id);
                    ids.zip(types.0).for_each(|(id, form)| next.set(id, form));
                    next
                }
                None => self.round(&plan, stats)?,
            };
            let types = self.candidates.iter().filter_map(|c| planned_form(&next, c.id)).collect();
            let json = serde_json::to_vec(&Types(types)).expect("names of types are JSON");
            records.put_new(&name, &json)?;
            if next == plan {
                break;
            }
            plan = next;
        }
        Ok(plan)
    }

    /// The best plan of those tried, `now` among them.
    fn round(&self, now: &Plan, stats: &mut StatsFiles) -> Result<Plan> {
        let Session { cpu, tokens, cancel, .. } = self.session;
        let text = SurveyText::of_model(tokens, CHUNKS);
        let variants = self.quantize(now, stats, &text.heard)?;
        let mut probe = Probe::new(self.encoder.source, cpu, text.measured(), cancel)?;
        let divergence = variants.divergence(&mut probe, now)?;
        let changes = self.measure(now, divergence, &variants, &mut probe)?;
        let (mut best, mut least, mut reluctance) = (now.clone(), divergence, 0.0);
        for _ in 0..TRIALS {
            let candidates: Vec<Candidate> = changes
                .iter()
                .map(|candidate| {
                    let current = planned_form(now, candidate.id);
                    let cost = |form| if Some(form) == current { 0.0 } else { reluctance };
                    let options = candidate.options.iter().map(|(form, d)| (*form, d + cost(*form)));
                    Candidate { id: candidate.id, with: Vec::new(), options: options.collect() }
                })
                .collect();
            let (plan, _) = plan_for_size(now, &candidates, self.limit, &self.size)?;
            if plan == *now {
                break;
            }
            let found = variants.divergence(&mut probe, &plan)?;
            if found < least {
                (best, least) = (plan.clone(), found);
            }
            reluctance = if reluctance == 0.0 { typical_change(&changes) } else { 2.0 * reluctance };
        }
        Ok(best)
    }

    /// Every matrix in its type, and candidates in the next larger and smaller one.
    fn quantize(&self, plan: &Plan, stats: &mut StatsFiles, heard: &[u32]) -> Result<Variants<'_>> {
        let (encoder, source) = (self.encoder, self.encoder.source);
        let mut variants = Variants { source, tensors: HashMap::new() };
        let tied = source.config().tied_head;
        stats.for_each_layer(source, &Session { tokens: heard, ..self.session }, |stats| {
            let layer = stats.layer;
            let of_layer = plan.tensors().iter().filter(|planned| planned.info.id.layer == layer);
            let mut fits = Fits::of_stats(encoder.rows.isa, stats);
            for planned in of_layer.filter(|planned| planned.info.id.kind.is_matrix()) {
                let id = planned.info.id;
                let multiplies = tied || id.kind != TensorKind::TokenEmbedding;
                let mut fits = if multiplies { fits.all(source.config(), id)? } else { vec![Fit::default()] };
                let shares = self.squares.and_then(|squares| squares.experts.get(&id));
                let of_experts = fits.iter_mut().zip(shares.into_iter().flatten());
                of_experts.for_each(|(fit, share)| fit.share = (*share).into());
                for form in self.forms(planned) {
                    let stored = encoder.encode(&planned.stored_as(form), &fits)?;
                    variants.tensors.insert((id, form), encoder.as_read(&stored)?);
                }
            }
            Ok(())
        })?;
        Ok(variants)
    }

    /// The form of a tensor first; of a candidate then those next to it in size.
    fn forms(&self, planned: &PlannedTensor) -> Vec<StoredForm> {
        let bytes = |form: StoredForm| form.bytes(self.size.block, planned.info.rows, planned.info.cols);
        let now = bytes(planned.form());
        let candidate = self.candidates.iter().find(|candidate| candidate.id == planned.info.id);
        let others = candidate.map_or(&[][..], |c| &c.options).iter().map(|(form, _)| *form);
        let larger = others.clone().filter(|form| bytes(*form) > now).min_by_key(|form| bytes(*form));
        let smaller = others.filter(|form| bytes(*form) < now).max_by_key(|form| bytes(*form));
        [Some(planned.form()), larger, smaller].into_iter().flatten().collect()
    }

    /// What each change of one tensor of the plan `now` does to the `divergence` of the whole.
    fn measure(
        &self,
        now: &Plan,
        divergence: f64,
        variants: &Variants<'_>,
        probe: &mut Probe<'_>,
    ) -> Result<Vec<Candidate>> {
        let (layers, progress) = (self.encoder.source.config().layers, self.session.progress);
        let mut measured = Vec::new();
        let mut model = variants.model(now)?;
        progress.begin("checking the choice", self.candidates.len() as u64);
        for layer in (0..layers).map(Some).chain([None]) {
            for candidate in self.candidates.iter().filter(|c| c.id.layer == layer) {
                let id = candidate.id;
                let Some(planned) = now.tensor(id) else { continue };
                let mut options = Vec::new();
                for form in self.forms(planned) {
                    let difference = if form == planned.form() {
                        0.0
                    } else {
                        variants.put(&mut model, id, form)?;
                        match layer {
                            Some(layer) => {
                                probe.divergence(&LayerWeights::load(&model, layer)?)? - divergence
                            }
                            None => probe.divergence_of_ends(&model)? - divergence,
                        }
                    };
                    options.push((form, if difference.is_nan() { MOST_DAMAGE } else { difference }));
                }
                variants.put(&mut model, id, planned.form())?;
                measured.push(Candidate { id, with: Vec::new(), options });
                progress.advance(1);
            }
            if layer.is_some() {
                probe.advance()?;
            }
        }
        progress.end();
        Ok(measured)
    }
}

/// Matrices in all forms that are tried.
struct Variants<'s> {
    source: &'s dyn WeightSource,
    tensors: HashMap<(TensorId, StoredForm), Tensor>,
}

impl<'s> Variants<'s> {
    /// The model in the forms of `plan`.
    fn model(&self, plan: &Plan) -> Result<Replaced<'s>> {
        let mut model = Replaced::new(self.source);
        for planned in plan.tensors() {
            self.put(&mut model, planned.info.id, planned.form())?;
        }
        Ok(model)
    }

    /// Puts a matrix into a model; nothing where it was not quantized as that.
    fn put(&self, model: &mut Replaced<'_>, id: TensorId, form: StoredForm) -> Result<()> {
        if let Some(tensor) = self.tensors.get(&(id, form)) {
            model.replace(id, tensor.clone())?;
        }
        Ok(())
    }

    /// Divergence of the model in the types of `plan`, which the probe then stands at the first layer of.
    fn divergence(&self, probe: &mut Probe<'_>, plan: &Plan) -> Result<f64> {
        let model = self.model(plan)?;
        let layers = (0..self.source.config().layers).map(|layer| LayerWeights::load(&model, layer));
        probe.restart(&model, layers.collect::<qsf_runtime::Result<_>>()?)?;
        Ok(probe.divergence_as_it_is()?)
    }
}

fn planned_form(plan: &Plan, id: TensorId) -> Option<StoredForm> {
    plan.tensor(id).map(PlannedTensor::form)
}

/// The mean size of a difference.
fn typical_change(changes: &[Candidate]) -> f64 {
    let sizes: Vec<f64> =
        changes.iter().flat_map(|c| &c.options).map(|(_, d)| d.abs()).filter(|d| *d > 0.0).collect();
    sizes.iter().sum::<f64>() / sizes.len().max(1) as f64
}
