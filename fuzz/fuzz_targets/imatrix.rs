//! A hostile importance matrix, in either form, for a model with three matrices of the names that llama.cpp gives.
#![no_main]

use std::collections::HashMap;
use std::fs;

use libfuzzer_sys::fuzz_target;
use qsf_converter::imatrix::{Expected, is_imatrix, read_entries};
use qsf_fuzz::fresh_dir;

fuzz_target!(|bytes: &[u8]| {
    let dir = fresh_dir();
    let path = dir.path().join("imatrix");
    fs::write(&path, bytes).expect("a file in the temporary directory");
    let shape = |cols, matrices| Expected { cols, matrices };
    let expected = HashMap::from([
        ("blk.0.attn_q.weight".to_owned(), shape(4, 1)),
        ("blk.0.ffn_down.weight".to_owned(), shape(6, 1)),
        ("blk.0.ffn_up_exps.weight".to_owned(), shape(4, 3)),
    ]);
    let _ = is_imatrix(&path);
    match read_entries(&path, &expected) {
        Ok(found) => {
            for (name, entry) in found {
                assert_eq!(entry.mean_squares.len(), expected[&name].values());
                assert!(entry.mean_squares.iter().all(|square| square.is_finite() && *square >= 0.0));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
