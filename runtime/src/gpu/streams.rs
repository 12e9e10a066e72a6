//! Residual streams beside each other (`runtime/src/decoder/streams.rs`) on the device: weights and buffers, with those of a residual of
//! low rank beside attention.

use std::sync::Arc;

use qsf_format::ModelConfig;
use wgpu::Buffer;

use super::device::Gpu;
use super::input_rows::InputRows;
use super::linears::{GpuLinear, linear};
use super::weights::Uploader;
use crate::error::Result;
use crate::weights::{Laurel, StreamEnds, StreamWeights};

/// How streams begin and end.
pub struct GpuStreamEnds {
    /// Of the token embedding, all of them but the first.
    pub projection: GpuLinear,
    /// Of each stream, what comes back of it.
    pub returns: Vec<GpuLinear>,
}

/// What a layer does to streams; where its vectors begin.
pub struct GpuStreams {
    pub router_norm: u32,
    pub router: u32,
    pub prediction: u32,
    pub correction: u32,
    pub scale: u32,
}

/// A residual of low rank beside attention.
pub struct GpuLaurel {
    pub down: GpuLinear,
    pub up: GpuLinear,
    /// Gains of what these make.
    pub norm: u32,
}

impl GpuStreamEnds {
    /// Takes them up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, ends: &StreamEnds) -> Result<GpuStreamEnds> {
        let returns = ends.returns.iter().map(|back| linear(uploader, back));
        let returns = returns.collect::<Result<_>>()?;
        Ok(GpuStreamEnds { projection: linear(uploader, &ends.projection)?, returns })
    }
}

impl GpuStreams {
    /// Takes them up.
    pub fn upload(uploader: &mut Uploader<'_>, weights: &StreamWeights) -> GpuStreams {
        let StreamWeights { router_norm, router, prediction, correction, scale } = weights;
        GpuStreams {
            router_norm: uploader.vector(&router_norm.gain),
            router: uploader.vector(router),
            prediction: uploader.vector(prediction),
            correction: uploader.vector(correction),
            scale: uploader.vector(scale),
        }
    }
}

impl GpuLaurel {
    /// Takes it up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, laurel: &Laurel) -> Result<GpuLaurel> {
        let Laurel { down, up, norm } = laurel;
        Ok(GpuLaurel {
            down: linear(uploader, down)?,
            up: linear(uploader, up)?,
            norm: uploader.vector(&norm.gain),
        })
    }
}

/// Buffers of a step; nothing of use for models with one stream, and with nothing beside attention.
pub struct StreamBuffers {
    /// Tokens x streams but the first x hidden.
    pub others: Arc<Buffer>,
    /// Tokens x streams x hidden: what a layer predicts of them.
    pub predicted: Arc<Buffer>,
    /// What is added beside attention.
    pub laurel: Arc<Buffer>,
    /// Of that, what comes first.
    pub narrow: InputRows,
}

impl StreamBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<StreamBuffers> {
        let floats = |width: usize| gpu.empty_buffer(4 * (batch * width) as u64, "activations").map(Arc::new);
        let (hidden, streams) = (config.hidden as usize, config.streams.unwrap_or(1) as usize);
        let all = if streams > 1 { streams * hidden } else { 0 };
        Ok(StreamBuffers {
            others: floats((streams - 1) * hidden)?,
            predicted: floats(all)?,
            laurel: floats(config.laurel.map_or(0, |_| hidden))?,
            narrow: InputRows::new(gpu, batch, config.laurel.into_iter().map(|rank| rank as usize))?,
        })
    }
}
