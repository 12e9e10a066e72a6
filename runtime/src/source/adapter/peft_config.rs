//! `adapter_config.json` of PEFT: what matrices are scaled with, and what makes an adapter something else than pairs of matrices.

use std::path::Path;

use serde_json::Value;

use crate::error::{Result, RuntimeError};
use crate::model_dir::{Fields, describe};
use qsf_format::printable::quote;

/// Fields that say how an adapter was made, for which model, or which modules have one: its tensors say the latter, too.
///
/// `fan_in_fan_out` is of modules that store their matrix as inputs x outputs; the pair is the same in both cases.
const OF_NO_EFFECT: [&str; 22] = [
    "auto_mapping",
    "base_model_name_or_path",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "r",
    "lora_alpha",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
];

/// Ways to begin a training that leave the model as it was; others take something out of its matrices.
const BEGINNINGS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// What a directory says of its pairs.
#[derive(Debug)]
pub(super) struct PeftConfig {
    rank: u32,
    alpha: f64,
    /// Whether scales fall with the root of the rank (arXiv 2312.03732).
    by_root: bool,
    ranks: Vec<(String, f64)>,
    alphas: Vec<(String, f64)>,
}

impl PeftConfig {
    /// # Errors
    /// When a field is missing or wrong, or changes what the adapter does in a way that is not done here.
    pub fn read(fields: Fields<'_>) -> Result<PeftConfig> {
        let kind = fields.str("peft_type")?.unwrap_or("no peft_type");
        if kind != "LORA" {
            return Err(unsupported(fields.path, format!("an adapter of type {}", quote(kind)), "LORA is"));
        }
        for (name, value) in fields.map {
            refuse(fields, name, value)?;
        }
        let config = PeftConfig {
            rank: fields.need_u32("r")?,
            alpha: need_number(fields, "lora_alpha")?,
            by_root: fields.bool("use_rslora")?.unwrap_or(false),
            ranks: pattern(fields, "rank_pattern")?,
            alphas: pattern(fields, "alpha_pattern")?,
        };
        Ok(config)
    }

    /// What the product of a pair is multiplied with.
    ///
    /// # Errors
    /// When patterns contradict each other, or the pair has another rank.
    pub fn scale(&self, path: &Path, module: &str, rank: usize) -> Result<f32> {
        let wanted = matching(path, "rank_pattern", &self.ranks, module)?.unwrap_or(f64::from(self.rank));
        if wanted != rank as f64 {
            let place = format!("the rank of {}", quote(module));
            return Err(RuntimeError::bad_input(
                path,
                place,
                format!("{rank}, as its matrices have"),
                wanted,
            ));
        }
        let alpha = matching(path, "alpha_pattern", &self.alphas, module)?.unwrap_or(self.alpha);
        Ok((alpha / if self.by_root { wanted.sqrt() } else { wanted }) as f32)
    }
}

fn unsupported(path: &Path, what: String, supported: &str) -> RuntimeError {
    RuntimeError::unsupported(path, what, supported)
}

/// Refuses a field that changes what an adapter does and is not read here.
fn refuse(fields: Fields<'_>, name: &str, value: &Value) -> Result<()> {
    let is_nothing = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if is_nothing || OF_NO_EFFECT.contains(&name) {
        return Ok(());
    }
    let what = |what: &str| format!("{} = {} ({what})", quote(name), describe(value));
    let (what, supported) = match (name, value) {
        ("bias", Value::String(kind)) if kind == "none" => return Ok(()),
        ("init_lora_weights", Value::Bool(true)) => return Ok(()),
        ("init_lora_weights", Value::String(kind)) if BEGINNINGS.contains(&kind.as_str()) => return Ok(()),
        ("init_lora_weights", _) => (
            what("a training that changed the model itself"),
            "save the adapter as one of the unchanged model: save_pretrained with path_initial_model_for_weight_conversion",
        ),
        ("use_dora", _) => (what("DoRA"), "merge the adapter into the model with PEFT first"),
        ("bias" | "lora_bias", _) => {
            (what("trained biases"), "merge the adapter into the model with PEFT first")
        }
        ("modules_to_save" | "trainable_token_indices", _) => {
            (what("whole modules beside the pairs"), "merge the adapter into the model with PEFT first")
        }
        ("target_parameters", _) => (
            what("updates of experts that are stored together"),
            "merge the adapter into the model with PEFT first",
        ),
        ("layer_replication", _) => {
            (what("layers that are there twice"), "merge it into the model with PEFT first")
        }
        ("alora_invocation_tokens", _) => {
            (what("an adapter that begins within a text"), "adapters that are always on can be applied")
        }
        _ => (
            what("which is not known here"),
            "adapters of r, lora_alpha, use_rslora and patterns of these are",
        ),
    };
    Err(unsupported(fields.path, what, supported))
}

fn need_number(fields: Fields<'_>, name: &str) -> Result<f64> {
    let number = fields.f64(name)?.ok_or_else(|| fields.wrong(name, "a number", "no such field"))?;
    if number.is_finite() { Ok(number) } else { Err(fields.wrong(name, "a finite number", number)) }
}

/// The members of a pattern: ends of the paths of modules, and a number for each.
fn pattern(fields: Fields<'_>, name: &'static str) -> Result<Vec<(String, f64)>> {
    let Some(pattern) = fields.object(name, name)? else { return Ok(Vec::new()) };
    let member = |(key, value): (&String, &Value)| {
        // PEFT takes a key for a regular expression. A dot stands for itself in all that are in use.
        let plain = key.strip_prefix('^').unwrap_or(key);
        if plain.is_empty() || !plain.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
            let what = format!("the key {} of {name}", quote(key));
            return Err(unsupported(fields.path, what, "names of modules, and ends of them, are"));
        }
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        let number = number.ok_or_else(|| {
            let place = format!("{name}.{}", quote(key));
            RuntimeError::bad_input(fields.path, place, "a number", describe(value))
        })?;
        Ok((key.clone(), number))
    };
    pattern.map.iter().map(member).collect()
}

/// The number of the key that a path ends with, if there is one.
fn matching(path: &Path, name: &str, pattern: &[(String, f64)], module: &str) -> Result<Option<f64>> {
    let matches = |key: &str| {
        let before = match key.strip_prefix('^') {
            Some(whole) => return whole == module,
            None => module.strip_suffix(key),
        };
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let mut found: Option<&(String, f64)> = None;
    for entry in pattern.iter().filter(|(key, _)| matches(key)) {
        if let Some((key, number)) = found
            && *number != entry.1
        {
            let place = format!("{name} for {}", quote(module));
            let both = format!("{number} by {} and {} by {}", quote(key), entry.1, quote(&entry.0));
            return Err(RuntimeError::bad_input(path, place, "one number", both));
        }
        found = Some(entry);
    }
    Ok(found.map(|(_, number)| *number))
}
