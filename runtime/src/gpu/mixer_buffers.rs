//! What the tokens of a step are between the projections of a recurrent mixer, in buffers.

use std::sync::Arc;

use qsf_format::{ModelConfig, RecurrentMixer};
use wgpu::Buffer;

use super::device::Gpu;
use super::step::padded;
use crate::error::{Result, RuntimeError};

/// Buffers of a step. What a matrix reads has padded rows, and zeros behind the values of a row.
pub struct MixerBuffers {
    /// Widths of rows, and where their parts are.
    pub places: MixerPlaces,
    /// What projections give, rows of [`MixerPlaces::row`].
    pub projected: Arc<Buffer>,
    /// What the convolution gives.
    pub channels: Arc<Buffer>,
    /// What steps are made of, and gates where these are made by way of a few values.
    pub ranks: Arc<Buffer>,
    pub gate_ranks: Arc<Buffer>,
    /// What the output projection reads.
    pub mixed: Arc<Buffer>,
    /// What a mixer gives while attention beside it is computed.
    pub beside: Arc<Buffer>,
}

/// Widths of rows in values, and where the parts of what projections give begin; that of the input projection is the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct MixerPlaces {
    pub gate: usize,
    pub step: usize,
    pub beta: usize,
    /// What steps are made of behind the convolution, and behind that the inputs that channels share.
    pub selected: usize,
    /// All of a row.
    pub row: usize,
    /// Channels of the convolution.
    pub channels: usize,
    /// What the output projection reads.
    pub mixed: usize,
    /// What steps, or gates, are made of by way of.
    pub rank: usize,
}

impl MixerPlaces {
    fn of(config: &ModelConfig) -> MixerPlaces {
        let Some(recurrent) = &config.recurrent else { return MixerPlaces::default() };
        let hidden = config.hidden as usize;
        let mixed = recurrent.output_columns(hidden);
        let (gates, betas) = match recurrent.mixer {
            RecurrentMixer::ShortConv {} => (0, 0),
            RecurrentMixer::GatedDelta { .. } => (mixed, recurrent.heads()),
            RecurrentMixer::Mamba1 { .. } | RecurrentMixer::Mamba2 { .. } => (mixed, 0),
        };
        let (selected, rank) = match recurrent.mixer {
            RecurrentMixer::Mamba1 { state, rank, .. } => ((rank + 2 * state) as usize, rank as usize),
            _ => (0, recurrent.channel_rank.unwrap_or(0) as usize),
        };
        let gate = recurrent.input_rows(hidden);
        let step = gate + gates;
        let beta = step + recurrent.steps();
        let at_selected = beta + betas;
        MixerPlaces {
            gate,
            step,
            beta,
            selected: at_selected,
            row: at_selected + selected,
            channels: recurrent.channels(hidden),
            mixed,
            rank,
        }
    }
}

impl MixerBuffers {
    /// For steps of `batch` tokens.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<MixerBuffers> {
        let places = MixerPlaces::of(config);
        let rows = |width: usize| {
            Ok::<_, RuntimeError>(Arc::new(gpu.empty_buffer(4 * (batch * width) as u64, "activations")?))
        };
        let beside = config.recurrent.as_ref().is_some_and(|recurrent| recurrent.beside_attention);
        Ok(MixerBuffers {
            places,
            projected: rows(places.row)?,
            channels: rows(padded(places.channels))?,
            ranks: rows(padded(places.rank))?,
            gate_ranks: rows(padded(places.rank))?,
            mixed: rows(padded(places.mixed))?,
            beside: rows(if beside { config.hidden as usize } else { 0 })?,
        })
    }
}
