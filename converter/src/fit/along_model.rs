//! Quantizing along the model: each layer is fitted to what the layers before it, quantized already, leave it.

use std::collections::HashMap;
use std::sync::Arc;

use qsf_calibration::{LayerQuantizer, Stage, Step};
use qsf_format::{CodeTables, TensorId, TensorKind};
use qsf_runtime::LayerWeights;
use qsf_runtime::source::Replaced;

use crate::encode::stored_tensor::{self as stored, StoredTensor};
use crate::encode::tensor::Job;
use crate::error::{ConvertError, Result};
use crate::fit::fits::Fits;
use crate::resume::journal::Journal;

/// Quantizes the layers of a job and writes them.
pub(crate) struct Sequential<'a, 'j> {
    job: &'a mut Job<'j>,
    journal: &'a mut Journal,
    tables: Arc<CodeTables>,
    /// How much each layer matters, where that was measured.
    importance: &'a [f32],
    /// The tensors of the layer under way.
    done: HashMap<TensorId, StoredTensor>,
}

impl<'a, 'j> Sequential<'a, 'j> {
    pub fn new(
        job: &'a mut Job<'j>,
        journal: &'a mut Journal,
        tables: Arc<CodeTables>,
        importance: &'a [f32],
    ) -> Sequential<'a, 'j> {
        Sequential { job, journal, tables, importance, done: HashMap::new() }
    }

    /// The layer with the tensors that are done.
    fn weights<'t>(&self, layer: u32, done: impl Iterator<Item = &'t StoredTensor>) -> Result<LayerWeights> {
        let mut replaced = Replaced::new(self.job.source);
        for tensor in done {
            replaced.replace(tensor.id, tensor.tensor(self.job.encoder.block, &self.tables)?)?;
        }
        Ok(LayerWeights::load(&replaced, layer)?)
    }

    /// Fits what reads the inputs of the step.
    fn fit(&mut self, layer: u32, step: &Step) -> Result<()> {
        let mut fits = Fits::of_step(self.job.encoder.isa, step);
        let plan = self.job.plan.clone();
        for planned in plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer)) {
            let id = planned.info.id;
            let stage = stage_of(id.kind);
            if !stage.is_none_or(|stage| step.stages.contains(&stage)) || self.done.contains_key(&id) {
                continue;
            }
            let parts = fits.all(self.job, id)?;
            let tensor = self.job.store_well(planned, &parts, None)?;
            self.done.insert(id, tensor);
        }
        Ok(())
    }

    /// Writes a layer whose tensors are all there.
    fn write(&mut self, layer: u32, tensors: Vec<StoredTensor>) -> Result<()> {
        let importance = self.importance.get(layer as usize).copied();
        self.job.write_stored_layer(tensors, importance)
    }
}

impl LayerQuantizer for Sequential<'_, '_> {
    type Error = ConvertError;

    fn restore(&mut self, streams: [&mut [f32]; 2]) -> Result<u32> {
        // It is written after the records of the layers before it; but files can be moved about.
        let wanted = |layer| (0..layer).all(|before| self.journal.has(&record_name(before)));
        Ok(self.journal.checkpoint.restore(streams, wanted).unwrap_or(0))
    }

    fn keep(&mut self, layer: u32, streams: [&[f32]; 2]) -> Result<()> {
        self.journal.checkpoint.keep(layer, streams)
    }

    fn finished(&mut self, layer: u32) -> Result<Option<LayerWeights>> {
        let Some(bytes) = self.journal.get(&record_name(layer))? else { return Ok(None) };
        let tensors = stored::from_bytes(&bytes).ok_or_else(|| broken(layer))?;
        let weights = self.weights(layer, tensors.iter())?;
        self.write(layer, tensors)?;
        Ok(Some(weights))
    }

    fn quantize(&mut self, layer: u32, step: Step) -> Result<LayerWeights> {
        self.fit(layer, &step)?;
        drop(step);
        let weights = self.weights(layer, self.done.values())?;
        let plan = self.job.plan.clone();
        let of_layer = plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer));
        if of_layer.clone().all(|t| self.done.contains_key(&t.info.id)) {
            let tensors: Vec<StoredTensor> =
                of_layer.filter_map(|planned| self.done.remove(&planned.info.id)).collect();
            self.journal.put(&record_name(layer), &stored::to_bytes(&tensors))?;
            self.write(layer, tensors)?;
        }
        Ok(weights)
    }
}

/// The stage whose inputs matrices of a kind read; `None` for those that read none.
fn stage_of(kind: TensorKind) -> Option<Stage> {
    use TensorKind::*;
    Some(match kind {
        AttnQ | AttnK | AttnV => Stage::Attention,
        AttnOutput => Stage::AttnOutput,
        FfnGate | FfnUp | ExpertGate | ExpertUp => Stage::Ffn,
        FfnDown | ExpertDown => Stage::FfnDown,
        _ => return None,
    })
}

fn record_name(layer: u32) -> String {
    format!("layer {layer}")
}

fn broken(layer: u32) -> ConvertError {
    ConvertError::BrokenJournal { what: record_name(layer) }
}
