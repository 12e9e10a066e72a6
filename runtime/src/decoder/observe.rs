//! Looking at what matrices are multiplied with, for calibration, and at attention.

use std::ops::ControlFlow;

use qsf_cpu::{Attention, Cpu, KvLayer};

/// The distinct inputs of matrices in a decoder; query, key and value share one, gate and up another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinearInput {
    /// Of the query, key and value projections, or the input projections of a recurrent mixer.
    Attention,
    /// Of the query projection, where queries are made of latents.
    QueryLatent,
    /// Of the matrices that turn queries to latents, those of all heads: `tokens x heads` rows.
    KeyUp,
    /// Of the matrices that make values of latents, those of all heads: `tokens x heads` rows.
    ValueUp,
    /// Of the output projection of attention.
    AttnOutput,
    /// Of the output projection of a recurrent mixer.
    MixerOutput,
    /// Of what makes steps and inputs of the state of what the convolution of a recurrent mixer gives.
    MixerSelect,
    /// Of what makes steps at last.
    MixerStep,
    /// Of what makes gates of a recurrent mixer of a few values.
    MixerGate,
    /// Of the gate and up projections; with experts, of all tokens, and what the router reads.
    Ffn,
    /// Of the down projection; with experts, of the shared one.
    FfnDown,
    /// Of the gate and up projections of experts beside a feed-forward, of all tokens: not what that reads.
    Experts,
    /// Of the gate and up projections of an expert: what [`LinearInput::Experts`], or else [`LinearInput::Ffn`] is, of the tokens that
    /// go through it.
    ExpertFfn(u32),
    /// Of the down projection of an expert.
    ExpertDown(u32),
    /// Of the gate of what a layer gets of a token: the residual stream behind the feed-forward.
    PerLayerGate,
    /// Of what is made of it.
    PerLayerUp,
    /// Of the second matrix of what is added beside attention.
    LaurelUp,
    /// Of the head.
    Head,
}

/// Attention of some tokens that follow each other, behind the norms and the rotation.
pub struct AttentionLook<'a> {
    /// The layer.
    pub layer: usize,
    /// Of the first token.
    pub position: usize,
    /// Keys of the tokens: tokens x key/value heads x values of a key. Empty where the layer uses those of another.
    pub keys: &'a [f32],
    pub(super) cpu: &'a Cpu,
    pub(super) attention: Attention<'a>,
    pub(super) kv: &'a KvLayer,
    pub(super) q: &'a [f32],
}

impl AttentionLook<'_> {
    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        self.q.len() / (self.attention.heads * self.kv.head_dim())
    }

    /// What the tokens give to `positions` positions, heads x tokens x positions: 0 where they see nothing. Without sinks, the sum of
    /// a row is 1.
    ///
    /// # Panics
    /// When there are fewer positions than the last token sees, or `out` is of another size.
    pub fn weights(&self, positions: usize, out: &mut [f32]) {
        let AttentionLook { cpu, attention, kv, position, q, .. } = self;
        cpu.attention_weights(attention, kv, *position, q, positions, out);
    }
}

/// Receives inputs of the matrices of a layer, as floats, in the order of computation.
pub trait InputObserver {
    /// Attention was computed. Tokens that see from another position on than those before them come apart.
    fn attended(&mut self, _look: &AttentionLook<'_>) {}

    /// What a matrix makes of `input`, times `factor`, is going to be added to the residual stream `stream`, tokens x `hidden`. This comes
    /// before [`InputObserver::observe`] of that input; not where a norm stands between, or more is added at the same place.
    fn adds_to(&mut self, _input: LinearInput, _stream: &[f32], _factor: f32) {}

    /// `rows` holds one row of `cols` values for each token of the step, or for each that goes through the expert.
    ///
    /// Break says that nothing is wanted that is computed from this input: the layer ends here; at an input of an expert, the
    /// next expert follows.
    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()>;
}

/// Nobody looks.
pub(super) struct Unobserved;

impl InputObserver for Unobserved {
    fn observe(&mut self, _input: LinearInput, _cols: usize, _rows: &[f32]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
