//! What runs a model: the processor, or a graphics processor. Generation, evaluation and measurements are written for both.

use std::ops::Range;

use qsf_format::ModelConfig;

use crate::decoder::{Decoder, DecoderState, KvOptions, LayerCount, MatrixTimes, Profile};
use crate::error::{Result, RuntimeError};
use crate::progress::Cancel;
use crate::sample::Sampler;
use qsf_cpu::Cpu;

/// Runs a model.
pub trait Runner: Sync {
    /// State of a sequence, or of several.
    type State: Sequence;

    /// The architecture.
    fn config(&self) -> &ModelConfig;

    /// What runs it, for reports: `cpu`, or the name of a graphics processor and how it is spoken to.
    fn device(&self) -> String;

    /// Type of the activations that matrices are multiplied with, for reports.
    fn activations(&self) -> &'static str;

    /// What computes beside it: sampling, losses.
    fn cpu(&self) -> &Cpu;

    /// The flag that stops it.
    fn cancel(&self) -> &Cancel;

    /// An empty state with room for `context` positions, of which at most `batch` come in one step, with keys and values kept
    /// as `kv` says.
    ///
    /// # Errors
    /// When the model was not made for so many positions, it cannot keep them so, or memory runs out.
    fn state_with(&self, context: usize, batch: usize, kv: KvOptions) -> Result<Self::State>;

    /// [`Runner::state_with`] of so many sequences, with room for `context` positions each, of which at most `batch` come in one step, all
    /// sequences together. [`Runner::forward_together`] runs them.
    ///
    /// # Errors
    /// As for [`Runner::state_with`], and when several sequences cannot be run at once.
    fn states(&self, sequences: usize, context: usize, batch: usize, kv: KvOptions) -> Result<Self::State> {
        if sequences > 1 {
            return Err(RuntimeError::Request(format!("{}: runs one sequence at a time", self.device())));
        }
        self.state_with(context, batch, kv)
    }

    /// [`Runner::forward`] of tokens of several sequences in one step: of each its number in `state`, and the tokens behind what it has
    /// seen. The rows of the step are these tokens in this order.
    ///
    /// # Errors
    /// As [`Runner::forward`], and when a sequence comes twice or is not there.
    fn forward_together(&self, state: &mut Self::State, parts: &[(usize, &[u32])]) -> Result<()> {
        match parts {
            [(0, tokens)] => self.forward(state, tokens),
            _ => Err(RuntimeError::Request(format!("{}: runs one sequence at a time", self.device()))),
        }
    }

    /// Runs `tokens` through the model, behind what `state` has seen; then [`Runner::logits`] of them can be had.
    ///
    /// # Errors
    /// When a token is beyond the vocabulary, the tokens exceed the state's batch or context, or the model cannot be run any
    /// longer: its file or its device is gone.
    fn forward(&self, state: &mut Self::State, tokens: &[u32]) -> Result<()>;

    /// [`Runner::forward`] of one token that was generated, which may leave the model early.
    ///
    /// # Errors
    /// As [`Runner::forward`].
    fn decode(&self, state: &mut Self::State, token: u32) -> Result<()> {
        self.forward(state, &[token])
    }

    /// Logits of rows `rows` of the last step, `rows.len()` x `vocab` into `out`.
    ///
    /// # Errors
    /// When the model cannot be run any longer.
    ///
    /// # Panics
    /// When the last step had fewer rows or `out` has another size.
    fn logits(&self, state: &mut Self::State, rows: Range<usize>, out: &mut [f32]) -> Result<()>;

    /// The token that `sampler` chooses behind row `row` of the last step, whose logits cannot be had afterwards. `logits` is room
    /// for those of one row.
    ///
    /// # Errors
    /// When the logits are not numbers, or the model cannot be run any longer.
    fn sample(
        &self,
        state: &mut Self::State,
        row: usize,
        sampler: &mut Sampler,
        logits: &mut [f32],
    ) -> Result<u32> {
        self.logits(state, row..row + 1, logits)?;
        sampler.sample(logits)
    }

    /// Whether no check of the model's file was left for the first answer.
    fn is_settled(&self) -> bool {
        true
    }

    /// Makes the checks of the model's file that were left for the first answer, if any.
    ///
    /// # Errors
    /// When the file is damaged.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Bytes of weights that are in large pages by now ([`HugePages`](crate::HugePages)).
    fn huge_page_bytes(&self) -> u64 {
        0
    }

    /// Whether [`Runner::decode`] may leave layers out, depending on the token.
    fn exits_early(&self) -> bool {
        false
    }
}

/// State of a sequence, or of several: keys and values, and the activations of one step.
pub trait Sequence {
    /// Positions seen so far.
    fn position(&self) -> usize;

    /// Positions that fit.
    fn context(&self) -> usize;

    /// Most tokens of one step.
    fn batch(&self) -> usize;

    /// Forgets all positions from `position` on.
    ///
    /// # Errors
    /// When what is seen from there has been let go. Position 0 can always be gone back to, and a position that is marked.
    fn rewind(&mut self, position: usize) -> Result<()>;

    /// [`Sequence::rewind`] of all sequences, where there are several.
    ///
    /// # Errors
    /// As for [`Sequence::rewind`].
    fn rewind_all(&mut self, position: usize) -> Result<()> {
        self.rewind(position)
    }

    /// Makes sure that the present position can be gone back to later, until another one is marked.
    ///
    /// # Errors
    /// When there is no memory for what must be kept for that.
    fn mark(&mut self) -> Result<()> {
        Ok(())
    }

    /// The last position up to `position` that can be gone back to.
    fn way_back(&self, position: usize) -> usize {
        position.min(self.position())
    }

    /// Layers that decoded tokens have gone through; none where that is not counted.
    fn decoded_layers(&self) -> LayerCount {
        LayerCount::default()
    }

    /// Where the time of the steps goes, where that can be measured.
    fn profile(&mut self) -> Option<&mut Profile> {
        None
    }

    /// What each product of matrices takes, where that can be measured.
    fn matrix_times(&mut self) -> Option<&mut MatrixTimes> {
        None
    }
}

impl Runner for Decoder {
    type State = DecoderState;

    fn config(&self) -> &ModelConfig {
        &self.model().config
    }

    fn device(&self) -> String {
        "cpu".into()
    }

    fn activations(&self) -> &'static str {
        self.activations().name()
    }

    fn cpu(&self) -> &Cpu {
        self.cpu()
    }

    fn cancel(&self) -> &Cancel {
        self.cancel()
    }

    fn state_with(&self, context: usize, batch: usize, kv: KvOptions) -> Result<DecoderState> {
        self.state_with(context, batch, kv)
    }

    fn states(&self, sequences: usize, context: usize, batch: usize, kv: KvOptions) -> Result<DecoderState> {
        self.states(sequences, context, batch, kv)
    }

    fn forward_together(&self, state: &mut DecoderState, parts: &[(usize, &[u32])]) -> Result<()> {
        self.forward_together(state, parts)
    }

    fn forward(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<()> {
        self.forward(state, tokens)
    }

    fn decode(&self, state: &mut DecoderState, token: u32) -> Result<()> {
        self.decode(state, token)
    }

    fn logits(&self, state: &mut DecoderState, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        self.logits(state, rows, out)
    }

    fn is_settled(&self) -> bool {
        self.model().is_settled()
    }

    fn settle(&self) -> Result<()> {
        self.model().settle(self.cpu())
    }

    fn huge_page_bytes(&self) -> u64 {
        self.model().huge_pages.bytes()
    }

    fn exits_early(&self) -> bool {
        self.exits_early()
    }
}

impl Sequence for DecoderState {
    fn position(&self) -> usize {
        self.position()
    }

    fn context(&self) -> usize {
        self.context()
    }

    fn batch(&self) -> usize {
        self.batch()
    }

    fn rewind(&mut self, position: usize) -> Result<()> {
        self.rewind(position)
    }

    fn rewind_all(&mut self, position: usize) -> Result<()> {
        self.sequences_mut().iter_mut().try_for_each(|cache| cache.truncate(position))
    }

    fn mark(&mut self) -> Result<()> {
        self.mark()
    }

    fn way_back(&self, position: usize) -> usize {
        self.way_back(position)
    }

    fn decoded_layers(&self) -> LayerCount {
        self.decoded_layers()
    }

    fn profile(&mut self) -> Option<&mut Profile> {
        Some(self.profile())
    }

    fn matrix_times(&mut self) -> Option<&mut MatrixTimes> {
        Some(self.matrix_times())
    }
}
