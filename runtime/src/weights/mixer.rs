//! What brings the tokens of a layer together: attention, or a recurrence.

use qsf_format::{Recurrent, TensorId, TensorKind};

use super::loader::Loader;
use super::{Linear, Norm};
use crate::error::{Result, RuntimeError};

/// What brings the tokens of a layer together.
pub enum Mixer {
    /// Attention.
    Attention(Box<AttentionWeights>),
    /// A recurrence.
    Recurrent(Box<RecurrentWeights>),
}

/// The weights of attention. Norms are there as the configuration says.
pub struct AttentionWeights {
    /// Query projection.
    pub q: Linear,
    /// Key projection, where keys are made of what attention reads.
    pub k: Option<Linear>,
    /// Value projection, where values are.
    pub v: Option<Linear>,
    /// What keys and values are made of otherwise.
    pub latent: Option<LatentWeights>,
    /// Gate of what attention gives.
    pub gate: Option<Linear>,
    /// Norm of queries.
    pub q_norm: Option<Norm>,
    /// Norm of keys.
    pub k_norm: Option<Norm>,
    /// Norm of each head of values.
    pub v_norm: Option<Norm>,
    /// Scores without values, one per head.
    pub sinks: Option<Vec<f32>>,
    /// Output projection.
    pub output: Linear,
}

/// Matrices of attention by way of latents.
pub struct LatentWeights {
    /// Makes latents of queries; without, queries are made of what attention reads.
    pub q_down: Option<Linear>,
    /// Makes what heads share of a key, and behind it the latent of keys and values.
    pub kv_down: Linear,
    /// Of each head, turns the rest of its query to latents.
    pub k_up: Vec<Linear>,
    /// Of each head, makes a value of a latent.
    pub v_up: Vec<Linear>,
}

/// The weights of a recurrent mixer; of the optional ones those that its kind has.
pub struct RecurrentWeights {
    /// Input projection.
    pub input: Linear,
    /// Gate of the output.
    pub gate: Option<Linear>,
    /// Step of each head.
    pub step: Option<Linear>,
    /// Rate of replacing of each head.
    pub beta: Option<Linear>,
    /// `taps` x `channels`, that of the oldest token first.
    pub conv: Vec<f32>,
    /// One value per channel.
    pub conv_bias: Option<Vec<f32>>,
    /// Rate of decay of each head, below 0.
    pub decay: Vec<f32>,
    /// Added to the step of each head.
    pub step_bias: Vec<f32>,
    /// What passes by the state, for each head.
    pub skip: Vec<f32>,
    /// Gains of the norm of the output.
    pub norm: Vec<f32>,
    /// Output projection.
    pub output: Linear,
}

impl Mixer {
    /// Attention, where it is that.
    pub fn attention(&self) -> Option<&AttentionWeights> {
        match self {
            Mixer::Attention(attention) => Some(attention),
            Mixer::Recurrent(_) => None,
        }
    }

    /// All matrices.
    pub(crate) fn linears(&self) -> impl Iterator<Item = &Linear> {
        let (all, latent) = match self {
            Mixer::Attention(weights) => {
                let AttentionWeights { q, k, v, latent, gate, output, .. } = &**weights;
                ([Some(q), k.as_ref(), v.as_ref(), gate.as_ref(), Some(output)], latent.as_ref())
            }
            Mixer::Recurrent(weights) => {
                let RecurrentWeights { input, gate, step, beta, output, .. } = &**weights;
                ([Some(input), gate.as_ref(), step.as_ref(), beta.as_ref(), Some(output)], None)
            }
        };
        all.into_iter().flatten().chain(latent.into_iter().flat_map(LatentWeights::linears))
    }
}

impl LatentWeights {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.q_down.iter().chain([&self.kv_down]).chain(&self.k_up).chain(&self.v_up)
    }
}

impl Loader<'_> {
    pub(super) fn attention(&self, i: u32) -> Result<AttentionWeights> {
        use TensorKind::*;
        let config = self.parts.config();
        let used = |kind| self.is_used(i, kind);
        Ok(AttentionWeights {
            q: self.linear(i, AttnQ, AttnQBias)?,
            k: used(AttnK).then(|| self.linear(i, AttnK, AttnKBias)).transpose()?,
            v: used(AttnV).then(|| self.linear(i, AttnV, AttnVBias)).transpose()?,
            latent: used(AttnKvDown).then(|| self.latent(i, used(AttnQDown))).transpose()?,
            gate: used(AttnGate).then(|| self.matrix(i, AttnGate)).transpose()?,
            q_norm: self.gain_only(used(QNorm), i, QNorm)?,
            k_norm: self.gain_only(used(KNorm), i, KNorm)?,
            v_norm: config.value_norm.then(|| Norm { gain: vec![1.0; config.query_dim(i)], bias: None }),
            sinks: used(AttnSinks)
                .then(|| self.tensor(TensorId::of_layer(i, AttnSinks)))
                .transpose()?
                .map(|sinks| sinks.to_f32()),
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
            (0..heads).map(|head| Ok(Linear { weight: of_head(head)?, bias: None })).collect()
        };
        Ok(LatentWeights {
            q_down: has_q_down.then(|| self.matrix(i, AttnQDown)).transpose()?,
            kv_down: self.matrix(i, AttnKvDown)?,
            k_up: by_head(AttnKUp)?,
            v_up: by_head(AttnVUp)?,
        })
    }

    pub(super) fn recurrent(&self, i: u32, recurrent: &Recurrent) -> Result<RecurrentWeights> {
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
            beta: matrix(MixerBeta)?,
            // Channels that follow one another are computed together.
            conv: (0..channels * taps).map(|i| filters[i % channels * taps + i / channels]).collect(),
            conv_bias: vector(MixerConvBias)?,
            decay: values(MixerDecay)?,
            step_bias: values(MixerStepBias)?,
            skip: values(MixerSkip)?,
            norm: values(MixerNorm)?,
            output: self.linear(i, MixerOutput, MixerOutputBias)?,
        })
    }
}
