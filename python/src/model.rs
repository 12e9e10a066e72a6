//! `qsf.Model`: text from a model, whole or piece by piece.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::parse_named;
use qsf_cli::kept_model::{BatchRequest, KeptModel, KeptModelArgs};
use qsf_runtime::sample::seed_of_text;
use qsf_runtime::{Runner, RuntimeError};

use crate::attention;
use crate::chat::{self, Conversation};
use crate::errors::raise;
use crate::generation::generation_request;
use crate::outputs::{self, Text};
use crate::text_stream::{TextStream, say};
use crate::values::{named_options, to_object};
use crate::work::{Work, report};

/// A model in memory, ready to generate.
///
/// path: a QSF file, HuggingFace directory or GGUF file; the latter two are run at full precision.
/// options: those of qsf-run by their names with "_" for "-": threads=2; ram_budget="200MB" (bytes of the whole process, what
/// Python holds included); kv_type="8bit,4bit"; activations="f32"; quality=0.8; head="clusters"; early_exit=0.9; kv_window=1024;
/// lora="adapter=0.5" (a directory of PEFT or a GGUF file, and what it is multiplied with; or a list of these);
/// ctx_size=4096 (positions that a prompt and its text may take: by default what the model was made for, and with a budget 2048).
/// device="cpu" or "auto": the processor runs the model. "gpu": a graphics processor makes texts, in a build with them.
/// verbose: say on stderr how the model runs, and how long each text takes.
///
/// Calls from several threads of Python run side by side, each with keys and values of its own. With a budget, which has room for
/// one, they wait for each other.
#[pyclass(frozen, module = "qsf")]
pub struct Model {
    loaded: Arc<KeptModel>,
    verbose: bool,
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
        stream.borrow_mut().whole(py, on_token.as_ref())
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
    #[pyo3(signature = (prompt, **options),
           text_signature = "($self, prompt, *, max_tokens=None, temperature=0.7, top_k=40, top_p=0.9, min_p=0.0, seed=None, repeat_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, repeat_last_n=64, stop=None, ignore_eos=False, chat=False, system_prompt=None)")]
    fn stream(
        &self,
        py: Python<'_>,
        prompt: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<TextStream> {
        let request = generation_request(py, prompt, options)?;
        let loaded = self.loaded.clone();
        let work = Work::start(move |teller, cancel| {
            Ok(loaded.generate(&request, cancel, &mut |piece| teller.text(piece))?)
        })?;
        Ok(TextStream { work: Some(work), verbose: self.verbose })
    }

    /// The texts that continue prompts, in their order: many at once, packed into the steps of the model. Each is the text that
    /// generate gives with the same options, but that the text with number N, from 0, draws with seed plus N: so equal prompts get
    /// texts of their own.
    ///
    /// prompts: texts, or sequences of token ids.
    /// sequences: how many grow at once at most. A prompt begins when a text has ended. More need more memory for keys and values.
    /// progress: called with stage, texts that are done, and all.
    /// options: those of stream.
    ///
    /// A model within a RAM budget has room for one text, and early exits are for one: there they are made one after another.
    #[pyo3(signature = (prompts, *, sequences = 64, progress = None, **options))]
    fn batch_generate(
        &self,
        py: Python<'_>,
        prompts: &Bound<'_, PyAny>,
        sequences: usize,
        progress: Option<Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<String>> {
        let like = generation_request(py, String::new(), options)?;
        let prompts = Text::each(prompts)?;
        let loaded = self.loaded.clone();
        let work = Work::start(move |teller, cancel| {
            let request = |(number, prompt)| {
                cancel.check()?;
                let mut options = like.clone();
                options.sampling =
                    options.sampling.with_seed(seed_of_text(like.sampling.seed(), number as u64));
                let prompt = match prompt {
                    Text::Plain(text) => {
                        options.prompt = text;
                        loaded.prompt_tokens(&options)?
                    }
                    Text::Tokens(tokens) => tokens,
                };
                Ok(BatchRequest { prompt, options })
            };
            let requests =
                prompts.into_iter().enumerate().map(request).collect::<anyhow::Result<Vec<_>>>()?;
            let mut texts = vec![String::new(); requests.len()];
            loaded.generate_batch(&requests, sequences, cancel, teller, &mut |number, found| {
                texts[number] = found.text;
                Ok(())
            })?;
            Ok(texts)
        })?;
        work.wait(py, |event| report(py, event, progress.as_ref()))
    }

    /// Logits of the token behind each token of a text, from an empty context.
    ///
    /// text: a text, or its token ids.
    ///
    /// Returns a float32 array of shape (tokens, vocabulary).
    fn logits<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        outputs::logits(py, &self.loaded, text)
    }

    /// How likely continuations are, each behind its context.
    ///
    /// contexts: texts or sequences of token ids, as many as continuations; or a single one, behind which all stand. Contexts that
    /// begin alike are run once as far as they are. Where one does not fit with its continuation, its beginning is cut off.
    /// continuations: texts, or sequences of token ids. A text is encoded together with its context, as lm-evaluation-harness does.
    ///
    /// Returns two arrays of shape (continuations,): the log-likelihoods in nats (float64), and whether greedy decoding would give the
    /// continuation (bool).
    fn score<'py>(
        &self,
        py: Python<'py>,
        contexts: &Bound<'py, PyAny>,
        continuations: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        outputs::score(py, &self.loaded, contexts, continuations)
    }

    /// What comes behind each of many prompts, by one pass of the model, in which whole prompts share steps.
    ///
    /// prompts: texts, or sequences of token ids.
    /// labels: texts, each of which stands for its first token; no two may begin with the same.
    /// progress: called with stage, prompts that are done, and all.
    ///
    /// Returns a float32 array: with labels their log-probabilities among all tokens, of shape (prompts, labels); without, the logits
    /// of all tokens, of shape (prompts, vocabulary).
    #[pyo3(signature = (prompts, labels = None, *, progress = None))]
    fn classify<'py>(
        &self,
        py: Python<'py>,
        prompts: &Bound<'py, PyAny>,
        labels: Option<Vec<String>>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        outputs::classify(py, &self.loaded, prompts, labels, progress.as_ref())
    }

    /// The hidden state of a text behind the last norm, which is what the head reads.
    ///
    /// texts: a text, its token ids, or a list of such.
    /// pooling: "last" for the state of the last token, or "mean" for the mean of all.
    ///
    /// Returns a float32 array of shape (hidden,), for a list (texts, hidden).
    #[pyo3(signature = (texts, *, pooling = "last"))]
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        pooling: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        outputs::embed(py, &self.loaded, texts, pooling)
    }

    /// Where the model looks while it reads a text: what each head of attention gives to each position, and the keys.
    ///
    /// text: a text, or token ids. layers: numbers of layers; None for all. A text of n tokens takes n * n values a head.
    ///
    /// Returns a dict of float32 arrays: "layers.0.weights" of shape (heads, tokens, tokens), whose rows add up to 1 but for what
    /// attention sinks take, and "layers.0.keys" of shape (kv_heads, tokens, values), behind norm and rotation. Of models with
    /// latents (MLA) these are what is kept in their place. Layers without attention have none; layers that use the keys of others
    /// have only weights.
    #[pyo3(signature = (text, *, layers = None))]
    fn attention<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
        layers: Option<Vec<u32>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        attention::attention(py, &self.loaded, text, layers)
    }

    /// The model's chat template, Jinja; None where it has none.
    #[getter]
    fn chat_template(&self) -> Option<String> {
        let template = self.loaded.open.source().chat_template()?;
        String::from_utf8(template.to_vec()).ok()
    }

    /// What the assistant says next in a conversation.
    ///
    /// messages: dicts with "role" and "content", and whatever else the model's chat template knows, such as "tool_calls". They are
    /// those of transformers' apply_chat_template.
    /// tools: what the assistant may call, as JSON schemas (dicts); None for nothing.
    /// on_token: as that of generate.
    /// options: those of stream but chat and system_prompt.
    ///
    /// Returns the text of the message. A call of a tool is in it as the model writes it, as far as that is text: special tokens
    /// are left out.
    #[pyo3(signature = (messages, *, tools = None, on_token = None, **options))]
    fn chat(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        on_token: Option<Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        self.chat_stream(py, messages, tools, options)?.whole(py, on_token.as_ref())
    }

    /// An iterator of the pieces of what chat returns, as stream is of what generate returns.
    ///
    /// messages, tools and options: those of chat.
    #[pyo3(signature = (messages, *, tools = None, **options))]
    fn chat_stream(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<TextStream> {
        let conversation = Conversation::new(messages, tools)?;
        let work = chat::answer(py, &self.loaded, conversation, options)?;
        Ok(TextStream { work: Some(work), verbose: self.verbose })
    }

    /// The text that the model's chat template makes of a conversation, special tokens written out.
    ///
    /// messages and tools: those of chat.
    /// prompt_reply: whether it goes up to where the assistant's next message begins.
    #[pyo3(signature = (messages, *, tools = None, prompt_reply = true))]
    fn chat_text(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        prompt_reply: bool,
    ) -> PyResult<String> {
        chat::chat_text(py, &self.loaded, &Conversation::new(messages, tools)?, prompt_reply)
    }

    /// The token ids of a text, with those that the tokenizer itself adds, unless add_special is False.
    #[pyo3(signature = (text, *, add_special = true))]
    fn tokenize(&self, py: Python<'_>, text: String, add_special: bool) -> PyResult<Vec<u32>> {
        let tokenizer = &self.loaded.tokenizer;
        let encoded =
            py.detach(|| if add_special { tokenizer.encode(&text) } else { tokenizer.encode_plain(&text) });
        encoded.map_err(raise(py))
    }

    /// The configuration of the model, as the tensors of open(path) have it.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let config = serde_json::to_value(self.loaded.open.source().config());
        to_object(py, &config.map_err(raise(py))?)
    }

    /// Positions that a prompt and its text may take.
    #[getter]
    fn context(&self) -> usize {
        self.loaded.context
    }

    /// The token that a text begins with where it has no other beginning: the tokenizer's, or the model's start token, or its first
    /// stop token; None where there is none.
    #[getter]
    fn start_token(&self) -> Option<u32> {
        self.loaded.start_token()
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

/// What verbose=True says of a model that was loaded.
fn loaded_lines(model: &KeptModel) -> String {
    let config = model.decoder.config();
    format!(
        "{}: {}, {} layers, context {}, {} activations, {} keys and values, {} threads, texts by {}\n",
        model.open.source().path().display(),
        config.architecture,
        config.layers,
        model.context,
        model.decoder.activations().name(),
        model.kv.types,
        model.decoder.cpu().threads(),
        model.device()
    )
}
