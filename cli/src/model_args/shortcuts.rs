//! Flags by which a model computes less than all of itself, and what is reported of them and of adapters.

use clap::Args;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{Decoder, Result};
use serde_json::Value;

use super::head::{HeadArgs, HeadChoice, HeadReport};
use super::layers::{LayerArgs, LayerReport, Share};
use super::lora::LoraReport;

/// Flags of binaries that run models.
#[derive(Debug, Clone, Args)]
pub struct ShortcutArgs {
    #[command(flatten)]
    head: HeadArgs,
    #[command(flatten)]
    layers: LayerArgs,
}

/// What is in use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShortcutReport {
    /// Clusters that logits are made by.
    pub head: Option<HeadReport>,
    /// Layers that are left out.
    pub layers: Option<LayerReport>,
    /// Adapters that are added.
    pub lora: Vec<LoraReport>,
}

impl ShortcutArgs {
    /// Makes `decoder`, which runs the model of `source`, compute as chosen.
    ///
    /// # Errors
    /// When the file has not what that takes.
    pub fn apply(&self, decoder: Decoder, source: &dyn WeightSource) -> Result<(Decoder, ShortcutReport)> {
        self.apply_with(decoder, source, self.layers(source)?)
    }

    /// What of the layers of the model of `source` will be left out: known before its weights are loaded, so that none are
    /// that nobody needs, and a RAM budget counts what it takes.
    ///
    /// # Errors
    /// When the file does not say.
    pub fn layers(&self, source: &dyn WeightSource) -> Result<Option<LayerReport>> {
        self.layers.choose(source)
    }

    /// Makes `decoder`, which runs the model of `source`, leave out the layers that [`ShortcutArgs::layers`] chose, and
    /// otherwise compute as chosen.
    ///
    /// # Errors
    /// When the file has no clusters, or no classifiers for early exits, and they were asked for.
    pub fn apply_with(
        &self,
        decoder: Decoder,
        source: &dyn WeightSource,
        layers: Option<LayerReport>,
    ) -> Result<(Decoder, ShortcutReport)> {
        let (decoder, head) = self.head.head.apply(decoder, source)?;
        let decoder = match &layers {
            Some(report) => report.apply(decoder)?,
            None => decoder,
        };
        Ok((decoder, ShortcutReport { head, layers, lora: Vec::new() }))
    }

    /// How logits are made.
    pub fn head(&self) -> HeadChoice {
        self.head.head
    }

    /// Whether layers are left out.
    pub fn leaves_layers_out(&self) -> bool {
        self.layers.quality != Share::ALL
    }

    /// Whether the model is left early.
    pub fn exits_early(&self) -> bool {
        self.layers.early_exit.is_some()
    }

    /// Whether the head must be in memory as a whole.
    pub fn whole_head(&self) -> bool {
        self.head.head != HeadChoice::Exact
    }
}

impl ShortcutReport {
    /// The same of a model with adapters.
    #[must_use]
    pub fn with_lora(self, lora: &[LoraReport]) -> ShortcutReport {
        ShortcutReport { lora: lora.to_vec(), ..self }
    }

    /// Lines for people, each with its end.
    pub fn lines(&self) -> String {
        let lines = [self.head.map(HeadReport::line), self.layers.as_ref().map(LayerReport::line)];
        let adapters = self.lora.iter().map(LoraReport::line);
        adapters.chain(lines.into_iter().flatten()).map(|line| line + "\n").collect()
    }

    /// Adds fields to a JSON object; null is what is not in use.
    pub fn add_to(&self, object: &mut Value) {
        object["head"] = self.head.map(HeadReport::to_json).into();
        object["layer_selection"] = self.layers.as_ref().map(LayerReport::to_json).into();
        object["lora"] = self.lora.iter().map(LoraReport::to_json).collect();
    }
}
