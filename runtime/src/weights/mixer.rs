//! What brings the tokens of a layer together: attention, or a recurrence.

use super::{LayerWeights, Linear, Norm};

/// What brings the tokens of a layer together.
pub enum Mixer {
    /// Attention.
    Attention(Box<AttentionWeights>),
    /// A recurrence.
    Recurrent(Box<RecurrentWeights>),
    /// Both over the same input, added up.
    Both(Box<AttentionWeights>, Box<RecurrentWeights>),
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
    /// Norm of what the output projection reads.
    pub sub_norm: Option<Norm>,
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
    /// What gates are made of, and what makes steps of what `step` gives, where each channel has a decay.
    pub channels: Option<[Linear; 2]>,
    /// Rate of replacing of each head.
    pub beta: Option<Linear>,
    /// `taps` x `channels`, that of the oldest token first.
    pub conv: Vec<f32>,
    /// One value per channel.
    pub conv_bias: Option<Vec<f32>>,
    /// Rate of decay of each head, below 0; of Mamba-1 a row of rates for each channel, padded.
    pub decay: Vec<f32>,
    /// Added to the step of each head.
    pub step_bias: Vec<f32>,
    /// What passes by the state, for each head.
    pub skip: Vec<f32>,
    /// Gains of the norm of the output; none where it has no norm.
    pub norm: Vec<f32>,
    /// What steps and inputs of the state are made by, where that is done behind the convolution.
    pub selection: Option<Selection>,
    /// Output projection.
    pub output: Linear,
}

/// What a mixer of Mamba-1 makes of what its convolution gives.
pub struct Selection {
    /// Makes what steps are made of, and the two inputs that channels share.
    pub select: Linear,
    /// Gains of the norms of these three, where they are normalized.
    pub norms: Option<[Vec<f32>; 3]>,
    /// Makes steps.
    pub step: Linear,
}

impl LayerWeights {
    /// Attention, where the layer has it.
    pub fn attention(&self) -> Option<&AttentionWeights> {
        match &self.mixer {
            Some(Mixer::Attention(attention) | Mixer::Both(attention, _)) => Some(attention),
            Some(Mixer::Recurrent(_)) | None => None,
        }
    }

    /// A recurrence, where the layer has it.
    #[cfg(feature = "gpu")]
    pub(crate) fn recurrent(&self) -> Option<&RecurrentWeights> {
        match &self.mixer {
            Some(Mixer::Recurrent(recurrent) | Mixer::Both(_, recurrent)) => Some(recurrent),
            Some(Mixer::Attention(_)) | None => None,
        }
    }

    /// All matrices of the mixer.
    pub(super) fn mixer_linears(&self) -> impl Iterator<Item = &Linear> {
        self.mixer.iter().flat_map(Mixer::linears)
    }
}

impl Mixer {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let (attention, recurrent) = match self {
            Mixer::Attention(attention) => (Some(attention), None),
            Mixer::Recurrent(recurrent) => (None, Some(recurrent)),
            Mixer::Both(attention, recurrent) => (Some(attention), Some(recurrent)),
        };
        let of_attention = attention.into_iter().flat_map(|weights| weights.linears());
        of_attention.chain(recurrent.into_iter().flat_map(|weights| weights.linears()))
    }
}

impl AttentionWeights {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let AttentionWeights { q, k, v, latent, gate, output, .. } = self;
        let all = [Some(q), k.as_ref(), v.as_ref(), gate.as_ref(), Some(output)];
        all.into_iter().flatten().chain(latent.iter().flat_map(LatentWeights::linears))
    }
}

impl RecurrentWeights {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let RecurrentWeights { input, gate, step, channels, beta, selection, output, .. } = self;
        let selection = selection.iter().flat_map(|selection| [&selection.select, &selection.step]);
        let all = [Some(input), gate.as_ref(), step.as_ref(), beta.as_ref(), Some(output)];
        all.into_iter().flatten().chain(selection).chain(channels.iter().flatten())
    }
}

impl LatentWeights {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.q_down.iter().chain([&self.kv_down]).chain(&self.k_up).chain(&self.v_up)
    }
}
