//! What brings the tokens of a layer together: attention, or a recurrence.

use qsf_format::{Recurrent, TensorId, TensorKind};

use super::{Linear, Loader, Norm};
use crate::error::Result;

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
    /// Key projection.
    pub k: Linear,
    /// Value projection.
    pub v: Linear,
    /// Gate of what attention gives.
    pub gate: Option<Linear>,
    /// Norm of queries.
    pub q_norm: Option<Norm>,
    /// Norm of keys.
    pub k_norm: Option<Norm>,
    /// Output projection.
    pub output: Linear,
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
        let all = match self {
            Mixer::Attention(weights) => {
                let AttentionWeights { q, k, v, gate, output, .. } = &**weights;
                [Some(q), Some(k), Some(v), gate.as_ref(), Some(output)]
            }
            Mixer::Recurrent(weights) => {
                let RecurrentWeights { input, gate, step, beta, output, .. } = &**weights;
                [Some(input), gate.as_ref(), step.as_ref(), beta.as_ref(), Some(output)]
            }
        };
        all.into_iter().flatten()
    }
}

impl Loader<'_> {
    pub(super) fn attention(&self, i: u32) -> Result<AttentionWeights> {
        use TensorKind::*;
        let used = |kind| self.is_used(i, kind);
        Ok(AttentionWeights {
            q: self.linear(i, AttnQ, AttnQBias)?,
            k: self.linear(i, AttnK, AttnKBias)?,
            v: self.linear(i, AttnV, AttnVBias)?,
            gate: used(AttnGate).then(|| self.matrix(i, AttnGate)).transpose()?,
            q_norm: self.gain_only(used(QNorm), i, QNorm)?,
            k_norm: self.gain_only(used(KNorm), i, KNorm)?,
            output: self.linear(i, AttnOutput, AttnOutputBias)?,
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
