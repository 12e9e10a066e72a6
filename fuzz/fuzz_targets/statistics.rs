//! A hostile statistics file: as it is, then with the checksums of its records made right. And a line of JSONL.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_calibration::{LayerSummary, StatsReader, parse_line};
use qsf_fuzz::must_say_something;
use qsf_fuzz::seal_parts::reseal_statistics;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut bytes = bytes.to_vec();
    reseal_statistics(&mut bytes);
    read(&bytes);
    if let Ok(text) = std::str::from_utf8(&bytes) {
        let _ = parse_line(Path::new("memory"), "line 1", text).inspect_err(must_say_something);
    }
});

fn read(bytes: &[u8]) {
    let mut reader = match StatsReader::new(Path::new("memory"), Cursor::new(bytes)) {
        Ok(reader) => reader,
        Err(error) => return must_say_something(&error),
    };
    for layer in reader.layers() {
        match reader.layer(layer) {
            Ok(stats) => assert!(!LayerSummary::new(&stats).to_string().is_empty()),
            Err(error) => must_say_something(&error),
        }
    }
}
