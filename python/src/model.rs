//! `qsf.Model`: text from a model, whole or piece by piece.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::generate::{Flow, GenerateRequest, PROMPT_BATCH, check_lengths, generate};
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::{ChatTemplate, Decoder, Message, RuntimeError, Tokenizer};

use crate::errors::raise;
use crate::machine::cpu_with;
use crate::work::{Event, Teller, Work, report};

/// Tokens generated when no number is given and the context has room: as qsf-run does.
const DEFAULT_TOKENS: usize = 256;

/// A model in memory, ready to generate.
///
/// path: a QSF file, HuggingFace directory or GGUF file; the latter two are run at full precision.
/// threads: threads that run it; by default one for each physical core.
///
/// Calls from several threads of Python run side by side, each with keys and values of its own.
#[pyclass(frozen, module = "qsf")]
pub struct Model {
    loaded: Arc<Loaded>,
}

/// What a generation needs, shared with the threads that generate.
struct Loaded {
    source: Box<dyn WeightSource>,
    weights: Arc<qsf_runtime::Model>,
    tokenizer: Tokenizer,
    cpu: Cpu,
}

/// What to generate, and how.
struct Request {
    prompt: String,
    max_tokens: Option<usize>,
    sampling: SamplerOptions,
    chat: bool,
    system_prompt: Option<String>,
}

impl Loaded {
    fn open(path: &std::path::Path, threads: Option<usize>, cancel: &Cancel) -> anyhow::Result<Loaded> {
        let cpu = cpu_with(threads)?;
        let source = source::open(path)?;
        cancel.check()?;
        let json = source.tokenizer_json();
        let json =
            json.ok_or_else(|| RuntimeError::bad_input(path, "tokenizer.json", "a tokenizer", "none"))?;
        let tokenizer = Tokenizer::from_json(json, path)?;
        let weights = Arc::new(qsf_runtime::Model::load(source.as_ref())?);
        Ok(Loaded { source, weights, tokenizer, cpu })
    }

    /// The tokens of the prompt; of a chat up to where the answer begins.
    fn tokens(&self, request: &Request) -> Result<Vec<u32>, RuntimeError> {
        if !request.chat {
            // The tokenizer's own first token is no prompt.
            return if request.prompt.is_empty() {
                Ok(Vec::new())
            } else {
                self.tokenizer.encode(&request.prompt)
            };
        }
        let template = ChatTemplate::of_source(self.source.as_ref(), &self.tokenizer)?;
        let system = request.system_prompt.as_ref().map(|text| Message::new("system", text));
        let messages: Vec<Message> =
            system.into_iter().chain([Message::new("user", &request.prompt)]).collect();
        self.tokenizer.encode_plain(&template.render(&messages, true)?)
    }

    /// Generates, and tells every piece of text as soon as later tokens cannot change it.
    fn generate(&self, request: &Request, teller: &Teller, cancel: &Cancel) -> anyhow::Result<()> {
        let config = &self.weights.config;
        let prompt = self.tokens(request)?;
        let longest = config.max_positions as usize;
        check_lengths(prompt.len(), request.max_tokens.unwrap_or(0), longest)?;
        let max_tokens = request.max_tokens.unwrap_or_else(|| DEFAULT_TOKENS.min(longest - prompt.len()));
        let decoder = Decoder::new(self.weights.clone(), self.cpu.clone(), None).stop_on(cancel);
        let context = prompt.len() + max_tokens;
        let mut state = decoder.state_with(context, prompt.len().min(PROMPT_BATCH), KvTypes::F16.into())?;
        let mut sampler = Sampler::new(request.sampling);
        let mut stream = self.tokenizer.stream_after(&prompt)?;
        let what = GenerateRequest { prompt: &prompt, max_tokens, stop_tokens: &config.stop_tokens };
        generate(&decoder, &mut state, what, &mut sampler, |token| {
            stream.push(token)?.map_or(Ok(()), |piece| teller.text(piece))?;
            Ok(Flow::Continue)
        })?;
        if let Some(rest) = stream.finish()? {
            teller.text(rest)?;
        }
        Ok(())
    }
}

impl Model {
    fn start(&self, request: Request) -> PyResult<Work<()>> {
        let loaded = self.loaded.clone();
        Work::start(move |teller, cancel| loaded.generate(&request, teller, cancel))
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, *, threads = None))]
    fn new(py: Python<'_>, path: PathBuf, threads: Option<usize>) -> PyResult<Model> {
        let work = Work::start(move |_, cancel| Loaded::open(&path, threads, cancel))?;
        let loaded = Arc::new(work.wait(py, |event| report(py, event, None))?);
        Ok(Model { loaded })
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
    /// gives the same text on every machine; without one it comes from the clock.
    #[pyo3(signature = (prompt, *, max_tokens = None, temperature = 0.7, top_k = 40, top_p = 0.9, min_p = 0.0, seed = None,
                        chat = false, system_prompt = None))]
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
        seed: Option<u64>,
        chat: bool,
        system_prompt: Option<String>,
    ) -> PyResult<TextStream> {
        let sampling = sampling(py, temperature, top_k, top_p, min_p, seed)?;
        let request = checked(py, Request { prompt, max_tokens, sampling, chat, system_prompt })?;
        Ok(TextStream { work: Some(self.start(request)?) })
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
        format!("qsf.Model({:?})", self.loaded.source.path().display().to_string())
    }
}

/// How tokens are chosen; a seed that is not given comes from the clock.
fn sampling(
    py: Python<'_>,
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    seed: Option<u64>,
) -> PyResult<SamplerOptions> {
    // 53 bits, as of the programs: every reader of JSON keeps them.
    let nanoseconds =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let clock = || nanoseconds() & ((1 << 53) - 1);
    SamplerOptions::new(temperature, top_k, top_p, min_p, seed.unwrap_or_else(clock)).map_err(raise(py))
}

/// A request that can be carried out, as far as that is known before there are tokens.
fn checked(py: Python<'_>, request: Request) -> PyResult<Request> {
    let problem = match &request {
        Request { max_tokens: Some(0), .. } => "max_tokens is 0, expected at least 1",
        Request { chat: false, system_prompt: Some(_), .. } => "system_prompt goes with chat=True",
        _ => return Ok(request),
    };
    Err(raise(py)(RuntimeError::Request(problem.into())))
}

/// Pieces of a text that is being generated.
#[pyclass(module = "qsf")]
pub struct TextStream {
    /// `None` when it is over.
    work: Option<Work<()>>,
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
        finished.map(|()| None)
    }

    /// Ends the generation now.
    fn close(&mut self, py: Python<'_>) {
        if let Some(mut work) = self.work.take() {
            work.stop(py);
        }
    }
}
