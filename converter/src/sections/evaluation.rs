//! How good the converted model is: measured before the file gets its name, and stored in it (section EVAL).

use std::path::Path;
use std::sync::Arc;

use qsf_runtime::cpu::KvTypes;
use qsf_runtime::eval::{EvalOptions, Evaluation, check_tokens, evaluate};
use qsf_runtime::source::{self, WeightSource, tokenizer_of};
use qsf_runtime::text_file::TextFile;
use qsf_runtime::{Decoder, Model, RuntimeError};
use serde_json::{Value, json};

use crate::error::Result;
use crate::options::EvaluationText;
use crate::session::Session;

/// As many chunks of `ctx` tokens of the text at `path` as are to be evaluated, by the tokenizer of `source`.
///
/// # Errors
/// When the text cannot be read or has not one whole chunk, or the source has no tokenizer.
pub fn evaluation_text(
    source: &dyn WeightSource,
    path: &Path,
    ctx: usize,
    chunks: Option<usize>,
) -> Result<EvaluationText> {
    let tokenizer = tokenizer_of(source, "the text to evaluate on")?;
    let mut file = TextFile::open(path)?;
    let options = EvalOptions { ctx, chunks, ..EvalOptions::default() };
    let tokens = tokenizer.encode_first(&mut file, options.most_tokens(), true)?;
    if tokens.len() < ctx {
        let (name, found) = (path.display(), tokens.len());
        let problem =
            format!("{name}: {found} tokens, and an evaluation needs at least {ctx}: take a longer text");
        return Err(RuntimeError::Request(problem).into());
    }
    let scored = options.chunks_of(&tokens)? * ctx;
    check_tokens(&tokens[..scored], source.config().vocab)?;
    let text_sha256 = file.into_sha256()?;
    Ok(EvaluationText { file: path.to_owned(), tokens, text_sha256, bos: tokenizer.bos(), ctx, chunks })
}

/// The file at `path` against the `original`, as section EVAL has it.
///
/// # Errors
/// When one of the two cannot be run, or the user interrupts.
pub(crate) fn evaluate_file(
    path: &Path,
    original: &dyn WeightSource,
    text: &EvaluationText,
    session: &Session<'_>,
) -> Result<Value> {
    let base =
        Decoder::new(Arc::new(Model::load(original)?), session.cpu.clone(), None).stop_on(session.cancel);
    let converted = source::open(path)?;
    let model = Decoder::new(Arc::new(Model::load(converted.as_ref())?), session.cpu.clone(), None)
        .stop_on(session.cancel);
    // As qsf-eval by default, so that both say the same.
    let (kv, base_kv) = (KvTypes::F16, KvTypes::F16);
    let options = EvalOptions {
        ctx: text.ctx,
        chunks: text.chunks,
        bos: text.bos,
        kv: kv.into(),
        base_kv,
        ..EvalOptions::default()
    };
    let found = evaluate(&model, Some(&base), &text.tokens, options, session.progress)?;
    Ok(evaluation_record(&found, &text.text_sha256, model.activations().name()))
}

/// What section EVAL says of an evaluation against the source. Without the time that it took: the same input gives the same bytes.
pub fn evaluation_record(found: &Evaluation, text_sha256: &str, activations: &str) -> Value {
    let divergence = found.divergence.as_ref();
    json!({
        "text_sha256": text_sha256,
        "ctx": found.ctx,
        "chunks": found.chunks,
        "tokens": found.tokens,
        "ppl": found.ppl,
        "base_ppl": divergence.map(|d| d.base_ppl),
        "kld": divergence.map(|d| d.kld),
        "top1": divergence.map(|d| d.top1),
        "activations": activations,
    })
}
