//! Runs steps of a model on the graphics processor.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::ModelConfig;
use wgpu::{Buffer, CommandBuffer, SubmissionIndex};

use super::cache::CacheType;
use super::device::{Abilities, Gpu};
use super::dispatch::{CopyBack, Dispatcher};
use super::likeliest::{parse, words_back};
use super::model::GpuModel;
use super::probe::matrix_units_are_right;
use super::room::Room;
use super::state::GpuState;
use super::step::{Command, Recorder};
use super::times::Times;
use super::wgsl::choose;
use super::wgsl::likeliest::KEPT;
use crate::decoder::{Decoder, KvOptions};
use crate::error::{Result, RuntimeError};
use crate::progress::Cancel;
use crate::runner::{Runner, Sequence};
use crate::sample::Sampler;
use qsf_cpu::Cpu;

/// Workgroups in one dimension of a dispatch: WebGPU promises that many (section 3.6.2, `maxComputeWorkgroupsPerDimension`).
const MOST_ROWS_OF_GROUPS: usize = 65_535;

/// A pass that was recorded, and takes times if anybody asks for them.
struct Pass {
    commands: CommandBuffer,
    times: Option<Times>,
}

/// Runs a model on a graphics processor. Clones share what is there.
#[derive(Clone)]
pub struct GpuDecoder {
    dispatcher: Arc<Dispatcher>,
    model: Arc<GpuModel>,
    abilities: Abilities,
    /// Matrix units were tried, and compute something else than products.
    units_are_wrong: bool,
    cpu: Cpu,
    cancel: Cancel,
}

impl GpuDecoder {
    /// Takes the model of `decoder` up, which is not needed afterwards.
    ///
    /// # Errors
    /// When it does not fit into the device's memory, or is of a kind that does not run there.
    pub fn new(gpu: Gpu, decoder: &Decoder) -> Result<GpuDecoder> {
        let cpu = decoder.cpu().clone();
        decoder.model().settle(&cpu)?;
        let model = GpuModel::upload(&gpu, decoder.model(), cpu.isa(), decoder.slopes())?;
        let mut abilities = gpu.abilities();
        let dispatcher = Dispatcher::new(gpu, model.tables);
        // Near ties decide which experts a token goes through: inputs rounded to f16 choose others now and then, and the answer
        // is another one. Reading the experts, which no matrix units do here, takes far longer than what they would save.
        if model.config.experts.is_some() {
            abilities.square = None;
        }
        let units_are_wrong = match abilities.square {
            Some(square) => !matrix_units_are_right(&dispatcher, square)?,
            None => false,
        };
        if units_are_wrong {
            abilities.square = None;
        }
        dispatcher.gpu.check()?;
        let cancel = decoder.cancel().clone();
        let (dispatcher, model) = (Arc::new(dispatcher), Arc::new(model));
        Ok(GpuDecoder { dispatcher, model, abilities, units_are_wrong, cpu, cancel })
    }

    /// Ends with [`RuntimeError::Interrupted`] once `cancel` is requested.
    #[must_use]
    pub fn stop_on(self, cancel: &Cancel) -> GpuDecoder {
        GpuDecoder { cancel: cancel.clone(), ..self }
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.dispatcher.gpu
    }

    /// What the matrices take on the device.
    pub fn room(&self) -> Room {
        self.model.room
    }

    /// Records one pass and hands it over; with `back`, so many bytes of a buffer are copied to where they can be read.
    fn run(
        &self,
        state: &mut GpuState,
        record: impl FnOnce(&mut Recorder<'_>),
        back: Option<(&Arc<Buffer>, u64)>,
    ) -> SubmissionIndex {
        let pass = self.recorded(state, record, back);
        self.hand_over(state, pass)
    }

    /// Records one pass.
    fn recorded(
        &self,
        state: &GpuState,
        record: impl FnOnce(&mut Recorder<'_>),
        back: Option<(&Arc<Buffer>, u64)>,
    ) -> Pass {
        let commands = self.commands(state, record);
        let kernels = commands.iter().map(|command| command.kernel);
        let gpu = self.gpu();
        let times = if state.profile.is_on() { Times::new(gpu, kernels, back.is_some()) } else { None };
        let back = back.map(|(from, bytes)| CopyBack { from, to: &state.buffers.read_back, bytes });
        Pass { commands: self.dispatcher.encode(commands, &state.bound, times.as_ref(), back), times }
    }

    fn hand_over(&self, state: &mut GpuState, pass: Pass) -> SubmissionIndex {
        let Pass { commands, times } = pass;
        let steps = self.dispatcher.submit(commands);
        times.iter().for_each(|times| times.count(self.gpu(), steps.clone(), &mut state.profile));
        steps
    }

    /// Whether a step needs rows that the processor decodes, and so cannot begin before it knows the tokens.
    fn waits_for_tokens(&self) -> bool {
        self.model.per_layer.is_some() || self.model.embedding.on_host().is_some()
    }

    /// Decodes what the processor has of tokens, for the step that is handed over next.
    fn put_rows(&self, state: &GpuState, tokens: &[u32]) {
        let buffers = &state.buffers;
        let of_layers = self.model.per_layer.as_ref().map(|inputs| &inputs.embedding);
        for (rows, to) in
            [(self.model.embedding.on_host(), &buffers.hidden), (of_layers, &buffers.per_layer.rows)]
        {
            if let Some(rows) = rows {
                rows.put(self.gpu(), &self.cpu, tokens, state.position, to);
            }
        }
    }

    fn commands(&self, state: &GpuState, record: impl FnOnce(&mut Recorder<'_>)) -> Vec<Command> {
        let mut recorder =
            Recorder { abilities: self.abilities, model: &self.model, state, commands: Vec::new() };
        record(&mut recorder);
        recorder.commands
    }

    /// Makes the kernels of steps of one token and of as many as `state` has room for, so that the first step does not wait for
    /// one after the other.
    fn prepare(&self, state: &GpuState) {
        let batch = state.batch();
        let commands = self.commands(state, |recorder| {
            recorder.layers(1);
            recorder.layers(batch);
            recorder.head(0..1);
            recorder.choose();
            recorder.likeliest();
        });
        self.dispatcher.kernels.prepare(commands.into_iter().map(|command| command.kernel));
    }

    /// The token that `sampler` chooses of the likeliest, or of all where it cannot be sure.
    fn sample_of_likeliest(
        &self,
        state: &mut GpuState,
        row: usize,
        sampler: &mut Sampler,
        logits: &mut [f32],
    ) -> Result<u32> {
        let vocab = self.model.config.vocab as usize;
        let choose = |recorder: &mut Recorder<'_>| {
            recorder.head(row..row + 1);
            recorder.likeliest();
        };
        let mut words = vec![0; words_back(vocab)];
        let likeliest = state.buffers.likeliest.clone();
        let steps = self.run(state, choose, Some((&likeliest, 4 * words.len() as u64)));
        self.dispatcher.read(&state.buffers.read_back, steps, &mut words)?;
        if let Some(token) = sampler.sample_of_likeliest(&parse(&words, vocab))? {
            return Ok(token);
        }
        // They are still there.
        let all = state.buffers.logits.clone();
        let steps = self.run(state, |_| (), Some((&all, 4 * logits.len() as u64)));
        self.read_floats(state, steps, logits)?;
        sampler.sample(logits)
    }

    /// Waits for what was handed over last of `steps`, and reads floats of what was copied.
    fn read_floats(&self, state: &GpuState, steps: SubmissionIndex, out: &mut [f32]) -> Result<()> {
        let mut words = vec![0; out.len()];
        self.dispatcher.read(&state.buffers.read_back, steps, &mut words)?;
        out.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_bits(word));
        Ok(())
    }
}

impl Runner for GpuDecoder {
    type State = GpuState;

    fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    fn device(&self) -> String {
        let summary = self.gpu().summary();
        let wrong =
            if self.units_are_wrong { ", without its matrix units, which compute wrongly" } else { "" };
        format!("{} ({}){wrong}", summary.name, summary.backend)
    }

    /// Matrix units take f16, which prompts are multiplied on.
    fn activations(&self) -> &'static str {
        if self.abilities.square.is_some() { "f16" } else { "f32" }
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn state_with(&self, context: usize, batch: usize, kv: KvOptions) -> Result<GpuState> {
        let limit = self.model.config.max_positions as usize;
        if context > limit {
            return Err(RuntimeError::Request(format!(
                "a context of {context} tokens was asked for, and the model was made for {limit}"
            )));
        }
        if kv.keep.is_some() {
            return Err(RuntimeError::Request(
                "on a GPU keys and values of all positions are kept: leave out --kv-window and --kv-policy, or pass --device cpu"
                    .into(),
            ));
        }
        // Kernels have a workgroup, or a row of them, for each expert that a token chose.
        let choices = self.model.config.experts.as_ref().map_or(1, |experts| experts.used as usize);
        let batch = batch.min(MOST_ROWS_OF_GROUPS / choices).clamp(1, context.max(1));
        let cache_type = CacheType::of(kv.types)?;
        let state = GpuState::new(self.gpu(), &self.model, context, batch, cache_type)?;
        self.prepare(&state);
        self.gpu().check()?;
        Ok(state)
    }

    fn forward(&self, state: &mut GpuState, tokens: &[u32]) -> Result<()> {
        self.cancel.check()?;
        let vocab = self.model.config.vocab;
        if let Some(token) = tokens.iter().find(|token| **token >= vocab) {
            let problem = format!("token id {token} is beyond the model's vocabulary of {vocab}");
            return Err(RuntimeError::Request(problem));
        }
        let end = state.position + tokens.len();
        if tokens.is_empty() || tokens.len() > state.batch() || end > state.context() {
            return Err(RuntimeError::Request(format!(
                "{} tokens behind {} do not fit: at most {} in one step, {} in all",
                tokens.len(),
                state.position,
                state.batch(),
                state.context()
            )));
        }
        let ahead = state.ahead.take();
        if ahead.is_none() || ahead != tokens.first().copied() || tokens.len() > 1 {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            self.gpu().queue.write_buffer(&state.buffers.tokens, 0, &bytes);
            self.put_rows(state, tokens);
            self.run(state, |recorder| recorder.layers(tokens.len()), None);
        }
        state.recurrent.commit();
        state.rows = tokens.len();
        state.position = end;
        Ok(())
    }

    fn logits(&self, state: &mut GpuState, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let vocab = self.model.config.vocab as usize;
        assert!(rows.end <= state.rows && out.len() == rows.len() * vocab, "logits of {rows:?}");
        for (i, out) in out.chunks_mut(state.buffers.logit_rows * vocab).enumerate() {
            let first = rows.start + i * state.buffers.logit_rows;
            let part = first..first + out.len() / vocab;
            let logits = state.buffers.logits.clone();
            let back = Some((&logits, 4 * out.len() as u64));
            let steps = self.run(state, |recorder| recorder.head(part), back);
            self.read_floats(state, steps, out)?;
        }
        Ok(())
    }

    /// The likeliest token is chosen on the device, which goes on with it at once: the host learns of it meanwhile, or has the next step
    /// recorded and hands it over when it knows the token. For other samplers the likeliest tokens come back where these may be enough to choose one.
    fn sample(
        &self,
        state: &mut GpuState,
        row: usize,
        sampler: &mut Sampler,
        logits: &mut [f32],
    ) -> Result<u32> {
        if !sampler.is_greedy() {
            if !sampler.may_choose_of(KEPT) {
                self.logits(state, row..row + 1, logits)?;
                return sampler.sample(logits);
            }
            return self.sample_of_likeliest(state, row, sampler, logits);
        }
        self.cancel.check()?;
        let choose = |recorder: &mut Recorder<'_>| {
            recorder.head(row..row + 1);
            recorder.choose();
        };
        let tokens = state.buffers.tokens.clone();
        let steps = self.run(state, choose, Some((&tokens, 4)));
        let goes_on = state.position < state.context();
        let mut next = goes_on.then(|| self.recorded(state, |recorder| recorder.layers(1), None));
        if !self.waits_for_tokens() {
            next.take().map(|pass| self.hand_over(state, pass));
        }
        let mut token = [0];
        self.dispatcher.read(&state.buffers.read_back, steps, &mut token)?;
        if token == [choose::NONE] {
            let what = "no usable logit (all are NaN or negative infinity)".to_owned();
            return Err(RuntimeError::NotANumber { what });
        }
        if let Some(pass) = next {
            self.put_rows(state, &token);
            self.hand_over(state, pass);
        }
        state.ahead = goes_on.then_some(token[0]);
        Ok(token[0])
    }
}
