//! Continues a text, token by token.
//!
//! ```text
//! cargo run --release -p qsf-runtime --example generate -- MODEL "Once upon a time"
//! ```
//!
//! MODEL is a QSF file or a HuggingFace directory.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use qsf_runtime::cpu::Cpu;
use qsf_runtime::generate::{Flow, GenerateRequest, PROMPT_BATCH, generate};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::{Decoder, Model, RuntimeError, Tokenizer, source};

/// Tokens to generate at most.
const TOKENS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, text] = args.as_slice() else {
        return Err("usage: generate MODEL TEXT".into());
    };

    let source = source::open(Path::new(path))?;
    let json = source.tokenizer_json().ok_or("the model has no tokenizer")?;
    let tokenizer = Tokenizer::from_json(json, source.path())?;
    let prompt = tokenizer.encode(text)?;

    let model = Arc::new(Model::load(source.as_ref())?);
    let decoder = Decoder::new(model, Cpu::from_env()?, None);
    // One sequence: its keys and values, with room for the prompt and all that may follow it.
    let mut state = decoder.state(prompt.len() + TOKENS, PROMPT_BATCH)?;

    // Temperature, top-k, top-p, min-p, seed: the same seed gives the same text on every machine.
    let mut sampler = Sampler::new(SamplerOptions::new(0.7, 40, 0.9, 0.0, 1)?);

    // A character may be spread over several tokens: the stream hands out only text that is final.
    let mut stream = tokenizer.stream_after(&prompt)?;
    let stop_tokens = &decoder.model().config.stop_tokens;
    let request = GenerateRequest { prompt: &prompt, max_tokens: TOKENS, stop_tokens };
    print!("{text}");
    let result = generate(&decoder, &mut state, request, &mut sampler, |token| {
        stream.push(token)?.map_or(Ok(()), |piece| show(&piece))?;
        Ok(Flow::Continue)
    })?;
    if let Some(rest) = stream.finish()? {
        show(&rest)?;
    }
    println!("\n[{} tokens in {:.2} s]", result.tokens.len(), result.decode.as_secs_f64());
    Ok(())
}

/// Prints a piece of text at once: a line may take long to fill.
fn show(piece: &str) -> Result<(), RuntimeError> {
    let mut out = std::io::stdout();
    out.write_all(piece.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))
}
