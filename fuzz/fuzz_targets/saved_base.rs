//! The saved log-probabilities of a hostile base: as they are, then with the hash and the length of their first line made right.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::seal_parts::sealed_base;
use qsf_fuzz::{fresh_dir, must_say_something};
use qsf_runtime::eval::{EvalOptions, SavedBase};

fuzz_target!(|bytes: &[u8]| {
    let dir = fresh_dir();
    let path = dir.path().join("base");
    read(&path, bytes);
    let json = bytes.iter().rposition(|byte| *byte == b'}').map_or(bytes.len(), |end| end + 1);
    let (json, chunks) = bytes.split_at(json);
    read(&path, &[&sealed_base(json)[..], chunks].concat());
});

fn read(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file in the temporary directory");
    match SavedBase::open(path) {
        Ok(mut base) => {
            let (ctx, vocab) = (base.facts().ctx, base.facts().vocab);
            // As many tokens as one chunk has; there are no more than bytes of a file.
            if let Some(tokens) = ctx.checked_mul(4).filter(|size| *size <= 1 << 20).map(|_| vec![0; ctx]) {
                let options = EvalOptions { ctx, ..EvalOptions::default() };
                let _ = base.check(&tokens, &options, vocab, "").inspect_err(must_say_something);
            }
        }
        Err(error) => must_say_something(&error),
    }
}
