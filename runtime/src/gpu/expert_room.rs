//! How many words a mixture of experts needs while it runs.

use super::experts::GpuInner;
use super::model::{GpuFeedForward, GpuModel};
use super::step::{TILE, padded};
use super::wgsl::experts::most_tiles;

/// Words of each buffer for steps of so many tokens; 0 of what a model does not need.
#[derive(Default)]
pub struct ExpertRoom {
    /// What routers say.
    pub routed: usize,
    /// Which experts were chosen, and with what weights.
    pub chosen: usize,
    /// Choices of the same expert.
    pub tiles: usize,
    /// Inputs times the weights of choices.
    pub weighed: usize,
    /// Inputs of experts alone.
    pub own: usize,
    /// Gates and ups, where a kernel does not put them together at once.
    pub inner: usize,
    /// What down projections read.
    pub activated: usize,
    /// What experts made.
    pub made: usize,
    /// Inner width of what all tokens go through.
    pub shared: usize,
}

impl ExpertRoom {
    /// For a model, in steps of `batch` tokens at most.
    pub fn of(model: &GpuModel, batch: usize) -> ExpertRoom {
        let config = &model.config;
        let Some(experts) = &config.experts else { return ExpertRoom::default() };
        let mixtures = || {
            model.layers.iter().filter_map(|layer| match &layer.ffn {
                Some(GpuFeedForward::Experts(experts)) => Some(&**experts),
                Some(GpuFeedForward::Dense(_)) | None => None,
            })
        };
        let (count, width) = (experts.count as usize, experts.ffn as usize);
        let (hidden, choices) = (config.hidden as usize, batch * experts.used as usize);
        let is_apart = mixtures().any(|mixture| matches!(mixture.inner, GpuInner::Apart(..)));
        let where_so = |is_so: bool, words: usize| if is_so { words } else { 0 };
        ExpertRoom {
            routed: batch * count,
            chosen: 2 * choices,
            tiles: (TILE + 1) * most_tiles(choices, count, TILE),
            weighed: where_so(experts.weigh_inputs, choices * padded(hidden)),
            own: where_so(experts.beside_ffn, batch * padded(hidden)),
            inner: where_so(is_apart, 2 * choices * width),
            activated: choices * padded(width),
            made: choices * hidden,
            shared: mixtures().filter_map(|m| Some(m.shared.as_ref()?.mlp.width)).max().unwrap_or(0),
        }
    }
}
