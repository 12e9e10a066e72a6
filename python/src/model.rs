//! `qsf.Model`: text from a model, whole or piece by piece.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::parse_named;
use qsf_cli::kept_model::{KeptModel, KeptModelArgs, TextRequest};
use qsf_runtime::RuntimeError;
use qsf_runtime::sample::SamplerOptions;

use crate::errors::raise;
use crate::values::named_options;
use crate::work::{Event, Work, report};

/// A model in memory, ready to generate.
///
/// path: a QSF file, HuggingFace directory or GGUF file; the latter two are run at full precision.
/// options: those of qsf-run by their names with "_" for "-": threads=2; ram_budget="200MB" (bytes of the whole process, what
/// Python holds included); kv_type="8bit,4bit"; activations="f32"; quality=0.8; head="clusters"; early_exit=0.9; kv_window=1024;
/// ctx_size=4096 (positions that a prompt and its text may take: by default what the model was made for, and with a budget 2048).
///
/// Calls from several threads of Python run side by side, each with keys and values of its own. With a budget, which has room for
/// one, they wait for each other.
#[pyclass(frozen, module = "qsf")]
pub struct Model {
    loaded: Arc<KeptModel>,
}

impl Model {
    fn start(&self, request: TextRequest) -> PyResult<Work<()>> {
        let loaded = self.loaded.clone();
        Work::start(move |teller, cancel| {
            loaded.generate(&request, cancel, &mut |piece| teller.text(piece))?;
            Ok(())
        })
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
        let given = named_options(options)?;
        let refused =
            ["io", "memory_plan", "pin"].into_iter().find(|name| given.iter().any(|(o, _)| o == name));
        if let Some(name) = refused {
            return Err(raise(py)(RuntimeError::Request(format!("Model has no option {name:?}"))));
        }
        let args: KeptModelArgs = parse_named(&given, &[], &[], &[&path]).map_err(raise(py))?;
        let work = Work::start(move |_, cancel| args.load(args.compute().start_in_library()?, cancel))?;
        let model = work.wait(py, |event| report(py, event, None))?;
        Ok(Model { loaded: Arc::new(model) })
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
        let request = TextRequest { prompt, max_tokens, sampling, chat, system_prompt };
        request.check().map_err(raise(py))?;
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
        format!("qsf.Model({:?})", self.loaded.open.source().path().display().to_string())
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
