//! Adapters on the matrices of a model.

use super::{FeedForward, LayerWeights, Linear, Mixer, Mlp, Model};
use crate::error::Result;
use crate::source::adapter::Adapter;
use qsf_format::{TensorId, TensorKind};

impl Model {
    /// Adds what adapters say, to whatever matrices have already. The matrices stay as they are stored.
    ///
    /// # Errors
    /// When one changes something that is not multiplied with tokens as a whole.
    pub fn adapt(&mut self, adapters: Vec<Adapter>) -> Result<()> {
        for mut adapter in adapters {
            for update in std::mem::take(&mut adapter.updates) {
                let fits = |linear: &&mut Linear| {
                    update.low_rank.shape() == [linear.weight.rows(), linear.weight.cols()]
                };
                let Some(linear) = self.linear_mut(update.id, update.expert).filter(fits) else {
                    let supported = "it can be merged into the model: qsf-convert --merge-lora";
                    return Err(adapter.not_applied(&update, supported));
                };
                match &mut linear.low_rank {
                    Some(all) => all.join(&update.low_rank),
                    none => *none = Some(Box::new(update.low_rank)),
                }
            }
        }
        Ok(())
    }

    /// Largest rank of what adapters add to a matrix; 0 without any.
    pub fn most_rank(&self) -> usize {
        let ranks = self.linears().filter_map(|linear| linear.low_rank.as_ref()).map(|update| update.rank());
        ranks.max().unwrap_or(0)
    }

    /// The matrix that is `id`, or that of one of its experts.
    fn linear_mut(&mut self, id: TensorId, expert: Option<usize>) -> Option<&mut Linear> {
        match (id.layer, id.kind) {
            (None, TensorKind::Head) => Some(&mut self.head),
            (None, TensorKind::PerLayerProjection) => Some(&mut self.per_layer.as_mut()?.projection),
            (None, _) => None,
            (Some(layer), kind) => self.layers.get_mut(layer as usize)?.linear_mut(kind, expert),
        }
    }
}

impl LayerWeights {
    fn linear_mut(&mut self, kind: TensorKind, expert: Option<usize>) -> Option<&mut Linear> {
        use TensorKind::*;
        match kind {
            PerLayerGate => return Some(&mut self.per_layer.as_mut()?.gate),
            PerLayerUp => return Some(&mut self.per_layer.as_mut()?.up),
            FfnGate | FfnUp | FfnDown | Router | SharedGate | SharedUp | SharedDown | SharedRouter
            | ExpertGate | ExpertUp | ExpertDown => return self.ffn.as_mut()?.linear_mut(kind, expert),
            _ => {}
        }
        let (attention, recurrent) = match self.mixer.as_mut()? {
            Mixer::Attention(attention) => (Some(attention), None),
            Mixer::Recurrent(recurrent) => (None, Some(recurrent)),
            Mixer::Both(attention, recurrent) => (Some(attention), Some(recurrent)),
        };
        match kind {
            AttnQ => Some(&mut attention?.q),
            AttnK => attention?.k.as_mut(),
            AttnV => attention?.v.as_mut(),
            AttnGate => attention?.gate.as_mut(),
            AttnOutput => Some(&mut attention?.output),
            AttnQDown => attention?.latent.as_mut()?.q_down.as_mut(),
            AttnKvDown => Some(&mut attention?.latent.as_mut()?.kv_down),
            MixerIn => Some(&mut recurrent?.input),
            MixerGate => recurrent?.gate.as_mut(),
            MixerStep => recurrent?.step.as_mut(),
            MixerBeta => recurrent?.beta.as_mut(),
            MixerSelect => Some(&mut recurrent?.selection.as_mut()?.select),
            MixerStepUp => Some(&mut recurrent?.selection.as_mut()?.step),
            MixerOutput => Some(&mut recurrent?.output),
            _ => None,
        }
    }
}

impl FeedForward {
    fn linear_mut(&mut self, kind: TensorKind, expert: Option<usize>) -> Option<&mut Linear> {
        use TensorKind::*;
        match (self, kind) {
            (FeedForward::Dense(mlp), FfnGate | FfnUp | FfnDown) => mlp.linear_mut(kind),
            (FeedForward::Experts(mixture), Router) => Some(&mut mixture.router),
            (FeedForward::Experts(mixture), SharedRouter) => mixture.shared.as_mut()?.router.as_mut(),
            (FeedForward::Experts(mixture), SharedGate | SharedUp | SharedDown)
            // What experts stand beside, where they do.
            | (FeedForward::Experts(mixture), FfnGate | FfnUp | FfnDown) => {
                mixture.shared.as_mut()?.mlp.linear_mut(kind)
            }
            (FeedForward::Experts(mixture), ExpertGate | ExpertUp | ExpertDown) => {
                mixture.experts.get_mut(expert?)?.linear_mut(kind)
            }
            _ => None,
        }
    }
}

impl Mlp {
    fn linear_mut(&mut self, kind: TensorKind) -> Option<&mut Linear> {
        use TensorKind::*;
        match kind {
            FfnGate | SharedGate | ExpertGate => self.gate.as_mut(),
            FfnUp | SharedUp | ExpertUp => Some(&mut self.up),
            FfnDown | SharedDown | ExpertDown => Some(&mut self.down),
            _ => None,
        }
    }
}
