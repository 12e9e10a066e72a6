//! The whole of a plan, and its file:
//!
//! ```json
//! { "version": 2, "tool": "qsf-convert 0.1.0", "named": "500kB", "sources": [...], "options": {...},
//!   "types": { "token_embedding": "n5", "layer 0 attn_q": "n3+0.5%" } }
//! ```
//!
//! The type `n3+0.5%` stores half a percent of the weights apart from the blocks.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use qsf_format::printable::quote;
use qsf_format::{CodeTables, FormatError, JsonLimits, PartialFile, QuantType, SourceFile, from_json};
use qsf_runtime::RuntimeError;
use qsf_runtime::file_hash::sha256;
use serde::{Deserialize, Serialize};

use super::options::SavedOptions;
use crate::error::{ConvertError, Result};
use crate::options::ConvertOptions;
use crate::plan::Plan;
use crate::replay::{SurveyedModel, Types};
use crate::sections::TOOL;

/// The first was one of types alone.
const VERSION: u32 = 2;

/// Most characters of what a type is called in names of files.
const MOST_NAMED: usize = 64;

/// All that makes a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlan {
    version: u32,
    /// What chose and will quantize.
    pub(super) tool: String,
    /// Of the tables that learned types begin with.
    pub(super) tables_sha256: String,
    /// What the type is called in names of files.
    named: String,
    /// The model's files.
    pub(super) sources: Vec<SourceFile>,
    pub(super) options: SavedOptions,
    /// What was measured of the model, where types were chosen.
    pub(super) survey: Option<SavedSurvey>,
    /// Of the types below, as they were chosen.
    pub(super) types_sha256: String,
    pub(super) types: Types,
}

/// [`SurveyedModel`], with null for what is no number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedSurvey {
    /// In plans of earlier versions. Nothing depends on it any more.
    #[serde(default, rename = "whole_text", skip_serializing)]
    _whole_text: Option<bool>,
    layer_importance: Vec<Option<f64>>,
}

impl SavedSurvey {
    fn of(survey: &SurveyedModel) -> SavedSurvey {
        let number = |value: &f32| Some(f64::from(*value)).filter(|value| value.is_finite());
        SavedSurvey { _whole_text: None, layer_importance: survey.importance.iter().map(number).collect() }
    }

    pub fn restore(&self) -> SurveyedModel {
        let number = |value: &Option<f64>| value.map_or(f32::NAN, |value| value as f32);
        SurveyedModel { importance: self.layer_importance.iter().map(number).collect() }
    }
}

impl SavedPlan {
    /// The plan of a conversion of the files `sources` to the types of `plan`; its `--stats-in` files are of `stats_texts`.
    pub(crate) fn of(
        options: &ConvertOptions,
        plan: &Plan,
        sources: Vec<SourceFile>,
        stats_texts: Option<&[String]>,
        survey: Option<&SurveyedModel>,
    ) -> SavedPlan {
        let types = Types::of(plan);
        SavedPlan {
            version: VERSION,
            tool: TOOL.into(),
            tables_sha256: tables_sha256(),
            named: options.named.clone(),
            sources,
            options: SavedOptions::of(options, stats_texts),
            survey: survey.map(SavedSurvey::of),
            types_sha256: types.sha256(),
            types,
        }
    }

    /// What the type is called in names of files, such as `4bit` or `24MB`.
    pub fn named(&self) -> &str {
        &self.named
    }

    /// How the name of the file ends that it makes: `qsf` or `gguf`.
    pub fn extension(&self) -> &str {
        &self.options.to
    }

    /// Writes it to `path`. A file that is there is replaced if it is a plan of the same conversion, or with `force`.
    ///
    /// # Errors
    /// When something else is there, or the file cannot be written.
    pub(crate) fn write(&self, path: &Path, force: bool) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|_| RuntimeError::Request("--save-plan: names of texts that are not UTF-8".into()))?;
        json.push(b'\n');
        let ours = |there: &SavedPlan| there.sources == self.sources && there.options == self.options;
        let force = force || SavedPlan::read(path).is_ok_and(|there| ours(&there));
        let (mut target, mut file) = PartialFile::create(path, force)?;
        file.write_all(&json).map_err(|e| ConvertError::io(target.partial(), "write", e))?;
        Ok(target.publish(&file)?)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// When the file cannot be read or is no plan of this version.
    pub fn read(path: &Path) -> Result<SavedPlan> {
        let refused = |found: String| {
            let expected = "a plan that --save-plan wrote";
            ConvertError::Runtime(RuntimeError::bad_input(path, "plan", expected, found))
        };
        let file = File::open(path).map_err(|e| ConvertError::io(path, "open", e))?;
        let mut json = Vec::new();
        // One byte beyond the limit tells a file that is too large, also one that grows meanwhile.
        let most = JsonLimits::DESCRIPTION.bytes as u64;
        file.take(most + 1).read_to_end(&mut json).map_err(|e| ConvertError::io(path, "read", e))?;
        if json.len() as u64 > most {
            return Err(refused(format!("more than {most} bytes")));
        }
        let plan: SavedPlan = from_json(&json, JsonLimits::DESCRIPTION).map_err(|error| {
            let Ok(Version { version }) = from_json::<Version>(&json, JsonLimits::DESCRIPTION) else {
                return refused(error);
            };
            if version == VERSION { refused(error) } else { refused(other_version(version)) }
        })?;
        if plan.version != VERSION {
            return Err(refused(other_version(plan.version)));
        }
        if !is_part_of_a_name(&plan.named) {
            let expected = format!("a name of at most {MOST_NAMED} letters, digits and marks of _ . -");
            let found = quote(&plan.named);
            return Err(RuntimeError::bad_input(path, "\"named\"", expected, found).into());
        }
        Ok(plan)
    }

    /// Whether a plan may be written to `path`: said before the work.
    ///
    /// # Errors
    /// When something else than a plan is there.
    pub fn check_place(path: &Path, force: bool) -> Result<()> {
        if !force && path.symlink_metadata().is_ok() && SavedPlan::read(path).is_err() {
            return Err(FormatError::Exists { path: path.to_owned() }.into());
        }
        Ok(())
    }
}

/// Whether what a type is called can stand in the name of a file, and leads nowhere: who writes a plan may be a stranger.
fn is_part_of_a_name(named: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=MOST_NAMED).contains(&named.len()) && !named.starts_with('.') && named.bytes().all(plain)
}

/// What all plans have in common.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn other_version(found: u32) -> String {
    format!(
        "version {found}, and this program writes and reads version {VERSION}: make it again by --save-plan"
    )
}

pub(super) fn tables_sha256() -> String {
    sha256(&CodeTables::default().to_bytes(&QuantType::ALL))
}
