//! Types that were chosen by a sum of damages, checked on the model as a whole (`--effort max`).
//!
//! A survey measures each tensor alone, in a model that is exact otherwise. Here the whole model is in its chosen types, and
//! each tensor in turn gets the next larger and the next smaller one: what that does to the divergence of the whole is what
//! counts. Types are chosen anew by these differences, as many changes at once as really make the divergence smaller.

use std::collections::HashMap;
use std::sync::Arc;

use qsf_calibration::{Probe, ProbeText, spread};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::LayerWeights;
use qsf_runtime::source::{Replaced, Tensor, WeightSource};
use serde::{Deserialize, Serialize};

use crate::choose::survey::{CHUNK, MOST_DAMAGE, SURVEY_CHUNKS};
use crate::encode::tensor::{Job, Tools};
use crate::error::Result;
use crate::fit::fits::{Fit, Fits};
use crate::fit::statistics::StatsFiles;
use crate::plan::{Candidate, Plan, PlannedTensor, SizeModel, StoredForm, plan_for_size};
use crate::resume::journal::Journal;

/// Times that all tensors are measured. The first round brings most.
const ROUNDS: usize = 2;
/// Choices that a round tries, each more reluctant to change anything than the one before.
const TRIALS: usize = 6;
/// Chunks of text that differences are measured on: small ones must not drown.
const CHUNKS: usize = 8;

/// A plan for a size, on its way to a better one of the same size.
pub(crate) struct Refinement<'a> {
    /// The tensors whose types may change.
    pub candidates: &'a [Candidate],
    /// Bytes that the file may have.
    pub limit: u64,
    /// What decides its size.
    pub size: SizeModel<'a>,
}

/// Forms of tensors, for the journal.
#[derive(Debug, Serialize, Deserialize)]
struct Types(Vec<StoredForm>);

impl Refinement<'_> {
    /// Changes the plan of `job` where that makes the model as a whole better; rounds that `journal` has are not repeated.
    pub(crate) fn run(
        &self,
        job: &mut Job<'_>,
        stats: &mut StatsFiles,
        journal: &mut Journal,
        tools: &Tools<'_>,
    ) -> Result<()> {
        for round in 0..ROUNDS {
            let name = format!("types after round {round}");
            let known = journal.get(&name)?.and_then(|json| serde_json::from_slice::<Types>(&json).ok());
            let plan = match known.filter(|types| types.0.len() == self.candidates.len()) {
                Some(types) => {
                    let mut plan = Plan::clone(&job.plan);
                    let ids = self.candidates.iter().map(|candidate| candidate.id);
                    ids.zip(types.0).for_each(|(id, form)| plan.set(id, form));
                    plan
                }
                None => self.round(job, stats, tools)?,
            };
            let types = self.candidates.iter().filter_map(|c| planned_form(&plan, c.id)).collect();
            let json = serde_json::to_vec(&Types(types)).expect("names of types are JSON");
            journal.put_new(&name, &json)?;
            if plan == *job.plan {
                break;
            }
            job.plan = Arc::new(plan);
        }
        Ok(())
    }

    /// The best plan of those tried.
    fn round(&self, job: &Job<'_>, stats: &mut StatsFiles, tools: &Tools<'_>) -> Result<Plan> {
        let variants = self.quantize(job, stats, tools)?;
        let ctx = CHUNK.min(tools.tokens.len());
        let tokens = spread(tools.tokens, ctx, CHUNKS);
        let text = ProbeText { tokens: &tokens, ctx, chunks: CHUNKS };
        let mut probe = Probe::new(job.source, tools.cpu, text, tools.cancel)?;
        let now = variants.divergence(&mut probe, &job.plan)?;
        let changes = self.measure(job, &variants, &mut probe, now, tools)?;
        let (mut best, mut least, mut reluctance) = (Plan::clone(&job.plan), now, 0.0);
        for _ in 0..TRIALS {
            let candidates: Vec<Candidate> = changes
                .iter()
                .map(|candidate| {
                    let current = planned_form(&job.plan, candidate.id);
                    let cost = |form| if Some(form) == current { 0.0 } else { reluctance };
                    let options = candidate.options.iter().map(|(form, d)| (*form, d + cost(*form)));
                    Candidate { id: candidate.id, options: options.collect() }
                })
                .collect();
            let (plan, _) = plan_for_size(&job.plan, &candidates, self.limit, &self.size)?;
            if plan == *job.plan {
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
    fn quantize<'s>(&self, job: &Job<'s>, stats: &mut StatsFiles, tools: &Tools<'_>) -> Result<Variants<'s>> {
        let tables = Arc::new(*job.encoder.tables);
        let mut variants = Variants { source: job.source, tensors: HashMap::new() };
        let heard = spread(tools.tokens, CHUNK.min(tools.tokens.len()), SURVEY_CHUNKS);
        let tied = job.source.config().tied_head;
        stats.for_each_layer(job.source, &Tools { tokens: &heard, ..*tools }, |stats| {
            let mut fits = Fits::of_stats(job.encoder.isa, &stats);
            let of_layer = job.plan.tensors().iter().filter(|planned| planned.info.id.layer == stats.layer);
            for planned in of_layer.filter(|planned| planned.info.id.kind.is_matrix()) {
                let id = planned.info.id;
                let multiplies = tied || id.kind != TensorKind::TokenEmbedding;
                let fits = if multiplies { fits.all(job, id)? } else { vec![Fit::default()] };
                for form in self.forms(planned) {
                    let StoredForm { quant, outliers } = form;
                    let stored = job.store(&PlannedTensor { quant, outliers, ..planned.clone() }, &fits)?;
                    variants.tensors.insert((id, form), stored.tensor(job.encoder.block, &tables)?);
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

    /// What each change of one tensor does to the divergence of the whole.
    fn measure(
        &self,
        job: &Job<'_>,
        variants: &Variants<'_>,
        probe: &mut Probe,
        now: f64,
        tools: &Tools<'_>,
    ) -> Result<Vec<Candidate>> {
        let mut measured = Vec::new();
        let mut model = variants.model(&job.plan)?;
        tools.progress.begin("choosing types", self.candidates.len() as u64);
        for layer in (0..job.source.config().layers).map(Some).chain([None]) {
            for candidate in self.candidates.iter().filter(|c| c.id.layer == layer) {
                let id = candidate.id;
                let Some(planned) = job.planned(id) else { continue };
                let mut options = Vec::new();
                for form in self.forms(planned) {
                    let difference = if form == planned.form() {
                        0.0
                    } else {
                        variants.put(&mut model, id, form)?;
                        match layer {
                            Some(layer) => probe.divergence(&LayerWeights::load(&model, layer)?)? - now,
                            None => probe.divergence_of_ends(&model)? - now,
                        }
                    };
                    options.push((form, if difference.is_nan() { MOST_DAMAGE } else { difference }));
                }
                variants.put(&mut model, id, planned.form())?;
                measured.push(Candidate { id, options });
                tools.progress.advance(1);
            }
            if layer.is_some() {
                probe.advance()?;
            }
        }
        tools.progress.end();
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
    fn divergence(&self, probe: &mut Probe, plan: &Plan) -> Result<f64> {
        let model = self.model(plan)?;
        let layers = (0..self.source.config().layers).map(|layer| LayerWeights::load(&model, layer));
        probe.restart(&model, layers.collect::<qsf_runtime::Result<_>>()?)?;
        Ok(probe.divergence_as_it_is()?)
    }
}

fn planned_form(plan: &Plan, id: TensorId) -> Option<StoredForm> {
    plan.tensors().iter().find(|planned| planned.info.id == id).map(PlannedTensor::form)
}

/// The mean size of a difference.
fn typical_change(changes: &[Candidate]) -> f64 {
    let sizes: Vec<f64> =
        changes.iter().flat_map(|c| &c.options).map(|(_, d)| d.abs()).filter(|d| *d > 0.0).collect();
    sizes.iter().sum::<f64>() / sizes.len().max(1) as f64
}
