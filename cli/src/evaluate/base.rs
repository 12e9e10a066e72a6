//! The base that a model is compared with: one that runs, or one whose log-probabilities were saved.

use std::path::{Path, PathBuf};

use qsf_runtime::eval::{BaseFacts, BaseFile, EvalOptions, SavedBase};
use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::model_fingerprint;
use qsf_runtime::source::{self, WeightSource, tokenizer_of};
use qsf_runtime::text_file::TextFile;
use qsf_runtime::{Result, RuntimeError};

use super::report::{Facts, VERSION};
use crate::model_name::model_name;
use crate::own_files::OwnFiles;

/// What `--base` names.
pub(super) enum Base {
    Nothing,
    Model(Box<dyn WeightSource>),
    Saved(Box<SavedBase>),
}

/// A text as tokens.
pub(super) struct EvaluatedText<'a> {
    pub path: &'a Path,
    pub tokens: &'a [u32],
}

impl Base {
    pub fn open(path: Option<&Path>) -> Result<Base> {
        Ok(match path {
            None => Base::Nothing,
            Some(path) if SavedBase::is_at(path) => Base::Saved(Box::new(SavedBase::open(path)?)),
            Some(path) => Base::Model(source::open(path)?),
        })
    }

    /// The model, where it is one.
    pub fn source(&self) -> Option<&dyn WeightSource> {
        if let Base::Model(source) = self { Some(source.as_ref()) } else { None }
    }

    /// Files that are read, `path` being where it was opened.
    pub fn add_to(&self, files: OwnFiles, path: Option<&PathBuf>) -> OwnFiles {
        match self {
            Base::Model(source) => files.reads_model("--base", source.as_ref()),
            Base::Nothing | Base::Saved(_) => files.reads("--base", path),
        }
    }

    /// What reports call it.
    pub fn name(&self) -> Option<String> {
        match self {
            Base::Nothing => None,
            Base::Model(source) => Some(model_name(source.path())),
            Base::Saved(saved) => Some(saved.facts().model.clone()),
        }
    }

    /// Its files, by which a model that was made of it knows it.
    pub fn files(&self) -> Vec<BaseFile> {
        match self {
            Base::Nothing => Vec::new(),
            Base::Model(source) => files_of(source.as_ref()),
            Base::Saved(saved) => saved.facts().files.clone(),
        }
    }

    /// What parts of an evaluation know it by. Figures of a saved base are not to the bit those of one that runs.
    pub fn fingerprint(&self) -> Result<Option<String>> {
        Ok(match self {
            Base::Nothing => None,
            Base::Model(source) => Some(hex(&model_fingerprint(source.as_ref())?)),
            Base::Saved(saved) => Some(format!("saved {}", saved.facts().fingerprint)),
        })
    }

    /// Checks that the base reads the text as the same tokens as `model`, which is evaluated as `options` say.
    pub fn check(
        &mut self,
        model: &dyn WeightSource,
        text: &EvaluatedText<'_>,
        options: &EvalOptions,
    ) -> Result<()> {
        match self {
            Base::Nothing => Ok(()),
            Base::Saved(saved) => {
                saved.check(text.tokens, options, model.config().vocab, &text_sha256(text.path)?)
            }
            Base::Model(base) => {
                let tokenizer = tokenizer_of(base.as_ref(), "the text to evaluate on")?;
                let most = options.most_tokens();
                if tokenizer.encode_first(&mut TextFile::open(text.path)?, most, true)? == text.tokens {
                    return Ok(());
                }
                Err(RuntimeError::Request(format!(
                    "{} and {} have different tokenizers: their distributions cannot be compared",
                    model.path().display(),
                    base.path().display()
                )))
            }
        }
    }
}

/// What is said of a model whose log-probabilities are saved.
pub(super) fn base_facts(
    source: &dyn WeightSource,
    text: &EvaluatedText<'_>,
    options: &EvalOptions,
    facts: &Facts,
) -> Result<BaseFacts> {
    Ok(BaseFacts {
        model: model_name(source.path()),
        fingerprint: hex(&model_fingerprint(source)?),
        files: files_of(source),
        device: facts.device.clone(),
        activations: facts.activations.clone(),
        kv_type: facts.kv_type.clone(),
        text_sha256: text_sha256(text.path)?,
        first_token: options.bos,
        vocab: source.config().vocab,
        ctx: options.ctx,
        chunks: options.chunks_of(text.tokens)?,
        version: VERSION.into(),
    })
}

/// SHA-256 of a whole text, in hexadecimal.
pub(super) fn text_sha256(path: &Path) -> Result<String> {
    TextFile::open(path)?.into_sha256()
}

fn files_of(source: &dyn WeightSource) -> Vec<BaseFile> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    source.files().iter().map(|path| BaseFile { name: model_name(path), bytes: size(path) }).collect()
}
