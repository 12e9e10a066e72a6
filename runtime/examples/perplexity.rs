//! Perplexity of a model on a text, and its divergence from a base model.
//!
//! ```text
//! cargo run --release -p qsf-runtime --example perplexity -- MODEL TEXT [BASE]
//! ```
//!
//! MODEL and BASE are QSF files or HuggingFace directories.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::eval::{EvalOptions, evaluate};
use qsf_runtime::progress::Unwatched;
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::{Decoder, Model, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (model, text, base) = match args.as_slice() {
        [model, text] => (model, text, None),
        [model, text, base] => (model, text, Some(base)),
        _ => return Err("usage: perplexity MODEL TEXT [BASE]".into()),
    };

    // A source is what is on disk; opening it reads the description and checks what it can without the weights.
    let source = source::open(Path::new(model))?;
    let json = source.tokenizer_json().ok_or("the model has no tokenizer")?;
    let tokenizer = Tokenizer::from_json(json, source.path())?;
    let tokens = tokenizer.encode(&std::fs::read_to_string(text)?)?;

    let decoder = decoder(source.as_ref())?;
    // The base reads the same tokens, so it must have been trained with the same tokenizer; qsf-eval checks that.
    let base = base.map(|path| decoder_at(Path::new(path))).transpose()?;

    // Chunks of 512 tokens, as perplexities are usually reported; all of the text. Keys and values in f16, as qsf-eval has them.
    let (kv, base_kv) = (KvTypes::F16, KvTypes::F16);
    let options = EvalOptions { bos: tokenizer.bos(), kv: kv.into(), base_kv, ..EvalOptions::default() };
    let result = evaluate(&decoder, base.as_ref(), &tokens, options, &Unwatched)?;

    println!("perplexity {:.4} +- {:.4} over {} tokens", result.ppl, result.ppl_stderr, result.tokens);
    if let Some(divergence) = result.divergence {
        println!("base       {:.4}", divergence.base_ppl);
        println!("KLD        {:.6} +- {:.6} nats", divergence.kld.mean, divergence.kld.stderr);
        println!("same top   {:.2} %", divergence.top1);
    }
    Ok(())
}

fn decoder_at(path: &Path) -> Result<Decoder, Box<dyn Error>> {
    decoder(source::open(path)?.as_ref())
}

/// Loads the weights, in the type they are stored in. `None`: 8-bit activations if the weights are quantized, else floats.
fn decoder(source: &dyn WeightSource) -> Result<Decoder, Box<dyn Error>> {
    let model = Arc::new(Model::load(source)?);
    Ok(Decoder::new(model, Cpu::from_env()?, None))
}
