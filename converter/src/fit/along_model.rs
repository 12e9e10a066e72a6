//! Quantizing along the model: each layer is fitted to what the layers before it, quantized already, leave it, and kept.

use std::collections::HashMap;

use qsf_calibration::{LayerQuantizer, Stage, Step};
use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::LayerWeights;

use super::fits::Fits;
use super::output_gradients::OutputGradients;
use crate::encode::{StoredTensor, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::plan::{Plan, PlannedTensor};
use crate::resume::{Journal, Records, from_bytes, to_bytes};

/// Quantizes the layers of a model, one after the other, into the journal.
pub(super) struct AlongModel<'a, 'e> {
    pub encoder: &'a TensorEncoder<'e>,
    pub plan: &'a Plan,
    /// What is done of layers, and where the streams stand.
    pub journal: &'a mut Journal,
    /// Gradients at what matrices give, where they were measured.
    pub outputs: Option<OutputGradients>,
    /// The tensors of the layer under way.
    pub done: HashMap<TensorId, StoredTensor>,
}

impl<'a> AlongModel<'a, '_> {
    /// The tensors of a layer, in file order.
    fn layer(&self, layer: u32) -> impl Iterator<Item = &'a PlannedTensor> + Clone + use<'a> {
        self.plan.tensors().iter().filter(move |t| t.info.id.layer == Some(layer))
    }

    /// Fits what reads the inputs of the step.
    fn fit(&mut self, layer: u32, step: Step) -> Result<()> {
        let (config, now) = (self.encoder.source.config(), step.stage);
        let now = |planned: &&PlannedTensor| {
            stage_of(config, planned.info.id.kind).is_none_or(|stage| now == Some(stage))
        };
        let planned: Vec<&PlannedTensor> =
            self.layer(layer).filter(now).filter(|t| !self.done.contains_key(&t.info.id)).collect();
        let outliers = planned.iter().any(|t| !t.outliers.is_none());
        let mut fits = Fits::of_step(self.encoder.rows.isa, step, outliers);
        let mut rest = &planned[..];
        while let Some((planned, after)) = rest.split_first() {
            rest = after;
            let id = planned.info.id;
            let mut all = fits.all(config, id)?;
            if let Some(outputs) = self.outputs.as_mut().filter(|_| !planned.quant.is_float()) {
                let of = outputs.of(self.encoder.rows.isa, id, self.journal)?;
                all.iter_mut().for_each(|fit| fit.outputs.clone_from(&of));
                if let Some(shares) = outputs.of_experts(id, self.journal)?.filter(|_| all.len() > 1) {
                    all.iter_mut().zip(shares).for_each(|(fit, share)| fit.share = share.into());
                }
            }
            let tensor = self.encoder.encode_near(planned, all.as_slice().into())?;
            self.done.insert(id, tensor);
            fits.keep_for(rest.iter().map(|planned| planned.info.id));
        }
        Ok(())
    }
}

impl LayerQuantizer for AlongModel<'_, '_> {
    type Error = ConvertError;

    fn restore(&mut self, streams: [&mut [f32]; 2]) -> Result<u32> {
        // It is written after the records of the layers before it; but files can be moved about.
        let wanted = |layer| (0..layer).all(|before| self.journal.has(&record_name(before)));
        Ok(self.journal.streams.restore(streams, wanted).unwrap_or(0))
    }

    fn keep(&mut self, layer: u32, streams: [&[f32]; 2]) -> Result<()> {
        self.journal.streams.keep(layer, streams)
    }

    fn finished(&mut self, layer: u32) -> Result<Option<LayerWeights>> {
        if !self.journal.has(&record_name(layer)) {
            return Ok(None);
        }
        let tensors = kept_layer(self.journal, layer)?;
        Ok(Some(self.encoder.layer_with(layer, tensors.iter())?))
    }

    fn quantize(&mut self, layer: u32, step: Step) -> Result<LayerWeights> {
        self.fit(layer, step)?;
        let weights = self.encoder.layer_with(layer, self.done.values())?;
        let of_layer = self.layer(layer);
        if of_layer.clone().all(|t| self.done.contains_key(&t.info.id)) {
            let tensors: Vec<StoredTensor> =
                of_layer.filter_map(|planned| self.done.remove(&planned.info.id)).collect();
            self.journal.put(&record_name(layer), &to_bytes(&tensors))?;
        }
        Ok(weights)
    }
}

/// The stage whose inputs matrices of a kind read; `None` for those that read none.
fn stage_of(config: &ModelConfig, kind: TensorKind) -> Option<Stage> {
    use TensorKind::*;
    Some(match kind {
        AttnQ if config.latent.is_some_and(|latent| latent.q_rank.is_some()) => Stage::AttnOutput,
        AttnQ | AttnK | AttnV | AttnQDown | AttnKvDown | AttnGate | LaurelDown => Stage::Attention,
        MixerGate if config.recurrent.as_ref().is_some_and(|recurrent| recurrent.channel_rank.is_some()) => {
            Stage::AttnOutput
        }
        MixerIn | MixerGateDown | MixerGate | MixerStep | MixerBeta => Stage::Attention,
        AttnKUp | AttnVUp | AttnOutput | LaurelUp | MixerOutput | MixerSelect | MixerStepUp => {
            Stage::AttnOutput
        }
        FfnGate | FfnUp | ExpertGate | ExpertUp | SharedGate | SharedUp => Stage::Ffn,
        FfnDown | ExpertDown | SharedDown | PerLayerGate | PerLayerUp => Stage::FfnDown,
        _ => return None,
    })
}

fn record_name(layer: u32) -> String {
    format!("layer {layer}")
}

/// The tensors of a layer that is quantized, in file order.
///
/// # Errors
/// When the journal cannot be read, or is damaged.
pub(super) fn kept_layer(journal: &mut Journal, layer: u32) -> Result<Vec<StoredTensor>> {
    kept(journal, &record_name(layer))
}

/// The tensors of a record.
///
/// # Errors
/// As [`kept_layer`].
pub(super) fn kept(journal: &mut Journal, name: &str) -> Result<Vec<StoredTensor>> {
    let tensors = journal.get(name)?.as_deref().and_then(from_bytes);
    tensors.ok_or_else(|| ConvertError::BrokenJournal { what: name.to_owned() })
}
