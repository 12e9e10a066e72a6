//! JSON of strangers that would take gigabytes as a tree of values: refused soon, before it is built. That of QSF files is in
//! `hostile_files`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use qsf_tests::*;
use serde_json::{Value, json};

/// Bytes that a refusal may take above what a program takes anyway.
const MORE_MEMORY: u64 = OWN_PAGES + (64 << 20);
/// Pages of the program itself that one which only says its version does not touch.
const OWN_PAGES: u64 = 4 << 20;
/// Time in which it comes, on a machine with much other load. Alone it is below two seconds.
const SOON: Duration = Duration::from_secs(10);

/// Peak memory of a program that only says its version.
fn own_memory() -> u64 {
    program("qsf-run").args("--version").run_measured().1
}

/// Expects exit code 3, a message that says all of `says`, soon and in little memory.
fn refused_cheaply(what: &str, call: Program, says: &[&str]) {
    refused_cheaply_with(3, what, call, says);
}

fn refused_cheaply_with(code: i32, what: &str, call: Program, says: &[&str]) {
    let started = Instant::now();
    let (output, peak) = call.run_measured();
    let (took, more) = (started.elapsed(), peak.saturating_sub(own_memory()));
    assert_eq!(output.code, code, "{what}: {}", output.stderr);
    for part in says {
        assert!(output.stderr.contains(part), "{what}: {part:?} is not in: {}", output.stderr);
    }
    println!("{what}: {more} bytes more, {took:?}");
    assert!(more < MORE_MEMORY, "{what}: {more} bytes");
    assert!(took < SOON, "{what}: {took:?}");
}

#[test]
fn a_configuration_of_very_many_values_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let original = fs::read_to_string(model.join("config.json")).unwrap();
    let members = original.trim().strip_suffix('}').unwrap();
    let bombs = [
        ("maps", "{\"a\":1}", 7_000_000, "at most"),
        ("lists", "[]", 5_000_000, "MiB of memory"),
        ("few maps", "{}", 100_000, "MiB of memory"),
    ];
    for (what, part, count, says) in bombs {
        let list = vec![part; count].join(",");
        fs::write(model.join("config.json"), format!("{members}, \"bomb\": [{list}]}}")).unwrap();
        for name in ["qsf-convert", "qsf-eval"] {
            let call = program(name).arg(&model);
            let call = if name == "qsf-eval" { call.arg("--file").arg(TEXT) } else { call.args("--dry-run") };
            refused_cheaply(what, call, &["config.json", says]);
        }
    }
}

#[test]
fn a_tokenizer_of_very_many_parts_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = model.join("tokenizer.json");
    let original: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let sequence = |name: &str, part: Value| json!({"type": "Sequence", name: vec![part; 100_000]});
    let bombs = [
        ("/normalizer", sequence("normalizers", json!({"type": "NFC"})), "MiB of memory"),
        ("/pre_tokenizer", sequence("pretokenizers", json!({"type": "Whitespace"})), "MiB of memory"),
        ("/decoder", sequence("decoders", json!({"type": "Fuse"})), "MiB of memory"),
        ("/added_tokens", Value::Array(vec![json!({"id": 0, "content": "x"}); 200_000]), "added tokens"),
        ("/model/merges", Value::Array(vec![json!("a b"); (1 << 20) + 1]), "1048577 merges"),
    ];
    for (place, bomb, says) in bombs {
        let mut json = original.clone();
        *json.pointer_mut(place).unwrap() = bomb;
        fs::write(&path, json.to_string()).unwrap();
        let call = program("qsf-run").arg(&model).args("-p hi -n 1");
        refused_cheaply(place, call, &["tokenizer", says]);
    }
}

/// A call of `qsf-run` that reads the tokenizer of `model`.
fn run(model: &Path) -> Program {
    program("qsf-run").arg(model).args("-p hi -n 1")
}

/// `count` elements of a list, as text: trees of values would take the memory that is measured.
fn list(element: &str, count: usize) -> String {
    format!("[{}]", vec![element; count].join(","))
}

#[test]
fn a_model_of_a_tokenizer_with_much_besides_pieces_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = model.join("tokenizer.json");
    let original: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let piece = |i: usize| format!("[\"{:0<60}\",0]", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let pieces = format!("[{}]", (0..60_000).map(piece).collect::<Vec<_>>().join(","));
    let bombs = [
        ("junk", list("{\"a\":1}", 500_000), "bytes of JSON"),
        ("junk", list("0", 400_000), "MiB of memory"),
        ("vocab", format!("{{\"a\":{}}}", list("[0]", 1_000_000)), "invalid type: sequence"),
        ("vocab", pieces, "tree has"),
        ("merges", list("[[0],[0]]", 400_000), "invalid type: sequence"),
    ];
    for (member, bomb, says) in bombs {
        let mut json = original.clone();
        json["model"][member] = json!("BOMB");
        fs::write(&path, json.to_string().replace("\"BOMB\"", &bomb)).unwrap();
        refused_cheaply(member, run(&model), &["tokenizer", says]);
    }
}

#[test]
fn steps_and_patterns_of_a_tokenizer_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = model.join("tokenizer.json");
    let original: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let bombs = [
        (vec![split("a"); 100], "100 patterns"),
        (vec![split(r"(?:a{1000}){100}"); 10], "patterns that would take"),
        (vec![split(&r"(?=\p{L}{200})".repeat(20))], "patterns that would take"),
        (vec![json!({"type": "Whitespace"}); 5000], "5001 steps"),
    ];
    for (steps, says) in bombs {
        let mut json = original.clone();
        json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": steps});
        fs::write(&path, json.to_string()).unwrap();
        refused_cheaply(says, run(&model), &["tokenizer", "its pre_tokenizer", says]);
    }
}

#[test]
fn files_beside_a_vocabulary_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    fs::remove_file(model.join("tokenizer.json")).unwrap();
    let write = |name: &str, text: &str| fs::write(model.join(name), text).unwrap();
    let reset = || {
        write("tokenizer_config.json", r#"{"tokenizer_class": "GPT2Tokenizer"}"#);
        write("vocab.json", r#"{"a": 0}"#);
        write("merges.txt", "");
        write("added_tokens.json", "{}");
    };
    let numbered = |count: usize| {
        let members: Vec<String> = (0..count).map(|i| format!("\"{i:x}\":{i}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let templates = list(r#"{"name":"a","template":"b"}"#, 500_000);
    let bombs = [
        ("vocab.json", format!("{{\"a\":{}}}", list("[0]", 480_000)), "nested more than 1 deep"),
        ("vocab.json", numbered(1_100_000), "more than 1048576 values"),
        ("merges.txt", "a b\n".repeat(8_000_000), "tokens of the vocabulary"),
        ("added_tokens.json", numbered(500_000), "more than 65536 values"),
        ("tokenizer_config.json", format!("{{\"chat_template\":{templates}}}"), "MiB of memory"),
        (
            "tokenizer_config.json",
            format!("{{\"extra_special_tokens\":{}}}", list("\"a\"", 600_000)),
            "at most 65536",
        ),
        ("special_tokens_map.json", list("[0]", 1_000_000), "MiB of memory"),
    ];
    for (name, bomb, says) in bombs {
        reset();
        write(name, &bomb);
        refused_cheaply(name, run(&model), &[name, says]);
    }
}

#[test]
fn headers_and_indexes_of_weights_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let weights = model.join("model.safetensors");
    let entry = |i: usize| format!("\"{i:x}\":{{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,0]}}");
    let entries = |count: usize| format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","));
    let shape =
        format!("{{\"a\":{{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}}}}", list("1", 3_900_000));
    let headers = [
        ("lists", format!("{{\"a\":{}}}", list("[0]", 1_900_000)), "the header"),
        ("maps", format!("{{\"a\":{}}}", list("{\"a\":0}", 900_000)), "the header"),
        ("deep", format!("{{\"a\":{}", "[".repeat(8_000_000)), "the header"),
        ("dimensions", shape, "at most 16 dimensions"),
        ("tensors", entries(140_000), "more than 131072 tensors"),
        ("tensors", entries(130_000), "as many bytes as"),
    ];
    for (what, header, says) in headers {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        fs::write(&weights, file).unwrap();
        refused_cheaply(what, run(&model), &["model.safetensors", says]);
    }
    fs::remove_file(&weights).unwrap();
    let index = model.join("model.safetensors.index.json");
    let files: Vec<String> = (0..300_000).map(|i| format!("\"{i:x}\":\"a.safetensors\"")).collect();
    for (bomb, says) in [
        (format!("{{\"weight_map\":{{{}}}}}", files.join(",")), "more than 262144 values"),
        (format!("{{\"weight_map\":{}}}", list("[0]", 470_000)), "nested more than 2 deep"),
    ] {
        fs::write(&index, bomb).unwrap();
        refused_cheaply("index", run(&model), &["index.json", says]);
    }
}

#[test]
fn plans_and_lists_of_jobs_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let plan = dir.path().join("plan.json");
    let types: Vec<String> = (0..200_000).map(|i| format!("\"{i:x}\":\"n4\"")).collect();
    for (bomb, says) in [
        (format!("{{\"version\":2,\"types\":{{{}}}}}", types.join(",")), "more than 131072 tensors"),
        (format!("{{\"version\":2,\"types\":{}}}", list("[0]", 400_000)), "MiB of memory"),
        (" ".repeat(20_000_000), "more than 16777216 bytes"),
    ] {
        fs::write(&plan, bomb).unwrap();
        let call = program("qsf-convert").arg(&model).args("--dry-run --plan").arg(&plan);
        refused_cheaply("plan", call, &["plan.json", says]);
    }
    for (name, bomb, says) in [
        ("jobs.jsonl", format!("{{\"model\":{}}}", list("{\"a\":1}", 900_000)), "bytes of JSON"),
        ("jobs.jsonl", format!("{{\"model\":{}}}", list("{}", 100_000)), "MiB of memory"),
        ("jobs.jsonl", "[\n".repeat(8_000_000), "expected one JSON object"),
        ("jobs.jsonl", "{\"model\":\"a\"}\n".repeat(1_000_000), "more than 65536 jobs"),
        ("jobs.toml", "[[job]]\n".repeat(1_000_000), "at most 1048576 bytes"),
        ("jobs.toml", "[[job]]\n".repeat(130_000), "every job needs this key"),
    ] {
        let jobs = dir.path().join(name);
        fs::write(&jobs, bomb).unwrap();
        let call = program("qsf-convert").arg("--batch").arg(&jobs).arg("--out-dir").arg(dir.path());
        // What a user wrote is a mistake of the command line.
        refused_cheaply_with(2, name, call, &[name, says]);
    }
}

/// A GGUF file with nothing but a vocabulary: strings, and arrays of strings, numbers and fractions.
fn write_gguf(path: &Path, texts: &[(&str, &str)], lists: &[(&str, &[String])], kinds: &[i32]) {
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let pairs = (texts.len() + lists.len() + 1) as u64;
    let mut file = [b"GGUF", &3_u32.to_le_bytes()[..], &0_u64.to_le_bytes(), &pairs.to_le_bytes()].concat();
    for (key, text) in texts {
        file.extend([string(key), 8_u32.to_le_bytes().to_vec(), string(text)].concat());
    }
    let array = |element: u32, count: usize| {
        [&9_u32.to_le_bytes()[..], &element.to_le_bytes(), &(count as u64).to_le_bytes()].concat()
    };
    for (key, list) in lists {
        file.extend([string(key), array(8, list.len())].concat());
        list.iter().for_each(|text| file.extend(string(text)));
    }
    file.extend([string("tokenizer.ggml.token_type"), array(5, kinds.len())].concat());
    kinds.iter().for_each(|kind| file.extend(kind.to_le_bytes()));
    fs::write(path, file).unwrap();
}

#[test]
fn vocabularies_of_gguf_files_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vocab.gguf");
    let texts = [
        ("general.architecture", "llama"),
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "gpt-2"),
    ];
    let tokens = |count: usize| (0..count).map(|i| format!("{i:x}")).collect::<Vec<_>>();
    let long: Vec<String> = (0..400).map(|i| format!("{i}{}", "x".repeat(50_000))).collect();
    let cases = [
        ("user-defined", tokens(200_000), vec![], vec![4; 200_000], "at most 65536"),
        ("control", tokens(200_000), vec![], vec![3; 200_000], "at most 65536"),
        ("long tokens", long, vec![], vec![1; 400], "bytes of tokens"),
        ("tokens", vec![String::new(); 1_100_000], vec![], vec![], "1 to 1048576 tokens"),
        ("merges", tokens(20), vec![String::new(); 1_100_000], vec![1; 20], "at most 1048576 merges"),
        ("wrong merges", tokens(20), vec!["1 z".into(); 900_000], vec![1; 20], "tokens of the vocabulary"),
    ];
    for (what, tokens, merges, kinds, says) in cases {
        write_gguf(
            &path,
            &texts,
            &[("tokenizer.ggml.tokens", &tokens), ("tokenizer.ggml.merges", &merges)],
            &kinds,
        );
        let call = program("qsf-run").arg(&path).args("--tokenize -p hi");
        refused_cheaply(what, call, &["vocab.gguf", says]);
    }
}

#[test]
fn pieces_of_a_sentencepiece_model_that_are_cut_out_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.model");
    let mut file = b"\x0a\x09\x0a\x05<unk>\x18\x02".to_vec();
    for i in 0..500_000 {
        file.extend([&b"\x0a\x0a\x0a\x06"[..], format!("{i:06x}").as_bytes(), b"\x18\x04"].concat());
    }
    fs::write(&path, file).unwrap();
    let call = program("qsf-run").arg(&path).args("--tokenize -p hi");
    refused_cheaply("user-defined", call, &["tokenizer.model", "at most 65536"]);
}
