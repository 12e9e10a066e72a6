//! Tokenizers of SentencePiece in GGUF files: the scores and types that the model's own `tokenizer.model` has.

use std::fs;
use std::path::Path;

use qsf_runtime::gguf::GgufFile;
use qsf_tests::*;
use serde_json::json;

/// A LLaMA with the tokenizer of Llama 2, and rows for four tokens more.
fn model_with_pieces(dir: &Path) {
    write_llama(dir, Size { layers: 1, hidden: 64, ffn: 32, vocab: 32_004 }, 5);
    fs::copy(shared("tokenizers/llama2/tokenizer.model"), dir.join("tokenizer.model")).unwrap();
}

fn convert(model: &Path, out: &Path) -> GgufFile {
    program("qsf-convert").arg(model).arg(out).args("--quant F16").run().ok();
    GgufFile::open(out).unwrap()
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn scores_and_types_are_those_that_the_reference_converter_took_from_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    model_with_pieces(&model);
    let (ours, theirs) = (
        convert(&model, &dir.path().join("a.gguf")).metadata,
        GgufFile::open(&shared("vocab/ggml-vocab-llama-spm.gguf")).unwrap().metadata,
    );
    let count = theirs.strings(TOKENS).unwrap().unwrap().len();
    assert_eq!(ours.strings(TOKENS).unwrap().unwrap()[..count], theirs.strings(TOKENS).unwrap().unwrap());
    assert_eq!(ours.f32s(SCORES).unwrap().unwrap()[..count], theirs.f32s(SCORES).unwrap().unwrap());
    assert_eq!(ours.i32s(TYPES).unwrap().unwrap()[..count], theirs.i32s(TYPES).unwrap().unwrap());
    // Rows without a token, as convert_hf_to_gguf.py has them.
    assert_eq!(
        ours.strings(TOKENS).unwrap().unwrap()[count..],
        ["[PAD32000]", "[PAD32001]", "[PAD32002]", "[PAD32003]"]
    );
    assert_eq!(ours.f32s(SCORES).unwrap().unwrap()[count..], [-10_000.0; 4]);
    assert_eq!(ours.i32s(TYPES).unwrap().unwrap()[count..], [5; 4]);
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn tokens_that_files_beside_the_model_add_are_known_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    model_with_pieces(&model);
    let added = json!({ "added_tokens_decoder": {
        "1": { "content": "<s>", "special": true },
        "32000": { "content": "<|user|>", "special": false },
        "32001": { "content": "two\u{2581}words", "special": false },
        "32002": { "content": "<end>", "special": true },
    } });
    fs::write(model.join("tokenizer_config.json"), added.to_string()).unwrap();
    let out = dir.path().join("a.gguf");
    let file = convert(&model, &out).metadata;
    let (tokens, scores, types) = (
        file.strings(TOKENS).unwrap().unwrap(),
        file.f32s(SCORES).unwrap().unwrap(),
        file.i32s(TYPES).unwrap().unwrap(),
    );
    assert_eq!(tokens[32_000..], ["<|user|>", "two words", "<end>", "[PAD32003]"]);
    assert_eq!((scores[1], &scores[32_000..]), (-1000.0, &[-1000.0, -1000.0, -1000.0, -10_000.0][..]));
    assert_eq!((types[1], &types[32_000..]), (3, &[3, 4, 3, 5][..]));
    // A tokenizer.model that is another tokenizer's says nothing: scores are then those of the merges.
    let other = dir.path().join("other");
    write_llama(&other, Size { layers: 1, hidden: 64, ffn: 32, vocab: 32_064 }, 5);
    fs::copy(shared("tokenizers/phi-3-mini/tokenizer.json"), other.join("tokenizer.json")).unwrap();
    let merged = convert(&other, &dir.path().join("b.gguf")).metadata;
    fs::write(other.join("tokenizer.model"), "IQ== 0\nIg== 1\n").unwrap();
    let same = convert(&other, &dir.path().join("c.gguf")).metadata;
    assert_eq!(merged.f32s(SCORES).unwrap(), same.f32s(SCORES).unwrap());
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn a_hostile_or_broken_file_of_added_tokens_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size { layers: 1, hidden: 64, ffn: 32, vocab: 32_064 }, 5);
    fs::copy(shared("tokenizers/phi-3-mini/tokenizer.json"), model.join("tokenizer.json")).unwrap();
    fs::copy(shared("tokenizers/llama2/tokenizer.model"), model.join("tokenizer.model")).unwrap();
    let out = dir.path().join("out.gguf");
    // 12 MB that become hundreds of megabytes of values, and half an object.
    for text in [format!("[{}0]", "[],".repeat(4 << 20)), "{\"<x>\": 3".to_owned()] {
        fs::write(model.join("added_tokens.json"), text).unwrap();
        let call = program("qsf-convert").arg(&model).arg(&out).args("--quant F16");
        refused("added tokens", dir.path(), call, 3, &["added_tokens.json"]);
    }
}
