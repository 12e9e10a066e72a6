//! `--quality`: how many of its layers a model runs.

use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};

use crate::decoder::skipped_layers;
use crate::error::{Result, RuntimeError};
use crate::source::WeightSource;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Copy, Args)]
pub struct LayerArgs {
    /// Part of the layers to run at least, 0 to 1: the least important are left out, never the first and last two; for files
    /// made with --target-size, where importance was measured
    #[arg(long, value_name = "Q", default_value = "1", help_heading = "Layers")]
    pub quality: Share,
}

/// A part of all: a number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// All.
    pub const ALL: Share = Share(1.0);
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let number = text.parse().ok().filter(|quality| (0.0..=1.0).contains(quality));
        number.map(Share).ok_or_else(|| format!("'{text}' is no number from 0 to 1"))
    }
}

/// What is left out.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerReport {
    quality: f64,
    layers: usize,
    skipped: Vec<usize>,
}

impl LayerReport {
    /// The layers that are left out, ascending.
    pub fn skipped(&self) -> &[usize] {
        &self.skipped
    }

    /// For JSON.
    pub fn to_json(&self) -> Value {
        json!({ "quality": self.quality, "layers": self.layers, "skipped": self.skipped })
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let LayerReport { quality, layers, skipped } = self;
        if skipped.is_empty() {
            return format!(
                "quality {quality}: all {layers} layers are run, one less would be less than that"
            );
        }
        let numbers: Vec<String> = skipped.iter().map(usize::to_string).collect();
        format!(
            "quality {quality}: {} of {layers} layers are left out: {}",
            skipped.len(),
            numbers.join(", ")
        )
    }
}

impl LayerArgs {
    /// The layers to leave out of the model of `source`; `None`: none were to be.
    ///
    /// # Errors
    /// When layers are to be left out, and the file does not say how important any is.
    pub fn choose(&self, source: &dyn WeightSource) -> Result<Option<LayerReport>> {
        if self.quality == Share::ALL {
            return Ok(None);
        }
        let (Share(quality), importance) = (self.quality, source.layer_importance());
        if importance.iter().all(Option::is_none) {
            return Err(RuntimeError::Request(format!(
                "--quality {quality}: {} does not say how important its layers are; convert the model with --target-size \
                 or --target-bpw, which measure it, or use --quality 1",
                source.path().display()
            )));
        }
        let skipped = skipped_layers(&importance, quality);
        Ok(Some(LayerReport { quality, layers: importance.len(), skipped }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quality_is_a_number_from_0_to_1() {
        assert_eq!("1".parse(), Ok(Share::ALL));
        assert_eq!("0.85".parse(), Ok(Share(0.85)));
        for wrong in ["", "-0.1", "1.01", "80%", "NaN", "inf"] {
            assert!(wrong.parse::<Share>().unwrap_err().contains("from 0 to 1"), "{wrong}");
        }
    }
}
