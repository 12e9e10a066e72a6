//! A model that is loaded, and text that it generates.

use std::sync::Arc;

use qsf_format::QsfFile;
use qsf_runtime::cpu::{Cpu, Isa, KvTypes};
use qsf_runtime::generate::check_lengths;
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::session::{Session, SessionOptions};
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::{ChatTemplate, Decoder, Message, Model, Result, RuntimeError, Tokenizer};
use serde::{Deserialize, Serialize};

/// Sequences are not saved here, so nothing has to tell their models apart.
const NO_FINGERPRINT: [u8; 32] = [0; 32];

/// A model that can run.
pub struct Loaded {
    source: QsfSource,
    tokenizer: Tokenizer,
    decoder: Decoder,
}

/// What a model is, for the page.
#[derive(Debug, Serialize)]
pub struct LoadedFacts {
    /// Positions that prompt and text may take.
    context: u32,
    /// Whether there is a template for conversations.
    chat: bool,
    /// The instruction set of the kernels.
    kernels: &'static str,
}

/// What the page asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Text to go on with; in a chat what the user says.
    prompt: String,
    /// Whether it goes through the chat template.
    chat: bool,
    /// Tokens to generate at most.
    max_tokens: usize,
    /// 0 always takes the likeliest token.
    temperature: f32,
    /// Only so many of the likeliest tokens; 0 for all.
    top_k: usize,
    /// Only the likeliest that together reach this probability.
    top_p: f32,
    /// The same seed gives the same tokens.
    seed: u32,
}

/// Text under way.
pub struct Generation {
    session: Session,
    sampler: Sampler,
    max_tokens: usize,
    stop_tokens: Vec<u32>,
    /// All tokens so far, of the prompt too.
    tokens: Vec<u32>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens whose text was given out.
    shown: usize,
    over: bool,
}

impl Loaded {
    /// Loads the model of a file, for the instruction set of this name, or the fastest.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn new(file: &QsfFile, isa: &str) -> Result<Loaded> {
        let isa = if isa.is_empty() { Ok(Isa::best()) } else { Isa::by_name(isa) };
        let isa = isa.map_err(|error| RuntimeError::Request(error.to_string()))?;
        let source = QsfSource::from_file(file.clone())?;
        let json = source.tokenizer_json().ok_or_else(|| {
            RuntimeError::bad_input(file.path(), "section TOKN", "a tokenizer, as text needs", "none")
        })?;
        let tokenizer = Tokenizer::from_json(json, file.path())?;
        let decoder = Decoder::new(Arc::new(Model::load(&source)?), Cpu::new(isa), None);
        Ok(Loaded { source, tokenizer, decoder })
    }

    /// What it is.
    pub fn facts(&self) -> LoadedFacts {
        LoadedFacts {
            context: self.source.config().max_positions,
            chat: self.source.chat_template().is_some(),
            kernels: self.decoder.cpu().isa().name(),
        }
    }

    /// Runs a prompt.
    ///
    /// # Errors
    /// When it does not fit, or the model cannot be run.
    pub fn begin(&self, request: &Request) -> Result<Generation> {
        let Request { max_tokens, temperature, top_k, top_p, seed, .. } = *request;
        let options = SamplerOptions::new(temperature, top_k, top_p, 0.0, seed.into())?;
        let tokens = self.prompt_tokens(request)?;
        let longest = self.source.config().max_positions as usize;
        check_lengths(tokens.len(), 0, longest)?;
        let max_tokens = max_tokens.min(longest - tokens.len());
        let context = tokens.len() + max_tokens;
        // As qsf-run keeps keys and values, so that the same seed gives the same text.
        let kv = KvTypes::F16.into();
        let options_of_session = SessionOptions { kv, ..SessionOptions::new(context, NO_FINGERPRINT) };
        let mut session = Session::new(self.decoder.clone(), options_of_session)?;
        let mut sampler = Sampler::new(options);
        sampler.accept(&tokens);
        session.run(&[(0, &tokens)])?;
        let stop_tokens = self.source.config().stop_tokens.clone();
        let prompt = tokens.len();
        Ok(Generation {
            session,
            sampler,
            max_tokens,
            stop_tokens,
            tokens,
            prompt,
            shown: prompt,
            over: false,
        })
    }

    fn prompt_tokens(&self, request: &Request) -> Result<Vec<u32>> {
        if !request.chat {
            return self.tokenizer.encode(&request.prompt);
        }
        let template = ChatTemplate::of_source(&self.source, &self.tokenizer)?;
        let text = template.render(&[Message::new("user", &request.prompt)], true)?;
        self.tokenizer.encode_plain(&text)
    }

    /// Generates up to so many tokens, and gives the text that is certain by then.
    ///
    /// # Errors
    /// When the model cannot be run any longer.
    pub fn go_on(&self, generation: &mut Generation, steps: usize) -> Result<String> {
        let mut text = String::new();
        // Tokens of a character that is not complete are pushed again: so no stream outlives a call.
        let mut stream = self.tokenizer.stream_after(&generation.tokens[..generation.shown])?;
        for at in generation.shown..generation.tokens.len() {
            stream.push(generation.tokens[at])?;
        }
        for _ in 0..steps {
            let Some(token) = generation.next()? else { break };
            if let Some(piece) = stream.push(token)? {
                text += &piece;
                generation.shown = generation.tokens.len();
            }
        }
        if generation.over {
            text += &stream.finish()?.unwrap_or_default();
        }
        Ok(text)
    }
}

impl Generation {
    fn next(&mut self) -> Result<Option<u32>> {
        if self.over || self.generated() == self.max_tokens {
            self.over = true;
            return Ok(None);
        }
        if self.generated() > 0 {
            self.session.run(&[(0, &self.tokens[self.tokens.len() - 1..])])?;
        }
        let logits = self.session.logits(0).ok_or_else(|| RuntimeError::Request("no logits".into()))?;
        let token = self.sampler.sample(logits)?;
        if self.stop_tokens.contains(&token) {
            self.over = true;
            return Ok(None);
        }
        self.sampler.accept(&[token]);
        self.tokens.push(token);
        self.over = self.generated() == self.max_tokens;
        Ok(Some(token))
    }

    /// How many tokens were generated.
    pub fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> usize {
        self.prompt
    }

    /// Whether no more will come.
    pub fn is_over(&self) -> bool {
        self.over
    }
}
