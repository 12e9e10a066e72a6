//! What attention by way of latents computes on the way (`latent`).

use qsf_format::{LatentAttention, ModelConfig};

use crate::error::Result;
use qsf_cpu::AlignedFloats;

/// Values of a token in each of the [`LatentBuffers`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LatentWidths {
    q_latent: usize,
    by_head: usize,
    turned: usize,
    queries: usize,
}

impl LatentWidths {
    /// Those of a model; zeros where there are no latents.
    pub fn of(config: &ModelConfig) -> LatentWidths {
        let Some(LatentAttention { q_rank, kv_rank, shared_dim, value_dim, .. }) = config.latent else {
            return LatentWidths::default();
        };
        let (heads, rest) = (config.heads as usize, config.head_dim - shared_dim);
        LatentWidths {
            q_latent: q_rank.unwrap_or(0) as usize,
            by_head: heads * rest.max(kv_rank) as usize,
            turned: heads * kv_rank.max(value_dim) as usize,
            queries: heads * (shared_dim + kv_rank) as usize,
        }
    }

    /// All together.
    pub fn floats_per_token(&self) -> usize {
        self.q_latent + self.by_head + self.turned + self.queries
    }
}

/// What is computed on the way. Empty for models without latents.
pub(super) struct LatentBuffers {
    /// Latents of queries.
    pub(super) q_latent: AlignedFloats,
    /// Heads x tokens: inputs of matrices of heads.
    pub(super) by_head: AlignedFloats,
    /// Heads x tokens: their outputs; and tokens x heads: what attention gives of latents.
    pub(super) turned: AlignedFloats,
    /// Tokens x heads: what is compared with keys as they are kept.
    pub(super) queries: AlignedFloats,
}

impl LatentBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(widths: LatentWidths, batch: usize) -> Result<LatentBuffers> {
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "activations of a step");
        Ok(LatentBuffers {
            q_latent: buffer(widths.q_latent)?,
            by_head: buffer(widths.by_head)?,
            turned: buffer(widths.turned)?,
            queries: buffer(widths.queries)?,
        })
    }

    /// Sizes them for a step of `tokens`.
    pub fn resize(&mut self, widths: LatentWidths, tokens: usize) {
        self.q_latent.resize(tokens * widths.q_latent);
        self.by_head.resize(tokens * widths.by_head);
        self.turned.resize(tokens * widths.turned);
        self.queries.resize(tokens * widths.queries);
    }
}
