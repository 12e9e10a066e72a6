//! Residual streams beside the first (`streams`), while a step runs.

use qsf_format::ModelConfig;

use crate::error::Result;
use qsf_cpu::AlignedFloats;

/// Values of a token in each of the [`StreamBuffers`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamWidths {
    others: usize,
    all: usize,
    laurel: usize,
    rank: usize,
}

impl StreamWidths {
    /// Those of a model; zeros where it has one stream, and nothing beside attention.
    pub fn of(config: &ModelConfig) -> StreamWidths {
        let hidden = config.hidden as usize;
        let all = config.streams.map_or(0, |_| config.stream_width());
        let rank = config.laurel.unwrap_or(0) as usize;
        StreamWidths {
            others: all.saturating_sub(hidden),
            all,
            laurel: if rank > 0 { hidden } else { 0 },
            rank,
        }
    }

    /// All together.
    pub fn floats_per_token(&self) -> usize {
        self.others + self.all + self.laurel + self.rank
    }
}

/// Empty for models with one stream, and with nothing beside attention.
pub(super) struct StreamBuffers {
    /// Tokens x streams but the first x hidden.
    pub(super) others: AlignedFloats,
    /// Tokens x streams x hidden: what a layer predicts of them.
    pub(super) predicted: AlignedFloats,
    /// What is added beside attention.
    pub(super) laurel: AlignedFloats,
    /// Of that, what comes first.
    pub(super) narrow: AlignedFloats,
}

impl StreamBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(widths: StreamWidths, batch: usize) -> Result<StreamBuffers> {
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "residual streams");
        Ok(StreamBuffers {
            others: buffer(widths.others)?,
            predicted: buffer(widths.all)?,
            laurel: buffer(widths.laurel)?,
            narrow: buffer(widths.rank)?,
        })
    }

    /// Sizes them for a step of `tokens`.
    pub fn resize(&mut self, widths: StreamWidths, tokens: usize) {
        self.others.resize(tokens * widths.others);
        self.predicted.resize(tokens * widths.all);
        self.laurel.resize(tokens * widths.laurel);
        self.narrow.resize(tokens * widths.rank);
    }
}
