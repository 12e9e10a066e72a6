//! The plan that does least damage among those whose file has at most so many bytes.

use std::collections::HashMap;

use qsf_format::{Provenance, TensorId, TensorKind};

use super::matrices::Surveyor;
use super::refine::Refinement;
use super::survey::survey;
use super::survey_size::SurveySize;
use super::types::{Offer, joined, unmeasured};
use crate::encode::TensorEncoder;
use crate::error::{ConvertError, Result};
use crate::fit::{OutputGradients, StatsFiles};
use crate::gguf::{header_bytes, more_headers_at_most, names_of};
use crate::hf::{bytes_beside_groups, bytes_described, names_of_groups};
use crate::options::{ConvertOptions, SearchEffort};
use crate::plan::{
    Candidate, Container, Plan, PlanError, PlannedTensor, SizeModel, StoredForm, experts_of, plan_for_size,
};
use crate::resume::Records;
use crate::sections::bytes_at_most;
use crate::session::Session;

/// A size that a file is to have at most.
pub(crate) struct SizeRequest<'a> {
    /// In bytes.
    pub limit: u64,
    /// The types that tensors have at first; only those that follow from the recipe change.
    pub plan: &'a Plan,
    pub options: &'a ConvertOptions,
    pub encoder: &'a TensorEncoder<'a>,
    /// What META will say of the source.
    pub provenance: Provenance,
    pub session: Session<'a>,
}

/// Types for a size.
pub(crate) struct ChosenPlan {
    pub plan: Plan,
    /// Sum of their damages.
    pub damage: f64,
    /// Divergence of the model's predictions without each layer.
    pub importance: Vec<f32>,
}

impl SizeRequest<'_> {
    /// Chooses types; what `records` has is not measured again.
    ///
    /// # Errors
    /// When the smallest types make too large a file, the model is damaged, or the user interrupts.
    pub fn choose(self, stats: &mut StatsFiles, records: &mut dyn Records) -> Result<ChosenPlan> {
        let SizeRequest { limit, options, encoder, session, .. } = self;
        let source = encoder.source;
        let plan = as_stored(encoder, self.plan)?;
        let container = options.container();
        let sections = match container {
            Container::Gguf => {
                // How many files there will be follows from the types.
                let more = more_headers_at_most(limit, source.tensors().len(), options.split_size);
                let evaluated = options.evaluation.is_some();
                vec![header_bytes(source, &plan, self.provenance, evaluated, None)?, more]
            }
            Container::Groups => {
                let beside = |hf| bytes_beside_groups(source, hf, &plan);
                vec![options.hf.map_or(Ok(0), beside)?]
            }
            Container::Qsf => bytes_at_most(source, &plan, self.provenance, options)?,
        };
        let described = match container {
            Container::Groups => bytes_described(source, options.hf.and_then(|hf| hf.groups))?,
            Container::Gguf | Container::Qsf => HashMap::new(),
        };
        let config = source.config();
        let size = SizeModel {
            config,
            block: options.block,
            layout: options.layout,
            sections: &sections,
            container,
            described: &described,
        };
        let free = |planned: &PlannedTensor| {
            let id = planned.info.id;
            let fixed = options.overrides.iter().any(|rule| rule.names(id));
            let of_recipe = match container {
                Container::Gguf => true,
                Container::Groups => !planned.quant.is_float(),
                Container::Qsf => planned.quant == options.recipe.assign(id),
            };
            !fixed && id.kind.is_matrix() && of_recipe && may_be_chosen(id)
        };
        // Said now, not after minutes of measuring.
        let for_tensors = match container {
            // The tokenizer can be most of a small directory.
            Container::Groups => limit.saturating_sub(sections.iter().sum()),
            Container::Gguf | Container::Qsf => limit,
        };
        let offer = Offer::of(options, for_tensors, &plan);
        plan_for_size(&plan, &unmeasured(&plan, free, &offer), limit, &size)?;
        let is_stack = |id: TensorId| experts_of(config, id).is_some();
        let low = options.effort == SearchEffort::Low;
        let squares = match low || plan.tensors().iter().any(|t| free(t) && is_stack(t.info.id)) {
            true => OutputGradients::squares(source, records, options.effort, &session)?,
            false => None,
        };
        // A probe changes some rows of some experts, of which few tokens of its text see anything.
        let squares = squares.map(|mut squares| {
            squares.outputs.retain(|id, _| low || is_stack(*id));
            squares
        });
        let quick = encoder.quick();
        let surveyor = Surveyor {
            encoder: &quick,
            plan: &plan,
            outliers: options.outliers,
            wanted: &free,
            size: SurveySize::of(options.effort),
            squares: squares.as_ref(),
            types: &|planned| offer.types(planned),
            // Clusters reorder the rows of a head in one type.
            finer: container == Container::Qsf && options.clusters.is_none() && !session.tokens.is_empty(),
            cpu: session.cpu,
        };
        let survey = survey(&surveyor, stats, records, &session)?;
        let candidates: Vec<Candidate> = survey
            .tensors
            .iter()
            .filter_map(|t| Some(Candidate { id: t.id()?, with: Vec::new(), options: t.options.clone() }))
            .collect();
        let candidates = match container {
            Container::Gguf => {
                let names = names_of(source)?;
                joined(candidates, |candidate| names.of_tensor(candidate.id).map(|name| name.name))
            }
            Container::Groups => {
                let names = names_of_groups(source, options.hf.and_then(|hf| hf.groups))?;
                joined(candidates, |candidate| names.get(&candidate.id).cloned())
            }
            Container::Qsf => candidates,
        };
        let (mut plan, damage) =
            plan_for_size(&plan, &candidates, limit, &size).map_err(|e| match (e, options.min_cosine) {
                // All types together were small enough.
                (PlanError::TooSmall { limit, least }, Some(wanted)) => {
                    ConvertError::CosineTooLarge { limit, least, wanted }
                }
                (e, _) => e.into(),
            })?;
        // What is one tensor in the file cannot change its type in parts.
        let separate = candidates.iter().all(|candidate| candidate.with.is_empty());
        if options.effort == SearchEffort::Max && separate {
            let refinement = Refinement {
                encoder,
                candidates: &candidates,
                limit,
                size,
                squares: squares.as_ref(),
                session,
            };
            plan = refinement.of(plan, stats, records)?;
        }
        Ok(ChosenPlan { plan, damage, importance: survey.importance })
    }
}

/// The plan with the types of those tensors that the planned ones have no range for: their bytes count.
fn as_stored(encoder: &TensorEncoder<'_>, planned: &Plan) -> Result<Plan> {
    let mut plan = planned.clone();
    for planned in planned.tensors() {
        let tensor = encoder.source.load(planned.info.id)?;
        let quant = encoder.rows.choose_type(&planned.info, &tensor, planned.quant)?;
        plan.set(planned.info.id, StoredForm { quant, ..planned.form() });
        drop(tensor);
        // Its values were looked at: without this the whole source would be in memory.
        encoder.source.release(planned.info.id.layer);
    }
    Ok(plan)
}

/// Whether the type of a tensor may follow from a size: routers, positions, embeddings of layers and what says how a recurrent
/// state decays keep the recipe's.
fn may_be_chosen(id: TensorId) -> bool {
    use TensorKind::*;
    // Embeddings of layers are larger than all else of a model, and are not measured.
    !matches!(id.kind, Router | RopeFactors | Positions | MixerStep | MixerBeta | PerLayerEmbedding)
}
