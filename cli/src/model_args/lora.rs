//! `--lora`: adapters that are added to a model while it runs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use qsf_runtime::Result;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::adapter::Adapter;
use serde_json::{Value, json};

/// Flag of programs that run models.
#[derive(Debug, Clone, Default, Args)]
pub struct LoraArgs {
    /// Add an adapter (LoRA) to the model: a directory as PEFT saves it or a GGUF file, and what it is multiplied with, such as
    /// dir=0.5 [default: 1]. May be given several times
    #[arg(long, value_name = "PATH[=SCALE]")]
    pub lora: Vec<ScaledPath>,
    /// Run a model without the adapters in its file
    #[arg(long)]
    pub no_lora: bool,
}

/// An adapter and what it is multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledPath {
    /// Directory or file.
    pub path: PathBuf,
    /// 1 where nothing is said.
    pub scale: f32,
}

impl FromStr for ScaledPath {
    type Err = String;

    /// What stands behind the last `=`, where that is a number, is the scale.
    fn from_str(text: &str) -> std::result::Result<ScaledPath, String> {
        let split = text.rsplit_once('=').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
        let (path, scale) = split.unwrap_or((text, 1.0));
        if path.is_empty() {
            return Err("expected the path of an adapter".into());
        }
        if !scale.is_finite() {
            return Err(format!("expected a finite number behind =, found {scale}"));
        }
        Ok(ScaledPath { path: path.into(), scale })
    }
}

/// What is said of an adapter that is in use.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraReport {
    name: String,
    scale: f32,
    matrices: usize,
    rank: usize,
}

impl LoraReport {
    /// Of an adapter before it is added.
    pub fn of(adapter: &Adapter) -> LoraReport {
        LoraReport {
            name: adapter.name.clone(),
            scale: adapter.scale,
            matrices: adapter.updates.len(),
            rank: adapter.rank(),
        }
    }

    /// For JSON.
    pub fn to_json(&self) -> Value {
        let LoraReport { name, scale, matrices, rank } = self;
        json!({ "name": name, "scale": scale, "matrices": matrices, "rank": rank })
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let LoraReport { name, scale, matrices, rank } = self;
        format!("adapter {name}, scale {scale}: {matrices} matrices, rank {rank}")
    }
}

impl LoraArgs {
    /// The adapters that a model is to have: takes those of its file, and reads the others.
    ///
    /// # Errors
    /// When one is damaged, or is for another model.
    pub fn take(&self, source: &mut dyn WeightSource) -> Result<Vec<Adapter>> {
        let mut adapters = if self.no_lora { Vec::new() } else { Adapter::embedded(source)? };
        source.drop_adapters();
        for ScaledPath { path, scale } in &self.lora {
            adapters.push(Adapter::open(path, source.config(), *scale)?);
        }
        Ok(adapters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_the_number_behind_the_last_equals_sign() {
        for (text, path, scale) in [
            ("dir", "dir", 1.0),
            ("dir=0.5", "dir", 0.5),
            ("a=b/dir=-2", "a=b/dir", -2.0),
            ("a=b/dir", "a=b/dir", 1.0),
            ("dir=", "dir=", 1.0),
        ] {
            assert_eq!(text.parse(), Ok(ScaledPath { path: path.into(), scale }), "{text}");
        }
        for wrong in ["", "=1", "dir=inf", "dir=NaN"] {
            assert!(wrong.parse::<ScaledPath>().is_err(), "{wrong}");
        }
    }
}
