//! Flags by which a model computes less than all of itself, and what they report.

use clap::Args;
use serde_json::Value;

use super::head::{HeadArgs, HeadReport};
use super::layers::{LayerArgs, LayerReport};
use crate::decoder::Decoder;
use crate::error::Result;
use crate::source::WeightSource;

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
}

impl ShortcutArgs {
    /// Makes `decoder`, which runs the model of `source`, compute as chosen.
    ///
    /// # Errors
    /// When the file has not what that takes.
    pub fn apply(&self, decoder: Decoder, source: &dyn WeightSource) -> Result<(Decoder, ShortcutReport)> {
        let (decoder, head) = self.head.head.apply(decoder, source)?;
        let layers = self.layers.choose(source)?;
        let decoder = match &layers {
            Some(report) => decoder.without_layers(report.skipped()),
            None => decoder,
        };
        Ok((decoder, ShortcutReport { head, layers }))
    }

    /// The layers of the model of `source` that will be left out.
    ///
    /// # Errors
    /// When the file does not say which.
    pub fn skipped(&self, source: &dyn WeightSource) -> Result<Vec<usize>> {
        Ok(self.layers.choose(source)?.map_or_else(Vec::new, |report| report.skipped().to_vec()))
    }
}

impl ShortcutReport {
    /// Lines for people, each with its end.
    pub fn lines(&self) -> String {
        let lines = [self.head.map(HeadReport::line), self.layers.as_ref().map(LayerReport::line)];
        lines.into_iter().flatten().map(|line| line + "\n").collect()
    }

    /// Adds fields to a JSON object; null is what is not in use.
    pub fn add_to(&self, object: &mut Value) {
        object["head"] = self.head.map(HeadReport::to_json).into();
        object["layers"] = self.layers.as_ref().map(LayerReport::to_json).into();
    }
}
