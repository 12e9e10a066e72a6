//! A hostile part of an evaluation: as it is, then as what a hash made right stands before.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::must_say_something;
use qsf_fuzz::seal_parts::sealed_part;
use qsf_runtime::eval::EvaluationPart;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let contents = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes, |end| &bytes[end + 1..]);
    read(&sealed_part(contents));
});

fn read(bytes: &[u8]) {
    match EvaluationPart::parse(Path::new("memory"), bytes) {
        Ok(part) => assert!(part.sums.range().end <= part.sums.total() && part.sums.tokens() > 0),
        Err(error) => must_say_something(&error),
    }
}
