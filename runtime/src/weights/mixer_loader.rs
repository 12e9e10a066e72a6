//! From the tensors of a layer to the weights of its mixer.

use qsf_cpu::SelectiveScan;
use qsf_format::{QkNorm, Recurrent, RecurrentMixer, TensorId, TensorKind};

use super::loader::Loader;
use super::mixer::{AttentionWeights, LatentWeights, Mixer, RecurrentWeights, Selection};
use super::{Linear, Norm};
use crate::error::{Result, RuntimeError};

impl Loader<'_> {
    pub(super) fn mixer(&self, i: u32) -> Result<Option<Mixer>> {
        let config = self.parts.config();
        let attention = || self.attention(i).map(Box::new);
        Ok(match (config.has_attention(i), config.recurrent(i)) {
            (true, None) => Some(Mixer::Attention(attention()?)),
            (false, Some(recurrent)) => Some(Mixer::Recurrent(Box::new(self.recurrent(i, recurrent)?))),
            (true, Some(recurrent)) => {
                Some(Mixer::Both(attention()?, Box::new(self.recurrent(i, recurrent)?)))
            }
            (false, None) => None,
        })
    }

    fn attention(&self, i: u32) -> Result<AttentionWeights> {
        use TensorKind::*;
        let config = self.parts.config();
        let used = |kind| self.is_used(i, kind);
        let ones = || Norm { gain: vec![1.0; config.query_dim(i)], bias: None };
        let plain = || (config.qk_norm == Some(QkNorm::RotatedHeadPlain)).then(ones);
        Ok(AttentionWeights {
            q: self.linear(i, AttnQ, AttnQBias)?,
            k: used(AttnK).then(|| self.linear(i, AttnK, AttnKBias)).transpose()?,
            v: used(AttnV).then(|| self.linear(i, AttnV, AttnVBias)).transpose()?,
            latent: used(AttnKvDown).then(|| self.latent(i, used(AttnQDown))).transpose()?,
            gate: used(AttnGate).then(|| self.matrix(i, AttnGate)).transpose()?,
            q_norm: plain().map_or_else(|| self.gain_only(used(QNorm), i, QNorm), |norm| Ok(Some(norm)))?,
            k_norm: plain().map_or_else(|| self.gain_only(used(KNorm), i, KNorm), |norm| Ok(Some(norm)))?,
            v_norm: config.value_norm.then(ones),
            sinks: used(AttnSinks)
                .then(|| self.tensor(TensorId::of_layer(i, AttnSinks)))
                .transpose()?
                .map(|sinks| sinks.to_f32()),
            sub_norm: self.gain_only(used(AttnSubNorm), i, AttnSubNorm)?,
            output: self.linear(i, AttnOutput, AttnOutputBias)?,
        })
    }

    fn latent(&self, i: u32, has_q_down: bool) -> Result<LatentWeights> {
        use TensorKind::*;
        let heads = self.parts.config().heads as usize;
        let by_head = |kind| -> Result<Vec<Linear>> {
            let all = self.matrix(i, kind)?.weight;
            let rows = all.rows() / heads;
            let cut = || RuntimeError::Request(format!("heads of layer {i} on the schedule"));
            let of_head = |head: usize| all.slice_rows(head * rows..(head + 1) * rows).ok_or_else(cut);
            (0..heads).map(|head| Ok(Linear::new(of_head(head)?, None))).collect()
        };
        Ok(LatentWeights {
            q_down: has_q_down.then(|| self.matrix(i, AttnQDown)).transpose()?,
            kv_down: self.matrix(i, AttnKvDown)?,
            k_up: by_head(AttnKUp)?,
            v_up: by_head(AttnVUp)?,
        })
    }

    fn selection(&self, i: u32, recurrent: &Recurrent) -> Result<Selection> {
        use TensorKind::*;
        let (select, step) = (self.matrix(i, MixerSelect)?, self.matrix(i, MixerStepUp)?);
        let gain = |kind| -> Result<Vec<f32>> { Ok(self.tensor(TensorId::of_layer(i, kind))?.to_f32()) };
        let norms = match recurrent.mixer {
            RecurrentMixer::Mamba1 { norm_gains: true, .. } => {
                Some([gain(MixerStepNorm)?, gain(MixerBNorm)?, gain(MixerCNorm)?])
            }
            RecurrentMixer::Mamba1 { state, rank, norm_epsilon: Some(_), .. } => {
                Some([rank, state, state].map(|width| vec![1.0; width as usize]))
            }
            _ => None,
        };
        Ok(Selection { select, norms, step })
    }

    fn recurrent(&self, i: u32, recurrent: &Recurrent) -> Result<RecurrentWeights> {
        use TensorKind::*;
        let matrix = |kind| self.is_used(i, kind).then(|| self.matrix(i, kind)).transpose();
        let vector = |kind| self.vector(TensorId::of_layer(i, kind));
        let values = |kind| -> Result<Vec<f32>> {
            match self.is_used(i, kind) {
                true => Ok(self.tensor(TensorId::of_layer(i, kind))?.to_f32()),
                false => Ok(Vec::new()),
            }
        };
        let (filters, taps) = (values(MixerConv)?, recurrent.taps as usize);
        let channels = filters.len() / taps;
        Ok(RecurrentWeights {
            input: self.linear(i, MixerIn, MixerInBias)?,
            gate: matrix(MixerGate)?,
            step: matrix(MixerStep)?,
            channels: match recurrent.channel_rank {
                Some(_) => Some([self.matrix(i, MixerGateDown)?, self.matrix(i, MixerStepUp)?]),
                None => None,
            },
            beta: matrix(MixerBeta)?,
            // Channels that follow one another are computed together.
            conv: (0..channels * taps).map(|i| filters[i % channels * taps + i / channels]).collect(),
            conv_bias: vector(MixerConvBias)?,
            decay: match recurrent.mixer {
                RecurrentMixer::Mamba1 { state, .. } => {
                    SelectiveScan::padded(&values(MixerDecay)?, state as usize)
                }
                _ => values(MixerDecay)?,
            },
            step_bias: values(MixerStepBias)?,
            skip: values(MixerSkip)?,
            norm: values(MixerNorm)?,
            selection: self.is_used(i, MixerSelect).then(|| self.selection(i, recurrent)).transpose()?,
            output: self.linear(i, MixerOutput, MixerOutputBias)?,
        })
    }
}
