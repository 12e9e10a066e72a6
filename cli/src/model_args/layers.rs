//! `--quality` and `--early-exit`: how many of its layers a model runs.

use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use qsf_format::EarlyExits;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{Decoder, Result, RuntimeError, skipped_layers};
use serde_json::{Value, json};

/// Flags of binaries that run models.
#[derive(Debug, Clone, Copy, Args)]
pub struct LayerArgs {
    /// Part of the layers to run at least, 0 to 1: the least important are left out, never the first and last two; for files
    /// made with --calibration or --target-size, where importance was measured
    #[arg(long, value_name = "Q", default_value = "1", help_heading = "Layers")]
    pub quality: Share,
    /// Leave the model for a generated token behind the first layer whose classifier is at least so sure, 0 to 1, that the
    /// layers left would choose the same token; at 1 never. For files made with --early-exit
    #[arg(long, value_name = "CONFIDENCE", help_heading = "Layers")]
    pub early_exit: Option<Share>,
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
    exits: Option<Exits>,
}

/// Where the model may be left.
#[derive(Debug, Clone, PartialEq)]
struct Exits {
    /// The least confidence.
    confidence: f64,
    classifiers: Arc<EarlyExits>,
}

impl LayerReport {
    /// The layers that are left out, ascending.
    pub fn skipped(&self) -> &[usize] {
        &self.skipped
    }

    /// Makes `decoder`, which runs the model that this was chosen for, leave that out.
    ///
    /// # Errors
    /// When the classifiers are for a model of another shape.
    pub fn apply(&self, decoder: Decoder) -> Result<Decoder> {
        let decoder = decoder.without_layers(&self.skipped);
        match &self.exits {
            Some(exits) => decoder.with_early_exit(exits.classifiers.clone(), exits.confidence as f32),
            None => Ok(decoder),
        }
    }

    /// For JSON.
    pub fn to_json(&self) -> Value {
        let exits = self.exits.as_ref();
        let exits =
            exits.map(|exits| json!({ "confidence": exits.confidence, "behind_layers": exits.behind() }));
        json!({ "quality": self.quality, "count": self.layers, "skipped": self.skipped, "early_exit": exits })
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let skipped = (self.quality < 1.0).then(|| self.skipped_line());
        skipped.into_iter().chain(self.exits.as_ref().map(Exits::line)).collect::<Vec<_>>().join("; ")
    }

    fn skipped_line(&self) -> String {
        let LayerReport { quality, layers, skipped, .. } = self;
        if skipped.is_empty() {
            // The share alone would leave out so many.
            let why = match layers - (quality * *layers as f64 - 1e-9).ceil() as usize {
                0 => "one less would be less than that",
                _ => "as the first two, the last two and those of unknown importance always are",
            };
            return format!("quality {quality}: all {layers} layers are run, {why}");
        }
        let numbers: Vec<String> = skipped.iter().map(usize::to_string).collect();
        format!(
            "quality {quality}: {} of {layers} layers are left out: {}",
            skipped.len(),
            numbers.join(", ")
        )
    }
}

impl Exits {
    /// The layers behind which there is a classifier.
    fn behind(&self) -> Vec<u32> {
        self.classifiers.exits.iter().map(|exit| exit.layer).collect()
    }

    fn line(&self) -> String {
        let behind: Vec<String> = self.behind().iter().map(u32::to_string).collect();
        format!("early exit at confidence {}, behind layers {}", self.confidence, behind.join(", "))
    }
}

impl LayerArgs {
    /// What is left out of the model of `source`; `None`: nothing is to be.
    ///
    /// # Errors
    /// When layers are to be left out, and the file does not say how important any is; when the model is to be left early, and
    /// the file has no classifiers for that, or damaged ones.
    pub fn choose(&self, source: &dyn WeightSource) -> Result<Option<LayerReport>> {
        if self.quality == Share::ALL && self.early_exit.is_none() {
            return Ok(None);
        }
        let Share(quality) = self.quality;
        let layers = source.config().layers as usize;
        Ok(Some(LayerReport { quality, layers, skipped: self.skipped(source)?, exits: self.exits(source)? }))
    }

    fn skipped(&self, source: &dyn WeightSource) -> Result<Vec<usize>> {
        if self.quality == Share::ALL {
            return Ok(Vec::new());
        }
        let (Share(quality), importance) = (self.quality, source.layer_importance());
        if importance.iter().all(Option::is_none) {
            return Err(RuntimeError::Request(format!(
                "--quality {quality}: {} does not say how important its layers are; convert the model with --calibration or --target-size \
                 or --target-bpw, which measure it, or use --quality 1",
                source.path().display()
            )));
        }
        Ok(skipped_layers(&importance, quality))
    }

    fn exits(&self, source: &dyn WeightSource) -> Result<Option<Exits>> {
        let Some(Share(confidence)) = self.early_exit else { return Ok(None) };
        let classifiers = source.early_exits()?.ok_or_else(|| {
            RuntimeError::Request(format!(
                "--early-exit {confidence}: {} has no classifiers for leaving the model early; convert the model with \
                 qsf-convert --early-exit, or leave this flag out",
                source.path().display()
            ))
        })?;
        Ok(Some(Exits { confidence, classifiers: Arc::new(classifiers) }))
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
