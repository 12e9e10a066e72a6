//! A hostile GGUF file: as a container, all its metadata as every type, and as a model.
#![no_main]

use std::fs;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use qsf_fuzz::{fresh_dir, load_all, must_say_something, mutate, mutated};
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::{GgufFile, open_gguf};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutated(data, size, max_size, seed, |file, dice| mutate::gguf::mutate(file, dice))
});

fuzz_target!(|bytes: &[u8]| {
    let dir = fresh_dir();
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).expect("a file in the temporary directory");
    match GgufFile::open(&path) {
        Ok(file) => {
            for key in file.metadata.keys() {
                let _ = file.metadata.str(key).inspect_err(must_say_something);
                let _ = file.metadata.u32_or_array(key).inspect_err(must_say_something);
                let _ = file.metadata.f32(key).inspect_err(must_say_something);
                let _ = file.metadata.strings(key).inspect_err(must_say_something);
                let _ = file.metadata.f32s(key).inspect_err(must_say_something);
                let _ = file.metadata.bools(key).inspect_err(must_say_something);
            }
            assert!(file.tensors.iter().all(|tensor| file.bytes(tensor).len() <= bytes.len()));
        }
        Err(error) => must_say_something(&error),
    }
    if let Ok(source) = open_gguf(&path).inspect_err(must_say_something) {
        load_all(&source);
        source.release(None);
    }
});
