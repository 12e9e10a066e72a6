//! Where a model looks: the weights that the heads of attention give to positions, and the keys of these, layer by layer.
//!
//! A text of n tokens has n * n weights in each head. They are never all in memory: tokens run in steps of a size that keeps those of
//! a layer small, and a sink takes them.

use qsf_format::{ModelConfig, human_bytes};

use crate::decoder::{AttentionLook, Decoder, InputObserver, KvOptions, LinearInput, PROMPT_BATCH};
use crate::error::{Result, RuntimeError};
use crate::memory;

/// Most weights of a step in one layer, 64 MiB.
const STEP_WEIGHTS: usize = 1 << 24;

/// What is taken of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionPart {
    /// Heads x tokens x positions: what a token gives to each position. A row of it, with what a sink takes, adds up to 1.
    Weights,
    /// Key/value heads x positions x values: the keys behind norm and rotation. Of a model with latents (MLA) what is kept in place of
    /// keys: first what the heads share of them, then the latent.
    Keys,
}

/// An array of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttentionArray {
    /// The layer.
    pub layer: u32,
    /// What of it.
    pub part: AttentionPart,
    /// Its dimensions: heads, rows, columns.
    pub shape: [usize; 3],
}

impl AttentionArray {
    /// `layers.0.weights`, `layers.0.keys`.
    pub fn name(&self) -> String {
        let part = match self.part {
            AttentionPart::Weights => "weights",
            AttentionPart::Keys => "keys",
        };
        format!("layers.{}.{part}", self.layer)
    }

    /// Bytes of its values; all that there are where they are too many to be counted.
    pub fn bytes(&self) -> u64 {
        let [heads, rows, columns] = self.shape.map(|size| size as u64);
        heads.saturating_mul(rows).saturating_mul(columns).saturating_mul(size_of::<f32>() as u64)
    }
}

/// What a layer does between tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerLook {
    /// A token sees all tokens before it.
    Full,
    /// A token sees so many, itself among them.
    Window(u32),
    /// A token sees those of its own run of so many.
    Chunk(u32),
    /// It has no attention, and hands a state on.
    Recurrent,
    /// It has no attention, and looks at no other token.
    None,
}

impl LayerLook {
    /// Of a layer of a model.
    pub fn of(config: &ModelConfig, layer: u32) -> LayerLook {
        match (config.has_attention(layer), config.window(layer)) {
            (true, Some(size)) if config.window_chunks => LayerLook::Chunk(size),
            (true, Some(size)) => LayerLook::Window(size),
            (true, None) => LayerLook::Full,
            (false, _) if config.recurrent(layer).is_some() => LayerLook::Recurrent,
            (false, _) => LayerLook::None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LayerLook::Full => "full",
            LayerLook::Window(_) => "window",
            LayerLook::Chunk(_) => "chunk",
            LayerLook::Recurrent => "recurrent",
            LayerLook::None => "none",
        }
    }

    /// Positions of a window or a chunk.
    pub fn size(self) -> Option<u32> {
        match self {
            LayerLook::Window(size) | LayerLook::Chunk(size) => Some(size),
            LayerLook::Full | LayerLook::Recurrent | LayerLook::None => None,
        }
    }
}

/// The arrays of a snapshot, known before anything is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttentionPlan {
    /// Weights of a layer, then its keys, then those of the next. Layers without attention have none, and layers that use the keys of
    /// another have only weights.
    pub arrays: Vec<AttentionArray>,
    /// Tokens of the text.
    pub positions: usize,
}

impl AttentionPlan {
    /// For a text of `positions` tokens, of these layers, or of all.
    ///
    /// # Errors
    /// When there is no token, no such layer, or no attention in any of them.
    pub fn new(config: &ModelConfig, positions: usize, layers: Option<&[u32]>) -> Result<AttentionPlan> {
        if positions == 0 {
            return Err(RuntimeError::Request("attention of no tokens: the text is empty".into()));
        }
        let all: Vec<u32> = (0..config.layers).collect();
        let mut chosen = layers.unwrap_or(&all).to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        if let Some(layer) = chosen.iter().find(|layer| **layer >= config.layers) {
            let problem =
                format!("attention of layer {layer}: the model has layers 0 to {}", config.layers - 1);
            return Err(RuntimeError::Request(problem));
        }
        let mut arrays = Vec::new();
        for layer in chosen.into_iter().filter(|layer| config.has_attention(*layer)) {
            let shape = config.attention_shape(layer);
            let mut add = |part, shape| arrays.push(AttentionArray { layer, part, shape });
            add(AttentionPart::Weights, [config.heads as usize, positions, positions]);
            if config.kv_source(layer) == layer {
                add(AttentionPart::Keys, [shape.kv_heads, positions, shape.key_dim]);
            }
        }
        if arrays.is_empty() {
            return Err(RuntimeError::Request("none of these layers has attention".into()));
        }
        Ok(AttentionPlan { arrays, positions })
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().map(AttentionArray::bytes).fold(0, u64::saturating_add)
    }

    /// That there are at most `limit` bytes.
    ///
    /// # Errors
    /// When there are more; `advice` says what to do.
    pub fn check(&self, limit: u64, advice: &str) -> Result<()> {
        if self.bytes() <= limit {
            return Ok(());
        }
        Err(RuntimeError::Request(format!(
            "attention of {} tokens takes {}, and there is room for {}: {advice}",
            self.positions,
            human_bytes(self.bytes()),
            human_bytes(limit)
        )))
    }

    fn number(&self, layer: usize, part: AttentionPart) -> Option<usize> {
        self.arrays.iter().position(|array| array.layer as usize == layer && array.part == part)
    }
}

/// Takes the values of a snapshot.
pub trait AttentionSink {
    /// Rows of a head, from row `first` on, of the array that has this number in the plan. Each row comes once.
    ///
    /// # Errors
    /// When they cannot be taken.
    fn rows(&mut self, array: usize, head: usize, first: usize, values: &[f32]) -> Result<()>;
}

/// Runs `tokens` from an empty context, and gives `sink` what `plan` says.
///
/// # Errors
/// When the tokens are not those of the plan or do not fit the model, memory runs out, or `sink` fails.
pub fn attention(
    decoder: &Decoder,
    tokens: &[u32],
    plan: &AttentionPlan,
    kv: KvOptions,
    sink: &mut dyn AttentionSink,
) -> Result<()> {
    if plan.positions != tokens.len() {
        return Err(RuntimeError::Request(format!(
            "{} tokens, planned were {}",
            tokens.len(),
            plan.positions
        )));
    }
    if kv.keep.is_some() {
        return Err(RuntimeError::Request("attention is shown only where all positions are kept".into()));
    }
    let heads = decoder.model().config.heads as usize;
    let widest = plan.arrays.iter().map(|array| array.shape[0] * array.shape[2]).max().unwrap_or(0);
    let step = (STEP_WEIGHTS / widest.max(heads).max(1)).clamp(1, PROMPT_BATCH).min(tokens.len());
    let room = step.saturating_mul(widest);
    memory::ask((room * size_of::<f32>()) as u64, || "attention of a layer".into())?;
    let mut state = decoder.state_with(tokens.len(), step, kv)?;
    let mut taker = Taker { plan, sink, room: vec![0.0; room], problem: None };
    for tokens in tokens.chunks(state.batch()) {
        let done = decoder.forward_observed(&mut state, tokens, &mut taker);
        if let Some(problem) = taker.problem.take() {
            return Err(problem);
        }
        done?;
    }
    Ok(())
}

/// Gives the sink what it sees.
struct Taker<'a> {
    plan: &'a AttentionPlan,
    sink: &'a mut dyn AttentionSink,
    room: Vec<f32>,
    problem: Option<RuntimeError>,
}

impl Taker<'_> {
    fn take(&mut self, look: &AttentionLook<'_>) -> Result<()> {
        let (first, tokens) = (look.position, look.tokens());
        if let Some(array) = self.plan.number(look.layer, AttentionPart::Weights) {
            let [heads, _, positions] = self.plan.arrays[array].shape;
            let weights = &mut self.room[..heads * tokens * positions];
            look.weights(positions, weights);
            for (head, rows) in weights.chunks_exact(tokens * positions).enumerate() {
                self.sink.rows(array, head, first, rows)?;
            }
        }
        if let Some(array) = self.plan.number(look.layer, AttentionPart::Keys) {
            let [heads, _, width] = self.plan.arrays[array].shape;
            for head in 0..heads {
                let rows = &mut self.room[..tokens * width];
                let keys = look.keys.chunks_exact(width).skip(head).step_by(heads);
                rows.chunks_exact_mut(width).zip(keys).for_each(|(row, key)| row.copy_from_slice(key));
                self.sink.rows(array, head, first, rows)?;
            }
        }
        Ok(())
    }
}

impl InputObserver for Taker<'_> {
    fn attended(&mut self, look: &AttentionLook<'_>) {
        if self.problem.is_none() {
            self.problem = self.take(look).err();
        }
    }

    fn observe(&mut self, _: LinearInput, _: usize, _: &[f32]) -> std::ops::ControlFlow<()> {
        if self.problem.is_some() {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// Keeps all values in memory, those of an array together.
#[derive(Debug, Clone, Default)]
pub struct AttentionInMemory {
    /// As the plan has them.
    pub arrays: Vec<Vec<f32>>,
    shapes: Vec<[usize; 3]>,
}

impl AttentionInMemory {
    /// Room for all that `plan` says.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(plan: &AttentionPlan) -> Result<AttentionInMemory> {
        memory::ask(plan.bytes(), || format!("attention of {} tokens", plan.positions))?;
        let shapes: Vec<[usize; 3]> = plan.arrays.iter().map(|array| array.shape).collect();
        let arrays = shapes.iter().map(|shape| vec![0.0; shape.iter().product()]).collect();
        Ok(AttentionInMemory { arrays, shapes })
    }
}

impl AttentionSink for AttentionInMemory {
    fn rows(&mut self, array: usize, head: usize, first: usize, values: &[f32]) -> Result<()> {
        let [_, rows, columns] = self.shapes[array];
        self.arrays[array][(head * rows + first) * columns..][..values.len()].copy_from_slice(values);
        Ok(())
    }
}
