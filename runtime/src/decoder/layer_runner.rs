//! One layer at a time, over hidden states that the caller keeps, with weights that the caller gives: for calibration, which
//! runs all of its text through a layer before it looks at the next. What a layer computes has the same bits as in
//! [`Decoder::forward`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use qsf_format::ModelConfig;

use super::kv_cache::CacheLayers;
use super::{Activations, Decoder, DecoderState, InputObserver, KvOptions, PROMPT_BATCH};
use crate::error::{Result, RuntimeError};
use crate::source::WeightSource;
use crate::weights::{LayerWeights, Model};
use qsf_cpu::Cpu;

/// Runs single layers at full precision over chunks of tokens, each from an empty context. In memory are the embedding, the
/// head, and keys and values of one layer for one chunk.
pub struct LayerRunner {
    decoder: Decoder,
    state: DecoderState,
    /// The chunk that the next layers are run over, and its tokens, where layers need them.
    chosen: Option<(usize, Vec<u32>)>,
    /// Keys and values of a chunk that later layers use, by chunk and layer.
    kept: HashMap<(usize, u32), [Vec<f32>; 2]>,
    /// All streams of the chunk that was embedded last, where there are several.
    packed: Vec<f32>,
}

impl LayerRunner {
    /// A runner with embedding, positions, final norm and head of `source`.
    ///
    /// # Errors
    /// When one of them is missing or damaged, or memory runs out.
    pub fn new(source: &dyn WeightSource, cpu: Cpu) -> Result<LayerRunner> {
        let model = Model::load_ends(source)?;
        let chunk = LayerRunner::chunk_of(&model.config);
        // The one layer of the cache is for layers with windows and without.
        let kv = KvOptions { whole: true, ..KvOptions::default() };
        let state = DecoderState::new(&model.config, CacheLayers::One, 1, chunk, chunk, kv)?;
        let decoder = Decoder::new(Arc::new(model), cpu, Some(Activations::F32));
        Ok(LayerRunner { decoder, state, chosen: None, kept: HashMap::new(), packed: Vec::new() })
    }

    /// Most tokens of a chunk of a model of this architecture.
    pub fn chunk_of(config: &ModelConfig) -> usize {
        PROMPT_BATCH.min(config.max_positions as usize).max(1)
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.decoder.model.config
    }

    /// The kernels that run it.
    pub fn cpu(&self) -> &Cpu {
        &self.decoder.cpu
    }

    /// Most tokens of a chunk.
    pub fn chunk(&self) -> usize {
        self.state.batch()
    }

    /// Values of a token between layers: those of all residual streams.
    pub fn width(&self) -> usize {
        self.config().stream_width()
    }

    /// What a chunk of `tokens` is at the start of the first layer, tokens x [`LayerRunner::width`].
    ///
    /// # Errors
    /// When a token is beyond the vocabulary, or there are no tokens or more than [`LayerRunner::chunk`].
    pub fn embed(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        self.state.caches.first_mut().restart(0);
        self.decoder.check_request(&self.state, tokens)?;
        self.state.begin(tokens.len())?;
        self.decoder.embed(&mut self.state, tokens, None)?;
        if self.config().streams.is_none() {
            return Ok(&self.state.hidden);
        }
        self.packed.clear();
        self.packed.resize(tokens.len() * self.width(), 0.0);
        let LayerRunner { decoder, state, packed, .. } = self;
        pack(decoder, state, packed);
        Ok(&self.packed)
    }

    /// Says which chunk the next layers are run over. Models need that whose layers use keys and values of earlier ones, or get
    /// more of a token than the hidden state: what is used later of a chunk is that of the last run of the earlier layer.
    pub fn choose(&mut self, chunk: usize, tokens: &[u32]) {
        let config = self.config();
        if config.shared_kv.is_some() || config.per_layer_embedding.is_some() {
            self.chosen = Some((chunk, tokens.to_vec()));
        }
    }

    /// What a layer needs of the chosen chunk besides hidden states.
    fn prepare(&mut self, index: u32, rows: usize) -> Result<()> {
        let config = &self.decoder.model.config;
        let source = config.kv_source(index);
        if source == index && config.per_layer_embedding.is_none() {
            return Ok(());
        }
        let missing = || RuntimeError::Request(format!("layer {index} of a chunk that was not chosen"));
        let (chunk, tokens) = self.chosen.as_ref().filter(|(_, t)| t.len() == rows).ok_or_else(missing)?;
        if config.per_layer_embedding.is_some() {
            self.decoder.embed(&mut self.state, tokens, None)?;
        }
        if source != index {
            let [keys, values] = self.kept.get(&(*chunk, source)).ok_or_else(missing)?;
            self.state.caches.first_mut().store(&self.decoder.cpu, index as usize, keys, values);
        }
        Ok(())
    }

    /// Keeps keys and values of the layer that was run, where others use them.
    fn keep(&mut self, index: u32, rows: usize) {
        let config = &self.decoder.model.config;
        let mut behind = index + 1..config.layers;
        let Some((chunk, _)) = &self.chosen else { return };
        if config.shared_kv.is_none() || !behind.any(|layer| config.kv_source(layer) == index) {
            return;
        }
        let shape = config.attention_shape(index);
        let keys = self.state.k[..rows * shape.kv_heads * shape.key_dim].to_vec();
        let values = self.state.v[..rows * shape.kv_heads * shape.value_dim].to_vec();
        self.kept.insert((*chunk, index), [keys, values]);
    }

    /// Runs a chunk through layer `index`: `hidden` (tokens x [`LayerRunner::width`]) enters it and is replaced by what leaves it, unless
    /// `observer` breaks off. Then it stays as it is, and the same is returned.
    ///
    /// # Errors
    /// When `hidden` is not a chunk, or the model has no such layer.
    pub fn run(
        &mut self,
        index: usize,
        layer: &LayerWeights,
        hidden: &mut [f32],
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        if index >= self.config().layers as usize {
            let layers = self.config().layers;
            return Err(RuntimeError::Request(format!("layer {index} of a model of {layers}")));
        }
        self.begin(hidden)?;
        let rows = hidden.len() / self.width();
        let LayerRunner { decoder, state, .. } = self;
        let kv = KvOptions { whole: true, ..KvOptions::default() };
        state.caches.first_mut().reshape(&decoder.model.config, index as u32, kv)?;
        state.caches.first_mut().restart(index);
        self.prepare(index as u32, rows)?;
        let LayerRunner { decoder, state, .. } = self;
        unpack(decoder, state, hidden);
        decoder.normalize(state, layer.first_norm());
        let flow = decoder.layer(state, index, layer, None, observer)?;
        self.keep(index as u32, rows);
        // Experts may have been left out without the layer as a whole.
        if flow.is_continue() {
            pack(&self.decoder, &self.state, hidden);
        }
        Ok(flow)
    }

    /// What the head is multiplied with where `hidden` is what leaves the last layer.
    ///
    /// # Errors
    /// When `hidden` is not a chunk.
    pub fn head_input(&mut self, hidden: &[f32]) -> Result<&[f32]> {
        self.begin(hidden)?;
        self.decoder.normalize(&mut self.state, Some(&self.decoder.model.final_norm));
        self.decoder.end_streams(&mut self.state)?;
        Ok(&self.state.normed)
    }

    /// The logits of these tokens, tokens x `vocab` into `out`.
    ///
    /// # Errors
    /// When `hidden` is not a chunk.
    ///
    /// # Panics
    /// When `out` has another size.
    pub fn logits(&mut self, hidden: &[f32], out: &mut [f32]) -> Result<()> {
        let tokens = self.head_input(hidden)?.len() / self.config().hidden as usize;
        self.decoder.logits(&mut self.state, 0..tokens, out)
    }

    /// Takes a chunk of hidden states.
    fn begin(&mut self, hidden: &[f32]) -> Result<()> {
        let (width, most) = (self.width(), self.chunk());
        if hidden.is_empty() || !hidden.len().is_multiple_of(width) || hidden.len() / width > most {
            let found = hidden.len();
            let message =
                format!("{found} values are not the hidden states, {width} wide, of 1 to {most} tokens");
            return Err(RuntimeError::Request(message));
        }
        self.state.begin(hidden.len() / width)?;
        unpack(&self.decoder, &mut self.state, hidden);
        Ok(())
    }
}

/// Puts rows of all streams where the decoder has them.
fn unpack(decoder: &Decoder, state: &mut DecoderState, rows: &[f32]) {
    let width = decoder.model.config.hidden as usize;
    let all = decoder.model.config.stream_width();
    if all == width {
        return state.hidden.copy_from_slice(rows);
    }
    let others = state.streams.others.chunks_exact_mut(all - width);
    for ((row, first), others) in rows.chunks_exact(all).zip(state.hidden.chunks_exact_mut(width)).zip(others)
    {
        first.copy_from_slice(&row[..width]);
        others.copy_from_slice(&row[width..]);
    }
}

/// And back.
fn pack(decoder: &Decoder, state: &DecoderState, rows: &mut [f32]) {
    let width = decoder.model.config.hidden as usize;
    let all = decoder.model.config.stream_width();
    if all == width {
        return rows.copy_from_slice(&state.hidden);
    }
    let others = state.streams.others.chunks_exact(all - width);
    for ((row, first), others) in rows.chunks_exact_mut(all).zip(state.hidden.chunks_exact(width)).zip(others)
    {
        row[..width].copy_from_slice(first);
        row[width..].copy_from_slice(others);
    }
}
