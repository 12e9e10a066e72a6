//! Models with random weights, as benchmarks use them: of the shape that was asked for, sound, and able to run.

use std::fs;
use std::path::Path;

use qsf_converter::random_model::RandomModel;
use qsf_format::Compression;
use qsf_runtime::source::{WeightSource as _, configured_model, open_huggingface};
use qsf_tests::*;

fn write(config: &Path, quant: &str, tokenizer: Option<&[u8]>, compression: Compression, out: &Path) {
    let (config, tensors) = configured_model(config, &fs::read(config).unwrap()).unwrap();
    let recipe = quant.parse().unwrap();
    let model = RandomModel { config, tensors, tokenizer, recipe, compression, seed: 7, force: true };
    assert_eq!(model.write(out).unwrap(), fs::metadata(out).unwrap().len());
}

#[test]
fn a_random_model_verifies_and_generates_in_every_program() {
    let dir = tempfile::tempdir().unwrap();
    let source = demo_model(dir.path());
    let tokenizer = fs::read(source.join("tokenizer.json")).unwrap();
    let out = dir.path().join("random.qsf");
    for (quant, compression) in [
        ("2bit", Compression::None),
        ("t2", Compression::Zstd),
        ("x4", Compression::None),
        ("n4", Compression::Lz4),
        ("mixed", Compression::None),
    ] {
        write(&source.join("config.json"), quant, Some(&tokenizer), compression, &out);
        let said = program("qsf-inspect").arg(&out).arg("--verify").run().ok().stdout;
        assert!(said.contains("verified: header"), "{said}");
        let json = program("qsf-run").arg(&out).args("-p Once -n 8 --temp 0 --json").run().json();
        assert_eq!(json["token_ids"].as_array().unwrap().len(), 8, "{json}");
        let call = program("qsf-eval").arg(&out).arg("--file").arg(TEXT).args("--ctx 64 --chunks 2 --json");
        // Nothing learned: every one of 2048 tokens is about as likely.
        let ppl = call.run().json()["ppl"].as_f64().unwrap();
        assert!((1000.0..4000.0).contains(&ppl), "{quant}: {ppl}");
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn a_configuration_alone_means_the_model_that_it_means_beside_its_weights() {
    let mut seen = 0;
    for dir in fs::read_dir(shared("golden")).unwrap().map(|entry| entry.unwrap().path()) {
        let source = open_huggingface(&dir).unwrap();
        let path = dir.join("config.json");
        let (mut config, tensors) = configured_model(&path, &fs::read(&path).unwrap()).unwrap();
        // Tokens also come from another file.
        (config.bos, config.stop_tokens) = (source.config().bos, source.config().stop_tokens.clone());
        assert_eq!(&config, source.config(), "{}", dir.display());
        let found: Vec<_> = tensors.iter().map(|info| (info.id, info.rows, info.cols)).collect();
        let expected: Vec<_> = source.tensors().iter().map(|info| (info.id, info.rows, info.cols)).collect();
        assert_eq!(found, expected, "{}", dir.display());
        seen += 1;
    }
    assert!(seen > 10, "{seen} models");
}
