//! What layers get of a token besides the residual stream (`runtime/src/decoder/per_layer.rs`), on the device.

use std::sync::Arc;

use qsf_format::ModelConfig;
use wgpu::Buffer;

use super::device::Gpu;
use super::host_rows::HostRows;
use super::input_rows::InputRows;
use super::linears::{GpuLinear, linear};
use super::weights::Uploader;
use crate::error::Result;
use crate::weights::{PerLayer, PerLayerInputs};

/// What all layers get.
pub struct GpuPerLayerInputs {
    /// Of tokens, for all layers: `vocab` x `layers` x width, more than all else in a small model (Gemma 3n).
    pub embedding: HostRows,
    /// Of the token embedding, for all layers.
    pub projection: GpuLinear,
    /// Gains of the latter, for one layer.
    pub norm: u32,
}

/// What a layer makes of it.
pub struct GpuPerLayer {
    /// Of the residual stream.
    pub gate: GpuLinear,
    /// Of gate and input.
    pub up: GpuLinear,
    /// Gains of what is added.
    pub norm: u32,
}

impl GpuPerLayerInputs {
    /// Takes them up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, weights: &PerLayerInputs) -> Result<GpuPerLayerInputs> {
        let PerLayerInputs { embedding, projection, norm } = weights;
        let scale = (norm.gain.len() as f32).sqrt();
        Ok(GpuPerLayerInputs {
            embedding: HostRows { table: embedding.clone(), scale, positions: None },
            projection: linear(uploader, projection)?,
            norm: uploader.vector(&norm.gain),
        })
    }
}

impl GpuPerLayer {
    /// Takes them up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, weights: &PerLayer) -> Result<GpuPerLayer> {
        let PerLayer { gate, up, norm } = weights;
        Ok(GpuPerLayer {
            gate: linear(uploader, gate)?,
            up: linear(uploader, up)?,
            norm: uploader.vector(&norm.gain),
        })
    }
}

/// Buffers of a step.
pub struct PerLayerBuffers {
    /// Tokens x layers x width: what the projection makes.
    pub projected: Arc<Buffer>,
    /// Alike, rows of the table.
    pub rows: Arc<Buffer>,
    /// Of one layer.
    pub gate: Arc<Buffer>,
    /// What the up projection reads.
    pub input: InputRows,
}

impl PerLayerBuffers {
    /// Room for `batch` tokens; nothing of use where layers get nothing.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<PerLayerBuffers> {
        let width = config.per_layer_embedding.map_or(0, |of_layers| of_layers.width as usize);
        let floats = |width: usize| gpu.empty_buffer(4 * (batch * width) as u64, "activations").map(Arc::new);
        let all = config.layers as usize * width;
        Ok(PerLayerBuffers {
            projected: floats(all)?,
            rows: floats(all)?,
            gate: floats(width)?,
            input: InputRows::new(gpu, batch, [width].into_iter().filter(|width| *width > 0))?,
        })
    }
}
