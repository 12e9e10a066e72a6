//! How good the converted model is: measured before the file gets its name, and stored in it (section EVAL).

use std::path::Path;
use std::sync::Arc;

use qsf_runtime::cpu::KvTypes;
use qsf_runtime::eval::{EvalOptions, Evaluation, evaluate};
use qsf_runtime::file_hash::sha256;
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::tokenizer::Tokenizer;
use qsf_runtime::{Decoder, Model, RuntimeError};
use serde_json::{Value, json};

use crate::error::Result;
use crate::options::EvaluationText;
use crate::session::Session;

/// The file at `path` against `source`, as section EVAL has it.
///
/// # Errors
/// When the source has no tokenizer, the text has not one whole chunk, or the user interrupts.
pub(crate) fn evaluate_file(
    path: &Path,
    source: &dyn WeightSource,
    text: &EvaluationText,
    session: &Session<'_>,
) -> Result<Value> {
    let json = source.tokenizer_json().ok_or_else(|| {
        RuntimeError::bad_input(
            source.path(),
            "tokenizer.json",
            "a tokenizer for the text to evaluate on",
            "none",
        )
    })?;
    let tokenizer = Tokenizer::from_json(json, source.path())?;
    let tokens = tokenizer.encode(&text.text)?;
    let base =
        Decoder::new(Arc::new(Model::load(source)?), session.cpu.clone(), None).stop_on(session.cancel);
    let converted = QsfSource::open(path)?;
    let model =
        Decoder::new(Arc::new(Model::load(&converted)?), session.cpu.clone(), None).stop_on(session.cancel);
    // As qsf-eval by default, so that both say the same.
    let (kv, base_kv) = (KvTypes::F16, KvTypes::F16);
    let options = EvalOptions {
        ctx: text.ctx,
        chunks: text.chunks,
        bos: tokenizer.bos(),
        kv: kv.into(),
        base_kv,
        ..EvalOptions::default()
    };
    let found = evaluate(&model, Some(&base), &tokens, options, session.progress)?;
    Ok(record(&found, text, &model))
}

/// Without the time that it took: the same input gives the same bytes.
fn record(found: &Evaluation, text: &EvaluationText, model: &Decoder) -> Value {
    let divergence = found.divergence.as_ref();
    json!({
        "text_sha256": sha256(text.text.as_bytes()),
        "ctx": found.ctx,
        "chunks": found.chunks,
        "tokens": found.tokens,
        "ppl": found.ppl,
        "base_ppl": divergence.map(|d| d.base_ppl),
        "kld": divergence.map(|d| d.kld),
        "top1": divergence.map(|d| d.top1),
        "activations": model.activations().name(),
    })
}
