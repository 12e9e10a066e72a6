//! A hostile `tokenizer.json`: read, and used as a prompt and an answer use it.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::must_say_something;
use qsf_runtime::{Result, Tokenizer};

const TEXT: &str = "Hello, <s>wörld</s>!  1234 \t\n 日本語 🦀 aaaa";

fuzz_target!(|json: &[u8]| {
    match Tokenizer::from_json(json, Path::new("tokenizer.json")) {
        Ok(tokenizer) => {
            if let Err(error) = use_it(&tokenizer) {
                must_say_something(&error);
            }
        }
        Err(error) => must_say_something(&error),
    }
});

fn use_it(tokenizer: &Tokenizer) -> Result<()> {
    let mut ids = tokenizer.encode(TEXT)?;
    ids.extend([0, 1, u32::MAX]);
    for skip_special in [false, true] {
        tokenizer.decode(&ids, skip_special)?;
    }
    let mut stream = tokenizer.stream();
    for &id in ids.iter().take(100) {
        tokenizer.token_text(id);
        stream.push(id)?;
    }
    stream.finish()?;
    tokenizer.bos();
    tokenizer.vocab_size();
    Ok(())
}
