//! The weights of a recurrent mixer in buffers.

use qsf_cpu::SelectiveScan;
use qsf_format::{ModelConfig, Multipliers, RecurrentMixer};

use super::linears::{GpuLinear, linear, stack};
use super::weights::Uploader;
use crate::error::Result;
use crate::weights::RecurrentWeights;

/// A recurrent mixer; of the optional parts it has those of its kind.
pub struct GpuRecurrent {
    /// Input, gate, step and beta, one behind another in their rows, but for those that are made in two steps.
    pub input: Vec<GpuLinear>,
    /// What gates and steps are made by, where each channel of a key has a decay.
    pub by_ranks: Option<GpuByRanks>,
    /// What steps are made by behind the convolution.
    pub selection: Option<GpuSelection>,
    /// Where the filters of the convolution begin, `taps` x `channels`.
    pub filters: u32,
    /// Where its bias begins.
    pub conv_bias: Option<u32>,
    /// Rates of decay; of Mamba-1 columns of the state x channels.
    pub decay: u32,
    /// What is added to steps.
    pub step_bias: u32,
    /// What passes by the state.
    pub skip: u32,
    /// Gains of the norm of the output, where it has one.
    pub norm: Option<u32>,
    /// Output projection.
    pub output: GpuLinear,
}

/// Projections by way of a few values.
pub struct GpuByRanks {
    /// What gates are made of.
    pub gate_down: GpuLinear,
    /// Makes gates of it.
    pub gate: GpuLinear,
    /// What steps are made of.
    pub step_down: GpuLinear,
    /// Makes steps of it.
    pub step: GpuLinear,
    /// Rates of replacing.
    pub beta: GpuLinear,
}

/// What Mamba-1 makes of what its convolution gives.
pub struct GpuSelection {
    /// What steps are made of, and the two inputs that channels share.
    pub select: GpuLinear,
    /// Gains of the norms of these three.
    pub norms: Option<[u32; 3]>,
    /// Makes steps.
    pub step: GpuLinear,
}

/// Takes a mixer up.
///
/// # Errors
/// When it does not fit into the device's memory.
pub fn upload_recurrent(
    uploader: &mut Uploader<'_>,
    config: &ModelConfig,
    weights: &RecurrentWeights,
) -> Result<GpuRecurrent> {
    let RecurrentWeights {
        input,
        gate,
        step,
        channels,
        beta,
        conv,
        conv_bias,
        decay,
        step_bias,
        skip,
        norm,
        selection,
        output,
    } = weights;
    let direct = [Some(input), gate.as_ref(), step.as_ref(), beta.as_ref()];
    let by_ranks = match (channels, gate, step, beta) {
        (Some([gate_down, step_up]), Some(gate), Some(step), Some(beta)) => Some(GpuByRanks {
            gate_down: linear(uploader, gate_down)?,
            gate: linear(uploader, gate)?,
            step_down: linear(uploader, step)?,
            step: linear(uploader, step_up)?,
            beta: linear(uploader, beta)?,
        }),
        _ => None,
    };
    let count = if by_ranks.is_some() { 1 } else { direct.len() };
    let selection = match selection {
        Some(selection) => Some(GpuSelection {
            select: linear(uploader, &selection.select)?,
            norms: selection.norms.as_ref().map(|norms| norms.each_ref().map(|gain| uploader.vector(gain))),
            step: linear(uploader, &selection.step)?,
        }),
        None => None,
    };
    Ok(GpuRecurrent {
        input: stack(uploader, direct.into_iter().take(count).flatten())?,
        by_ranks,
        selection,
        filters: uploader.vector(&filters(config, conv)),
        conv_bias: conv_bias.as_ref().map(|bias| uploader.vector(bias)),
        decay: uploader.vector(&rates(config, decay)),
        step_bias: uploader.vector(step_bias),
        skip: uploader.vector(skip),
        norm: (!norm.is_empty()).then(|| uploader.vector(norm)),
        output: linear(uploader, output)?,
    })
}

/// Filters, with what the inputs of a mixer of Mamba-2 are multiplied with: a convolution of a multiple is that multiple of it.
fn filters(config: &ModelConfig, conv: &[f32]) -> Vec<f32> {
    let (Some(Multipliers { mixer_inputs: [x, b, c], .. }), Some(recurrent)) =
        (&config.multipliers, &config.recurrent)
    else {
        return conv.to_vec();
    };
    let hidden = config.hidden as usize;
    let (channels, width) = (recurrent.channels(hidden), recurrent.output_columns(hidden));
    let shared = (channels - width) / 2;
    let factor = |channel: usize| match channel {
        channel if channel < width => x,
        channel if channel < width + shared => b,
        _ => c,
    };
    conv.iter().enumerate().map(|(at, tap)| tap * factor(at % channels)).collect()
}

/// Rates of decay; those of Mamba-1 with channels side by side, without what pads them.
fn rates(config: &ModelConfig, decay: &[f32]) -> Vec<f32> {
    let Some(RecurrentMixer::Mamba1 { width, state, .. }) = config.recurrent.as_ref().map(|r| r.mixer) else {
        return decay.to_vec();
    };
    let (width, state) = (width as usize, state as usize);
    let row = SelectiveScan::state_len(1, state);
    (0..width * state).map(|at| decay[at % width * row + at / width]).collect()
}
