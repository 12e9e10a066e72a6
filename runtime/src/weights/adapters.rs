//! Adapters on the matrices of a model.

use super::{FeedForward, LayerWeights, Linear, Mixer, Mlp, Model};
use crate::error::Result;
use crate::linear::Narrow;
use crate::source::adapter::{Adapter, Update};
use qsf_format::{StoredAdapter, StoredUpdate, TensorId, TensorKind};

impl Model {
    /// Adds what adapters say, to whatever matrices have already. The matrices stay as they are stored. Beside
    /// weights in blocks, of a few bits, those of adapters are kept in 16.
    ///
    /// # Errors
    /// When one changes something that is not multiplied with tokens as a whole.
    pub fn adapt(&mut self, adapters: Vec<Adapter>) -> Result<()> {
        for mut adapter in adapters {
            for update in std::mem::take(&mut adapter.updates) {
                let (linear, narrow) = self.narrow(&adapter, &update)?;
                match &mut linear.low_rank {
                    Some(all) => all.join(&narrow),
                    none => *none = Some(Box::new(narrow)),
                }
            }
        }
        Ok(())
    }

    /// What a file says of `adapter`, with the values that [`Model::adapt`] would keep.
    ///
    /// # Errors
    /// As [`Model::adapt`].
    pub fn stored_adapter(&mut self, adapter: &Adapter) -> Result<StoredAdapter> {
        let stored = |update: &Update| {
            let (_, narrow) = self.narrow(adapter, update)?;
            Ok(narrow.stored(update.id, update.expert.map(|expert| expert as u32)))
        };
        let mut updates = adapter.updates.iter().map(stored).collect::<Result<Vec<_>>>()?;
        updates.sort_by_key(StoredUpdate::place);
        Ok(StoredAdapter { name: adapter.name.clone(), scale: adapter.scale, updates })
    }

    /// The matrix that `update` changes, and what is added to it.
    fn narrow(&mut self, adapter: &Adapter, update: &Update) -> Result<(&mut Linear, Narrow)> {
        let shape = update.low_rank.shape();
        let fits = |linear: &&mut Linear| shape == [linear.weight.rows(), linear.weight.cols()];
        let Some(linear) = self.linear_mut(update.id, update.expert).filter(fits) else {
            let supported = "it can be merged into the model: qsf-convert --merge-lora";
            return Err(adapter.not_applied(update, supported));
        };
        let narrow = Narrow::new(&update.low_rank, linear.weight.has_blocks());
        Ok((linear, narrow))
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
            (None, TensorKind::StreamProjection) => Some(&mut self.streams.as_mut()?.projection),
            (None, _) => None,
            (Some(layer), kind) => self.layers.get_mut(layer as usize)?.linear_mut(kind, expert),
        }
    }
}

impl LayerWeights {
    fn linear_mut(&mut self, kind: TensorKind, expert: Option<usize>) -> Option<&mut Linear> {
        use TensorKind::*;
        match kind {
            LaurelDown => return Some(&mut self.laurel.as_mut()?.down),
            LaurelUp => return Some(&mut self.laurel.as_mut()?.up),
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
            MixerGateDown => recurrent?.channels.as_mut().map(|[gate, _]| gate),
            MixerStepUp => {
                let recurrent = recurrent?;
                match &mut recurrent.channels {
                    Some([_, step]) => Some(step),
                    None => Some(&mut recurrent.selection.as_mut()?.step),
                }
            }
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
