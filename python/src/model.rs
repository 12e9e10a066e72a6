//! `qsf.Model`: text from a model, whole or piece by piece.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::parse_named;
use qsf_cli::kept_model::{Generated, KeptModel, KeptModelArgs, TextRequest};
use qsf_runtime::sample::{Penalties, SamplerOptions};
use qsf_runtime::{Runner, RuntimeError};

use crate::errors::raise;
use crate::values::named_options;
use crate::work::{Event, Work, report};

/// A model in memory, ready to generate.
///
/// path: a QSF file, HuggingFace directory or GGUF file; the latter two are run at full precision.
/// options: those of qsf-run by their names with "_" for "-": threads=2; ram_budget="200MB" (bytes of the whole process, what
/// Python holds included); kv_type="8bit,4bit"; activations="f32"; quality=0.8; head="clusters"; early_exit=0.9; kv_window=1024;
/// lora="adapter=0.5" (a directory of PEFT or a GGUF file, and what it is multiplied with; or a list of these);
/// ctx_size=4096 (positions that a prompt and its text may take: by default what the model was made for, and with a budget 2048).
/// verbose: say on stderr how the model runs, and how long each text takes.
///
/// Calls from several threads of Python run side by side, each with keys and values of its own. With a budget, which has room for
/// one, they wait for each other.
#[pyclass(frozen, module = "qsf")]
pub struct Model {
    loaded: Arc<KeptModel>,
    verbose: bool,
}

impl Model {
    fn start(&self, request: TextRequest) -> PyResult<Work<Generated>> {
        let loaded = self.loaded.clone();
        Work::start(move |teller, cancel| {
            Ok(loaded.generate(&request, cancel, &mut |piece| teller.text(piece))?)
        })
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, *, verbose = false, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        verbose: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Model> {
        let given = named_options(options)?;
        let refused =
            ["io", "memory_plan", "pin"].into_iter().find(|name| given.iter().any(|(o, _)| o == name));
        if let Some(name) = refused {
            return Err(raise(py)(RuntimeError::Request(format!("Model has no option {name:?}"))));
        }
        let args: KeptModelArgs = parse_named(&given, &[], &[], &[&path]).map_err(raise(py))?;
        let work = Work::start(move |_, cancel| args.load(args.compute().start_in_library()?, cancel))?;
        let model = work.wait(py, |event| report(py, event, None))?;
        if verbose {
            say(py, &loaded_lines(&model))?;
        }
        Ok(Model { loaded: Arc::new(model), verbose })
    }

    /// The text that continues a prompt.
    ///
    /// prompt and options: those of stream.
    /// on_token: called with every piece of text as soon as it is certain, in the calling thread. If it returns False the
    /// generation ends; what it raises ends it as well.
    ///
    /// Returns the text, without the prompt.
    #[pyo3(signature = (prompt, *, on_token = None, **options))]
    fn generate(
        slf: &Bound<'_, Model>,
        prompt: &Bound<'_, PyAny>,
        on_token: Option<Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let py = slf.py();
        let stream = slf.call_method("stream", (prompt,), options)?.cast_into::<TextStream>()?;
        let mut text = String::new();
        loop {
            let Some(piece) = stream.borrow_mut().__next__(py)? else { return Ok(text) };
            text += &piece;
            let Some(on_token) = &on_token else { continue };
            let answer = on_token.call1((piece,));
            if answer.as_ref().map_or(true, |answer| matches!(answer.extract::<bool>(), Ok(false))) {
                stream.borrow_mut().close(py);
                return answer.map(|_| text);
            }
        }
    }

    /// An iterator of the pieces of the text that continues a prompt, each as soon as it is certain. The model runs at most two
    /// pieces ahead; dropping the iterator ends it.
    ///
    /// prompt: text; with chat=True what a user says, which goes into the model's chat template, behind system_prompt.
    /// max_tokens: tokens to generate at most; by default 256, or what the context leaves.
    /// temperature, top_k, top_p, min_p, seed: as those of qsf-run. Temperature 0 always takes the likeliest token. The same seed
    /// gives the same text on every machine; without one, or with -1, it comes from the clock.
    /// repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n: as those of qsf-run, for tokens that came already.
    /// stop: a text or several that end the output, which does not have them. ignore_eos: never end by a token of the model.
    #[pyo3(signature = (prompt, *, max_tokens = None, temperature = 0.7, top_k = 40, top_p = 0.9, min_p = 0.0, seed = None,
                        repeat_penalty = 1.0, presence_penalty = 0.0, frequency_penalty = 0.0, repeat_last_n = 64,
                        stop = None, ignore_eos = false, chat = false, system_prompt = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn stream(
        &self,
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
    ) -> PyResult<TextStream> {
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
        Ok(TextStream { work: Some(self.start(request)?), verbose: self.verbose })
    }

    /// The token ids of a text, with those that the tokenizer itself adds.
    fn tokenize(&self, py: Python<'_>, text: String) -> PyResult<Vec<u32>> {
        py.detach(|| self.loaded.tokenizer.encode(&text)).map_err(raise(py))
    }

    /// The text of token ids; with skip_special without special tokens such as the end of text.
    #[pyo3(signature = (ids, *, skip_special = true))]
    fn detokenize(&self, py: Python<'_>, ids: Vec<u32>, skip_special: bool) -> PyResult<String> {
        py.detach(|| self.loaded.tokenizer.decode(&ids, skip_special)).map_err(raise(py))
    }

    fn __repr__(&self) -> String {
        format!("qsf.Model({:?})", self.loaded.open.source().path().display().to_string())
    }
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

/// The largest seed of the programs: every reader of JSON keeps 53 bits.
const MAX_SEED: u64 = (1 << 53) - 1;

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

/// What verbose=True says of a model that was loaded.
fn loaded_lines(model: &KeptModel) -> String {
    let config = model.decoder.config();
    format!(
        "{}: {}, {} layers, context {}, {} activations, {} keys and values, {} threads\n",
        model.open.source().path().display(),
        config.architecture,
        config.layers,
        model.context,
        model.decoder.activations().name(),
        model.kv.types,
        model.decoder.cpu().threads()
    )
}

/// What it says of a text.
fn generated_line(found: &Generated) -> String {
    let (prefill, decode) = (found.generation.prefill.as_secs_f64(), found.generation.decode.as_secs_f64());
    let tokens = found.generation.tokens.len();
    format!(
        "prompt: {} tokens in {prefill:.2} s; output: {tokens} tokens in {decode:.2} s\n",
        found.prompt_tokens
    )
}

/// Writes to Python's stderr, which notebooks show.
fn say(py: Python<'_>, text: &str) -> PyResult<()> {
    py.import("sys")?.getattr("stderr")?.call_method1("write", (text,)).map(|_| ())
}

/// Pieces of a text that is being generated.
#[pyclass(module = "qsf")]
pub struct TextStream {
    /// `None` when it is over.
    work: Option<Work<Generated>>,
    verbose: bool,
}

#[pymethods]
impl TextStream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(work) = &mut self.work else { return Ok(None) };
        loop {
            match work.next(py) {
                Ok(Some(Event::Text(piece))) => return Ok(Some(piece)),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(raised) => {
                    self.work = None;
                    return Err(raised);
                }
            }
        }
        let finished = work.finish(py);
        self.work = None;
        let found = finished?;
        if self.verbose {
            say(py, &generated_line(&found))?;
        }
        Ok(None)
    }

    /// Ends the generation now.
    fn close(&mut self, py: Python<'_>) {
        if let Some(mut work) = self.work.take() {
            work.stop(py);
        }
    }
}
