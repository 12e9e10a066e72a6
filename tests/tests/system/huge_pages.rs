//! `--huge-pages`: where weights lie changes nothing that a model says.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_converter::random_model::RandomModel;
use qsf_format::Compression;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{self, configured_model};
use qsf_runtime::{Decoder, Model};
use qsf_tests::*;
use serde_json::{Value, json};

/// A file with 90 MB of weights, which is enough to be moved.
fn large_model(dir: &Path) -> PathBuf {
    let config = json!({
        "model_type": "llama", "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
        "intermediate_size": 3072, "num_hidden_layers": 7, "vocab_size": 512, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true
    });
    let (path, out) = (dir.join("config.json"), dir.join("large.qsf"));
    let (config, tensors) = configured_model(&path, config.to_string().as_bytes()).unwrap();
    let (recipe, compression) = ("8bit".parse().unwrap(), Compression::None);
    let model = RandomModel { config, tensors, tokenizer: None, recipe, compression, seed: 7, force: false };
    model.write(&out).unwrap();
    assert!(fs::metadata(&out).unwrap().len() > 80_000_000);
    out
}

#[test]
fn weights_in_large_pages_give_the_same_logits_and_a_program_says_how_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = large_model(dir.path());

    // Logits token by token, while weights move below and afterwards.
    let logits = |huge: bool| {
        let source = source::open(&path).unwrap();
        let mut model = Model::load(&*source).unwrap();
        if huge {
            model.use_huge_pages();
        }
        let decoder = Decoder::new(Arc::new(model), Cpu::from_env().unwrap(), None);
        let mut state = decoder.state(64, 1).unwrap();
        let mut all = Vec::new();
        for token in 0..64 {
            let mut logits = vec![0.0; 512];
            decoder.forward(&mut state, &[token * 7]).unwrap();
            decoder.logits(&mut state, 0..1, &mut logits).unwrap();
            all.extend(logits.iter().map(|logit| logit.to_bits()));
        }
        (all, decoder.model().huge_pages.bytes())
    };
    let (plain, none) = logits(false);
    let (moved, bytes) = logits(true);
    assert!(plain == moved, "bits differ");
    assert_eq!(none, 0);

    let run = |args: &str| {
        program("qsf-run").arg(&path).args("--prompt-ids 1,2,3 --ignore-eos --temp 0").args(args)
    };
    let long = run("-n 64 --json").run().json();
    let off = run("-n 64 --json --huge-pages off").run().json();
    let short = run("-n 8 --json").run().json();
    let bench = program("qsf-run").arg(&path).args("--bench --pp 0 --tg 2 -r 1 -t 1 --json").run().json();
    assert_eq!(long["token_ids"], off["token_ids"]);
    assert_eq!((&off["huge_page_bytes"], &short["huge_page_bytes"]), (&json!(0), &json!(0)));
    let Output { code, stderr: said, .. } = run("-n 64 -v").run();
    assert_eq!(code, 0, "{said}");
    if bytes == 0 {
        eprintln!("not tested further: this system has no large pages, or no memory for them");
        assert_eq!((&long["huge_page_bytes"], &bench["huge_page_bytes"]), (&json!(0), &json!(0)));
        return;
    }
    // A short answer has time for a part; a measurement moves all before it begins.
    let moved = |document: &Value| document["huge_page_bytes"].as_u64().unwrap();
    assert!(moved(&long) > 0, "{long:#}");
    assert!(moved(&bench) > 70_000_000, "{bench:#}");
    assert!(said.contains("MB of weights in huge pages"), "{said}");
}
