//! The options of a generated text, as keywords of Python.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::kept_model::TextRequest;
use qsf_runtime::RuntimeError;
use qsf_runtime::sample::{MAX_SEED, Penalties, SamplerOptions};

use crate::errors::raise;

/// What to generate behind `prompt`, with these keywords.
///
/// # Errors
/// For a keyword that there is not, or a value that cannot be.
pub fn generation_request(
    py: Python<'_>,
    prompt: String,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<TextRequest> {
    let parser = pyo3::wrap_pyfunction!(stream, py)?;
    let request = parser.call((prompt,), options)?;
    Ok(request.cast_into::<Asked>()?.get().0.clone())
}

/// A request on its way through the parser of arguments.
#[pyclass(frozen)]
struct Asked(TextRequest);

/// Named for what it parses the keywords of, as messages have the name.
#[pyfunction]
#[pyo3(signature = (prompt, *, max_tokens = None, temperature = 0.7, top_k = 40, top_p = 0.9, min_p = 0.0, seed = None,
                    repeat_penalty = 1.0, presence_penalty = 0.0, frequency_penalty = 0.0, repeat_last_n = 64,
                    stop = None, ignore_eos = false, chat = false, system_prompt = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
fn stream(
    py: Python<'_>,
    prompt: String,
    max_tokens: Option<usize>,
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    seed: Option<i64>,
    repeat_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    repeat_last_n: usize,
    stop: Option<Stop>,
    ignore_eos: bool,
    chat: bool,
    system_prompt: Option<String>,
) -> PyResult<Asked> {
    let penalties = Penalties {
        repeat: repeat_penalty,
        presence: presence_penalty,
        frequency: frequency_penalty,
        last: repeat_last_n,
    };
    let sampling = seed_of(seed)
        .and_then(|seed| SamplerOptions::new(temperature, top_k, top_p, min_p, seed))
        .and_then(|options| options.with_penalties(penalties))
        .map_err(raise(py))?;
    let stop = stop.map_or_else(Vec::new, Stop::texts);
    let request = TextRequest { prompt, max_tokens, sampling, chat, system_prompt, stop, ignore_eos };
    request.check().map_err(raise(py))?;
    Ok(Asked(request))
}

/// `stop`: a text or several.
#[derive(FromPyObject)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

impl Stop {
    fn texts(self) -> Vec<String> {
        match self {
            Stop::One(text) => vec![text],
            Stop::Several(texts) => texts,
        }
    }
}

/// A seed; one that is not given, or is -1, comes from the clock.
fn seed_of(seed: Option<i64>) -> Result<u64, RuntimeError> {
    let nanoseconds =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    match seed {
        None | Some(-1) => Ok(nanoseconds() & MAX_SEED),
        Some(seed) => u64::try_from(seed).ok().filter(|seed| *seed <= MAX_SEED).ok_or_else(|| {
            let expected = "a whole number from 0 to 2^53 - 1, or -1 for any";
            RuntimeError::Request(format!("--seed is {seed}, expected {expected}"))
        }),
    }
}
