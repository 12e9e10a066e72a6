//! Lists of jobs, as JSONL and as TOML: an entry or an error with a line that the text has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qsf_cli::batch::manifest::{Syntax, parse};

fuzz_target!(|text: &str| {
    let lines = text.split('\n').count();
    for syntax in [Syntax::JsonLines, Syntax::Toml] {
        match parse(text, syntax) {
            Ok(entries) => {
                for entry in entries {
                    assert!((1..=lines).contains(&entry.line));
                    assert!(entry.pairs.iter().all(|pair| (1..=lines).contains(&pair.line)));
                }
            }
            Err(problems) => assert!(problems.iter().all(|(line, _)| (1..=lines).contains(line))),
        }
    }
});
