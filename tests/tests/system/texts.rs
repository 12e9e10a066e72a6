//! Text and tokens: what a model's own tokenizer says is what is read, scored and shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_runtime::cpu::Cpu;
use qsf_runtime::eval::{EvalOptions, evaluate};
use qsf_runtime::progress::Unwatched;
use qsf_runtime::{Decoder, Model, Tokenizer, source};
use qsf_tests::*;
use serde_json::{Value, json};

fn tokenizer_json(model: &Path) -> Value {
    serde_json::from_slice(&fs::read(model.join("tokenizer.json")).unwrap()).unwrap()
}

fn tokenizer(model: &Path) -> Tokenizer {
    Tokenizer::from_json(&fs::read(model.join("tokenizer.json")).unwrap(), model).unwrap()
}

fn write_tokenizer(model: &Path, json: &Value) {
    fs::write(model.join("tokenizer.json"), json.to_string()).unwrap();
}

/// The beginning of the text with at least `bytes` bytes, up to the end of a word.
fn beginning(bytes: usize) -> String {
    let text = fs::read_to_string(TEXT).unwrap();
    let end = bytes + text[bytes..].find(' ').unwrap();
    text[..end].to_owned()
}

#[test]
fn a_token_beyond_the_vocabulary_is_found_wherever_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    change_config(&model, "max_position_embeddings", json!(1024));
    let mut json = tokenizer_json(&model);
    let mut added = json["added_tokens"][0].clone();
    added["id"] = json!(2048);
    added["content"] = json!("<|beyond|>");
    json["added_tokens"].as_array_mut().unwrap().push(added);
    write_tokenizer(&model, &json);
    let out = dir.path().join("model.qsf");
    program("qsf-convert").arg(&model).arg(&out).run().ok();

    let text = dir.path().join("text.txt");
    // In the first step of 512 tokens of a chunk, and in the second.
    for (bytes, places) in [(300, 20..500), (1700, 513..600)] {
        fs::write(&text, format!("{}<|beyond|>{}", beginning(bytes), beginning(6000))).unwrap();
        let tokens = tokenizer(&model).encode(&fs::read_to_string(&text).unwrap()).unwrap();
        let at = tokens.iter().position(|&token| token == 2048).unwrap();
        assert!(places.contains(&at), "token {at}: choose another number of bytes than {bytes}");
        for model in [&model, &out] {
            for args in ["--ctx 600", "--ctx 600 --chunks 1 --json"] {
                let call = program("qsf-eval").arg(model).arg("--file").arg(&text).args(args);
                let says = &["2048", &format!("position {at}"), "vocabulary of 2048"];
                refused(&format!("{call:?}"), dir.path(), call, 2, says);
            }
            let call = program("qsf-eval").arg(model).arg("--base").arg(model).arg("--file").arg(&text);
            refused("base", dir.path(), call.args("--ctx 600"), 2, &["vocabulary of 2048"]);
            let call = program("qsf-run").arg(model).arg("-f").arg(&text).args("-n 1 -c 4096 --json");
            refused("run", dir.path(), call, 2, &["2048"]);
        }
        let call = program("qsf-convert").arg(&model).arg(dir.path().join("calibrated.qsf"));
        refused("calibration", dir.path(), call.arg("--calibration").arg(&text), 2, &["2048"]);
    }
    // Tokens that are never evaluated do no harm.
    let call = program("qsf-eval").arg(&out).arg("--file").arg(&text).args("--ctx 128 --chunks 2 --json");
    assert_eq!(call.run().json()["chunks"], 2);
}

/// A tokenizer in the way of SentencePiece: words begin with a mark for the space before them.
fn pieces(words: bool) -> (Value, usize) {
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let marked: Vec<String> = letters.iter().map(|letter| format!("▁{letter}")).collect();
    let all = ["<unk>", "▁", "!"].map(str::to_owned).into_iter().chain(letters.clone()).chain(marked);
    let vocab: serde_json::Map<String, Value> = all.zip(0..).map(|(piece, id)| (piece, json!(id))).collect();
    let size = vocab.len();
    let merges: Vec<Value> = letters.iter().map(|letter| json!(["▁", letter])).collect();
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let normalizer = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
        "normalizer": if words { Value::Null } else { normalizer },
        "pre_tokenizer": if words { metaspace.clone() } else { Value::Null },
        "decoder": if words { metaspace } else { decoder },
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocab, "merges": merges}
    });
    (json, size)
}

/// Continues a prompt by random tokens, and expects the text that prompt and tokens make together. Gives how often the
/// continuation began with a space.
fn spaces_kept(model: &Path, prompt: &str) -> usize {
    let tokenizer = tokenizer(model);
    let mut spaces = 0;
    for seed in 0..12 {
        let call = || program("qsf-run").arg(model).arg("-p").arg(prompt);
        let call = || call().args("-n 10 --temp 2 --top-k 0 --top-p 1 --seed").arg(seed.to_string());
        let run = call().arg("--json").run().json();
        let ids = |field: &str| -> Vec<u32> {
            run[field].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
        };
        let before = ids("prompt_token_ids");
        let whole = tokenizer.decode(&[before.clone(), ids("token_ids")].concat(), true).unwrap();
        let text = run["text"].as_str().unwrap();
        assert_eq!(tokenizer.decode(&before, true).unwrap(), prompt);
        assert_eq!(format!("{prompt}{text}"), whole, "seed {seed}");
        assert_eq!(call().run().ok().stdout, format!("{whole}\n"), "seed {seed}");
        spaces += usize::from(text.starts_with(' '));
    }
    spaces
}

#[test]
fn the_space_between_prompt_and_continuation_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    for words in [false, true] {
        let (json, vocab) = pieces(words);
        let model = dir.path().join(if words { "metaspace" } else { "replace" });
        write_llama(&model, Size { vocab, ..Size::TINY }, 3);
        write_tokenizer(&model, &json);
        for prompt in ["once upon a time", "z", "a b c d e f g h i j k l"] {
            let spaces = spaces_kept(&model, prompt);
            assert!((1..12).contains(&spaces), "{spaces} continuations of 12 began with a space");
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn the_space_is_kept_with_the_tokenizer_of_a_model_in_use() {
    let real = shared("tokenizers/phi-3-mini");
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size { layers: 1, hidden: 64, ffn: 64, vocab: 32_064 }, 3);
    fs::copy(real.join("tokenizer.json"), model.join("tokenizer.json")).unwrap();
    for prompt in ["Once upon a time", "die größte Straße"] {
        assert!(spaces_kept(&model, prompt) > 0);
    }
}

/// The embedded model with a tokenizer that puts `<|endoftext|>`, token 0, before a text, or behind it.
fn with_special(dir: &Path, name: &str, bos: bool) -> PathBuf {
    let model = demo_model(&dir.join(name));
    let mut json = tokenizer_json(&model);
    let special = json!({"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let single = if bos { json!([special, sequence("A")]) } else { json!([sequence("A"), special]) };
    json["post_processor"] = json!({
        "type": "TemplateProcessing", "single": single, "pair": [sequence("A"), sequence("B")],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}
    });
    write_tokenizer(&model, &json);
    model
}

/// Perplexity by the library of tokens as they are.
fn perplexity(model: &Path, tokens: &[u32], ctx: usize) -> f64 {
    let source = source::open(model).unwrap();
    let decoder =
        Decoder::new(Arc::new(Model::load(source.as_ref()).unwrap()), Cpu::from_env().unwrap(), None);
    let options = EvalOptions { ctx, ..EvalOptions::default() };
    evaluate(&decoder, None, tokens, options, &Unwatched).unwrap().ppl
}

#[test]
fn every_chunk_begins_with_the_start_token_that_the_tokenizer_puts_before_a_text() {
    const CTX: usize = 64;
    let dir = tempfile::tempdir().unwrap();
    let plain = demo_model(&dir.path().join("plain"));
    // The start token completes the last chunk.
    let mut text = beginning(2000);
    while tokenizer(&plain).encode(&text).unwrap().len() % CTX != CTX - 1 {
        text.pop();
    }
    let file = dir.path().join("text.txt");
    fs::write(&file, &text).unwrap();
    let tokens = tokenizer(&plain).encode(&text).unwrap();
    let chunks = tokens.len() / CTX;
    assert!(chunks > 5);
    let eval = |model: &Path| {
        let call = program("qsf-eval").arg(model).arg("--file").arg(&file).args("--json --ctx");
        call.arg(CTX.to_string()).run().json()
    };
    let check = |model: &Path, tokens: &[u32]| {
        let value = eval(model);
        assert_eq!(value["chunks"], tokens.len() / CTX, "{value}");
        let (found, expected) = (value["ppl"].as_f64().unwrap(), perplexity(model, tokens, CTX));
        assert!((found / expected - 1.0).abs() < 1e-12, "{}: {found}, not {expected}", model.display());
        expected
    };
    let without = check(&plain, &tokens);
    let mut replaced = [&[0], &tokens[..]].concat();
    for chunk in replaced.chunks_mut(CTX) {
        chunk[0] = 0;
    }
    assert_eq!(replaced.len() / CTX, chunks + 1);
    let bos = with_special(dir.path(), "bos", true);
    let with = check(&bos, &replaced);
    assert_ne!(with, without);
    // One that stands behind a text is nobody's start.
    check(&with_special(dir.path(), "eos", false), &[&tokens[..], &[0]].concat());

    // It comes with the file, and belongs to a prompt.
    let out = dir.path().join("bos.qsf");
    program("qsf-convert").arg(&bos).arg(&out).args("--quant f16").run().ok();
    assert_eq!(eval(&out)["chunks"], chunks + 1);
    assert!((eval(&out)["ppl"].as_f64().unwrap() / with - 1.0).abs() < 1e-9);
    let run = program("qsf-run").arg(&out).args("-p Hello -n 1 --json").run().json();
    assert_eq!(run["prompt_token_ids"][0], 0, "{run}");
    // Another reading of the text is another text.
    let call = program("qsf-eval").arg(&bos).arg("--base").arg(&plain).arg("--file").arg(&file);
    refused("base without start token", dir.path(), call.args("--ctx 64"), 2, &["tokenizers"]);
}
