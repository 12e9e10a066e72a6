//! `--part` and `--join`: parts of an evaluation as files, and all of them as one.

use std::path::{Path, PathBuf};

use qsf_runtime::eval::{EvalOptions, EvaluatedChunks, EvaluationPart, Mark, join};
use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::{model_fingerprint, text_fingerprint};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{Result, RuntimeError, WorkPart};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::base::Base;
use super::report::{Facts, Names, Report, VERSION};
use crate::json_document::document;

/// What the figures of a part are of, beside how the model is run.
pub(super) struct Fingerprints {
    model: String,
    base: Option<String>,
    tokens: String,
}

impl Fingerprints {
    /// Looks at the models, and at the tokens that are evaluated.
    pub fn of(
        model: &dyn WeightSource,
        base: &Base,
        tokens: &[u32],
        options: &EvalOptions,
    ) -> Result<Fingerprints> {
        let evaluated = options.chunks_of(tokens)? * options.ctx;
        Ok(Fingerprints {
            model: hex(&model_fingerprint(model)?),
            base: base.fingerprint()?,
            tokens: hex(&text_fingerprint(&tokens[..evaluated])),
        })
    }

    /// All that must be the same in every part.
    pub fn mark(self, options: &EvalOptions, facts: &Facts) -> anyhow::Result<Mark> {
        let mut mark: Mark = serde_json::from_value(serde_json::to_value(facts)?)?;
        mark.insert("version".into(), VERSION.into());
        mark.insert("model".into(), self.model.into());
        mark.insert("base".into(), self.base.into());
        mark.insert("text".into(), self.tokens.into());
        mark.insert("first_token".into(), options.bos.into());
        // Positions are let go between steps.
        mark.insert("step".into(), options.kv.keep.map(|_| options.steps()).into());
        Ok(mark)
    }
}

/// A part that was measured, with what its file says of it.
pub(super) struct MeasuredPart<'a> {
    pub part: WorkPart,
    pub mark: Mark,
    pub names: &'a Names,
    /// What `--json` prints of a RAM budget.
    pub streaming: Option<Value>,
    pub sums: EvaluatedChunks,
}

/// A part that is in a file.
pub(super) struct WrittenPart {
    path: PathBuf,
    part: WorkPart,
    sums: EvaluatedChunks,
}

impl MeasuredPart<'_> {
    /// Writes the file, with `force` in place of one that is there.
    pub fn write(self, path: &Path, force: bool) -> anyhow::Result<WrittenPart> {
        let MeasuredPart { part, mark, names, streaming, sums } = self;
        let mut notes: Mark = serde_json::from_value(serde_json::to_value(names)?)?;
        notes.insert("streaming".into(), json!(streaming));
        let whole = EvaluationPart { mark, notes, sums };
        whole.write(path, force)?;
        Ok(WrittenPart { path: path.to_owned(), part, sums: whole.sums })
    }
}

impl WrittenPart {
    /// What `--json` prints.
    pub fn to_json(&self) -> Value {
        let WrittenPart { path, part, sums } = self;
        let members = json!({
            "part": part.to_string(), "path": path.display().to_string(), "first_chunk": sums.range().start,
            "chunks": sums.range().len(), "total_chunks": sums.total(), "tokens": sums.tokens(), "seconds": sums.seconds(),
        });
        document("evaluation_part", members)
    }

    /// A line for people.
    pub fn to_text(&self) -> String {
        let WrittenPart { path, part, sums } = self;
        let range = sums.range();
        format!(
            "part {part}: chunks {} to {} of {}, {} positions scored, {:.1} s, in {}\n",
            range.start,
            range.end - 1,
            sums.total(),
            sums.tokens(),
            sums.seconds(),
            path.display()
        )
    }
}

/// The evaluation that the files are all parts of.
///
/// # Errors
/// When a file is no part, parts do not belong together, or a chunk is missing or comes twice.
pub fn join_parts(paths: &[PathBuf]) -> Result<Report> {
    let (result, parts) = join(paths)?;
    let said = parts.iter().map(|part| {
        let range = part.sums.range();
        json!({
            "first_chunk": range.start, "chunks": range.len(), "seconds": part.sums.seconds(),
            "streaming": part.notes.get("streaming"),
        })
    });
    let (Some(path), Some(first)) = (paths.first(), parts.first()) else {
        return Err(RuntimeError::Request("no part of an evaluation was named".into()));
    };
    Ok(Report {
        result,
        names: read(path, &first.notes)?,
        facts: read(path, &first.mark)?,
        streaming: None,
        saved_base: None,
        parts: Some(said.collect()),
    })
}

/// What a part says, which this program has written in another process.
fn read<T: DeserializeOwned>(path: &Path, fields: &Mark) -> Result<T> {
    let fields = fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        RuntimeError::bad_input(path, "what it says of the evaluation", "the fields of this version", error)
    })
}
