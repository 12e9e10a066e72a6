//! Attention by way of latents (`runtime/src/decoder/latent.rs`) on the device: its matrices, and what is computed on the way.

use std::sync::Arc;

use qsf_format::{LatentAttention, ModelConfig};
use wgpu::Buffer;

use super::device::Gpu;
use super::experts::GpuStack;
use super::input_rows::InputRows;
use super::linears::{GpuLinear, linear};
use super::weights::Uploader;
use crate::error::Result;
use crate::weights::{AttentionWeights, LatentWeights, Linear};

/// Matrices that only attention by way of latents has.
pub struct GpuLatent {
    /// What makes latents of queries, and queries of those; without, the query projection is that of other attention.
    pub queries: Option<[GpuLinear; 2]>,
    /// Of each head, turns the rest of its query to latents.
    pub k_up: GpuStack,
    /// Of each head, makes a value of a latent.
    pub v_up: GpuStack,
}

impl GpuLatent {
    /// Takes them up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(
        uploader: &mut Uploader<'_>,
        weights: &AttentionWeights,
        of_latents: &LatentWeights,
    ) -> Result<GpuLatent> {
        let LatentWeights { q_down, kv_down: _, k_up, v_up } = of_latents;
        let queries = match q_down {
            Some(down) => Some([linear(uploader, down)?, linear(uploader, &weights.q)?]),
            None => None,
        };
        Ok(GpuLatent { queries, k_up: of_heads(uploader, k_up)?, v_up: of_heads(uploader, v_up)? })
    }
}

/// A matrix for each head, all of them in one buffer.
fn of_heads(uploader: &mut Uploader<'_>, heads: &[Linear]) -> Result<GpuStack> {
    GpuStack::upload(uploader, &heads.iter().collect::<Vec<_>>(), heads.len())
}

/// What is computed on the way; nothing of use without latents.
pub struct LatentBuffers {
    /// Latents of queries.
    pub q_latent: InputRows,
    /// Tokens x heads: the rest of queries, behind what is compared with what heads share of keys.
    pub rest: InputRows,
    /// Tokens x heads: what is compared with keys as they are kept.
    pub queries: Arc<Buffer>,
    /// Tokens x heads: what attention gives of latents.
    pub seen: InputRows,
}

impl LatentBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn new(gpu: &Gpu, config: &ModelConfig, batch: usize) -> Result<LatentBuffers> {
        let rows = |count, width: Option<u32>| {
            InputRows::new(gpu, count, width.into_iter().map(|width| width as usize))
        };
        let of_heads = batch * config.heads as usize;
        let latent = config.latent;
        let rest = latent.map(|LatentAttention { shared_dim, .. }| config.head_dim - shared_dim);
        let compared = latent.map_or(0, |latent| latent.shared_dim + latent.kv_rank) as usize;
        // Kernels may read a word behind the last query.
        let queries = gpu.empty_buffer(4 * (of_heads * compared + 4) as u64, "activations")?;
        Ok(LatentBuffers {
            q_latent: rows(batch, latent.and_then(|latent| latent.q_rank))?,
            rest: rows(of_heads, rest)?,
            queries: Arc::new(queries),
            seen: rows(of_heads, latent.map(|latent| latent.kv_rank))?,
        })
    }
}
