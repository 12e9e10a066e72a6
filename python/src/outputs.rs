//! What a model computes for texts, as NumPy arrays: logits, scores, hidden states.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString};
use qsf_cli::kept_model::{KeptModel, Pooling};
use qsf_runtime::cpu::zeros;
use qsf_runtime::{Result, RuntimeError};

use crate::arrays::{computed_array, new_array};
use crate::errors::raise;
use crate::work::{Work, report};

/// A text, or its tokens.
#[derive(Clone)]
pub enum Text {
    /// The text.
    Plain(String),
    /// The tokens.
    Tokens(Vec<u32>),
}

impl Text {
    /// # Errors
    /// When it is neither.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Text> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Text::Plain(text.extract()?));
        }
        let expected = || PyTypeError::new_err("expected a text, or a sequence of token ids");
        // Bytes would be taken for ids.
        if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
            return Err(expected());
        }
        let ids =
            object.try_iter().map_err(|_| expected())?.map(|id| id?.extract::<u32>().map_err(|_| expected()));
        Ok(Text::Tokens(ids.collect::<PyResult<_>>()?))
    }

    /// Several.
    ///
    /// # Errors
    /// When one is neither.
    pub fn each(object: &Bound<'_, PyAny>) -> PyResult<Vec<Text>> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("expected a list of texts, or of token ids; found one text"));
        }
        object.try_iter()?.map(|item| Text::of(&item?)).collect()
    }

    /// One text, or several; of several also none.
    fn several(object: &Bound<'_, PyAny>) -> PyResult<(Vec<Text>, bool)> {
        if object.is_instance_of::<PyString>() {
            return Ok((vec![Text::of(object)?], true));
        }
        // An iterator can be gone through once.
        let items = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if items.first().is_some_and(|first| first.extract::<u32>().is_ok()) {
            return Ok((vec![Text::of(PyList::new(object.py(), items)?.as_any())?], true));
        }
        Ok((items.iter().map(Text::of).collect::<PyResult<_>>()?, false))
    }

    /// Its tokens, where a text begins.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn tokens(&self, model: &KeptModel) -> Result<Vec<u32>> {
        match self {
            Text::Plain(text) => model.tokenizer.encode(text),
            Text::Tokens(tokens) => Ok(tokens.clone()),
        }
    }
}

/// `Model.logits`.
pub fn logits<'py>(
    py: Python<'py>,
    model: &Arc<KeptModel>,
    text: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (text, model) = (Text::of(text)?, model.clone());
    let vocab = model.decoder.model().config.vocab as usize;
    let work = Work::start(move |_, cancel| Ok(model.logits(&text.tokens(&model)?, cancel)?))?;
    let logits = work.wait(py, |event| report(py, event, None))?;
    computed_array(py, &[logits.len() / vocab, vocab], logits)
}

/// `Model.score`.
pub fn score<'py>(
    py: Python<'py>,
    model: &Arc<KeptModel>,
    contexts: &Bound<'py, PyAny>,
    continuations: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (mut contexts, one) = Text::several(contexts)?;
    let (continuations, _) = Text::several(continuations)?;
    if one {
        contexts = vec![contexts[0].clone(); continuations.len()];
    }
    if contexts.len() != continuations.len() {
        let (contexts, continuations) = (contexts.len(), continuations.len());
        let problem = format!("{contexts} contexts for {continuations} continuations: expected one of each");
        return Err(raise(py)(RuntimeError::Request(problem)));
    }
    let model = model.clone();
    let work = Work::start(move |_, cancel| {
        let pairs = contexts.iter().zip(&continuations).map(|(context, continuation)| {
            cancel.check()?;
            match (context, continuation) {
                (Text::Plain(context), Text::Plain(continuation)) => model.encode_pair(context, continuation),
                // Tokens of a text that goes on have no start token of their own.
                (context, Text::Plain(text)) => {
                    Ok((context.tokens(&model)?, model.tokenizer.encode_plain(text)?))
                }
                (context, continuation) => Ok((context.tokens(&model)?, continuation.tokens(&model)?)),
            }
        });
        let (contexts, continuations): (Vec<_>, Vec<_>) =
            pairs.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(model.score(&contexts, &continuations, cancel)?)
    })?;
    let scores = work.wait(py, |event| report(py, event, None))?;
    let likelihoods = new_array(py, "float64", &[scores.len()], size_of::<f64>(), |bytes| {
        for (to, score) in bytes.as_chunks_mut().0.iter_mut().zip(&scores) {
            *to = score.log_likelihood().to_ne_bytes();
        }
    })?;
    let greedy = new_array(py, "bool", &[scores.len()], 1, |bytes| {
        bytes.iter_mut().zip(&scores).for_each(|(to, score)| *to = u8::from(score.greedy));
    })?;
    Ok((likelihoods, greedy))
}

/// `Model.classify`.
pub fn classify<'py>(
    py: Python<'py>,
    model: &Arc<KeptModel>,
    prompts: &Bound<'py, PyAny>,
    labels: Option<Vec<String>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (prompts, model) = (Text::each(prompts)?, model.clone());
    let tokens = labels.map(|labels| model.label_tokens(&labels)).transpose().map_err(raise(py))?;
    let width = tokens.as_ref().map_or(model.decoder.model().config.vocab as usize, Vec::len);
    let count = prompts.len();
    let work = Work::start(move |teller, cancel| {
        let encoded = prompts.iter().map(|prompt| {
            cancel.check()?;
            prompt.tokens(&model)
        });
        let encoded = encoded.collect::<Result<Vec<_>>>()?;
        let mut rows = zeros(count.saturating_mul(width), "what is classified")?;
        model.classify(&encoded, cancel, teller, &mut |number, logits| {
            let row = &mut rows[number * width..][..width];
            match &tokens {
                Some(tokens) => row.copy_from_slice(&model.log_probabilities(logits, tokens)),
                None => row.copy_from_slice(logits),
            }
            Ok(())
        })?;
        Ok(rows)
    })?;
    let rows = work.wait(py, |event| report(py, event, progress))?;
    computed_array(py, &[count, width], rows)
}

/// `Model.embed`.
pub fn embed<'py>(
    py: Python<'py>,
    model: &Arc<KeptModel>,
    texts: &Bound<'py, PyAny>,
    pooling: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let pooling = match pooling {
        "last" => Pooling::Last,
        "mean" => Pooling::Mean,
        _ => {
            let problem = format!("pooling is {pooling:?}, expected \"last\" or \"mean\"");
            return Err(raise(py)(RuntimeError::Request(problem)));
        }
    };
    let ((texts, one), model) = (Text::several(texts)?, model.clone());
    let (count, width) = (texts.len(), model.decoder.model().config.hidden as usize);
    let work = Work::start(move |_, cancel| {
        let mut rows = zeros(count.saturating_mul(width), "hidden states")?;
        for (row, text) in rows.chunks_exact_mut(width).zip(&texts) {
            row.copy_from_slice(&model.embed(&text.tokens(&model)?, pooling, cancel)?);
        }
        Ok(rows)
    })?;
    let rows = work.wait(py, |event| report(py, event, None))?;
    if one { computed_array(py, &[width], rows) } else { computed_array(py, &[count, width], rows) }
}
