//! What layers get of a token besides the residual stream (`per_layer`), while a step runs.

use qsf_format::ModelConfig;

use crate::error::Result;
use qsf_cpu::AlignedFloats;

/// Values of a token in each of the [`PerLayerBuffers`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PerLayerWidths {
    all: usize,
    one: usize,
}

impl PerLayerWidths {
    /// Those of a model; zeros where layers get nothing.
    pub fn of(config: &ModelConfig) -> PerLayerWidths {
        let one = config.per_layer_embedding.map_or(0, |of_layers| of_layers.width) as usize;
        PerLayerWidths { all: config.layers as usize * one, one }
    }

    /// All together.
    pub fn floats_per_token(&self) -> usize {
        2 * self.all + 2 * self.one
    }
}

/// Empty for models whose layers get nothing.
pub(super) struct PerLayerBuffers {
    /// Tokens x layers x width.
    pub(super) inputs: AlignedFloats,
    /// Alike, rows of the table.
    pub(super) rows: AlignedFloats,
    /// Of one layer.
    pub(super) gate: AlignedFloats,
    pub(super) input: AlignedFloats,
}

impl PerLayerBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(widths: PerLayerWidths, batch: usize) -> Result<PerLayerBuffers> {
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "inputs of layers");
        Ok(PerLayerBuffers {
            inputs: buffer(widths.all)?,
            rows: buffer(widths.all)?,
            gate: buffer(widths.one)?,
            input: buffer(widths.one)?,
        })
    }

    /// Sizes them for a step of `tokens`.
    pub fn resize(&mut self, widths: PerLayerWidths, tokens: usize) {
        self.inputs.resize(tokens * widths.all);
        self.rows.resize(tokens * widths.all);
        self.gate.resize(tokens * widths.one);
        self.input.resize(tokens * widths.one);
    }
}
