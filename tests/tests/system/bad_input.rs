//! Broken sources, broken files and impossible requests: each is refused with the promised exit code and a message that
//! names the culprit, and leaves everything as it was.

use std::fs;
use std::path::Path;

use qsf_tests::*;
use serde_json::{Value, json};

fn convert(dir: &Path) -> Program {
    program("qsf-convert").arg(dir.join("model")).arg(dir.join("out.qsf"))
}

/// Breaks a tiny LLaMA in `dir/model` and expects the converter to refuse it.
#[track_caller]
fn source_refused(what: &str, damage: impl Fn(&Path), code: i32, says: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size::TINY, 1);
    damage(&model);
    refused(what, dir.path(), convert(dir.path()), code, says);
}

/// Splits the weights into `a.safetensors` (the embedding) and `b.safetensors` (all else), with an index.
fn shard(model: &Path) -> Value {
    let weights = SafetensorsFile::of_model(model);
    let file = |name: &str| if name.contains("embed") { "a.safetensors" } else { "b.safetensors" };
    for shard in ["a.safetensors", "b.safetensors"] {
        weights.save_some(&model.join(shard), |name| file(name) == shard);
    }
    fs::remove_file(model.join("model.safetensors")).unwrap();
    let map: serde_json::Map<String, Value> =
        weights.names().map(|name| (name.to_owned(), json!(file(name)))).collect();
    let index = json!({"metadata": {}, "weight_map": map});
    write_index(model, &index);
    index
}

fn write_index(model: &Path, index: &Value) {
    fs::write(model.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn a_missing_shard_is_named() {
    source_refused(
        "missing shard",
        |model| {
            shard(model);
            fs::remove_file(model.join("b.safetensors")).unwrap();
        },
        3,
        &["b.safetensors", "no such file"],
    );
}

#[test]
fn an_index_that_leads_out_of_the_folder_is_not_followed() {
    for name in ["../a.safetensors", "/etc/a.safetensors", "x/a.safetensors", "..", "a\\b.safetensors", ""] {
        source_refused(
            name,
            |model| {
                let mut index = shard(model);
                fs::copy(model.join("a.safetensors"), model.join("../a.safetensors")).unwrap();
                index["weight_map"]["model.embed_tokens.weight"] = json!(name);
                write_index(model, &index);
            },
            3,
            &["weight_map", "model.embed_tokens.weight"],
        );
    }
}

#[test]
fn a_tensor_whose_shape_contradicts_the_configuration_is_named_with_both_shapes() {
    let embedding = "model.embed_tokens.weight";
    let vocab = |model: &Path| change_config(model, "vocab_size", json!(97));
    source_refused("vocab_size", vocab, 3, &[embedding, "[97, 128]", "[96, 128]"]);
    let name = "model.layers.1.mlp.down_proj.weight";
    let transposed = |model: &Path| {
        let mut weights = SafetensorsFile::of_model(model);
        weights.reshape(name, &[192, 128]);
        weights.save();
    };
    source_refused("transposed", transposed, 3, &[name, "[128, 192]", "[192, 128]"]);
    let without = |model: &Path| {
        let mut weights = SafetensorsFile::of_model(model);
        weights.remove(name);
        weights.save();
    };
    source_refused("missing tensor", without, 3, &[name]);
}

#[test]
fn a_weight_that_is_not_a_number_is_named_with_its_place_instead_of_being_quantized() {
    let up = "model.layers.1.mlp.up_proj.weight";
    for (name, index, value, says) in [
        (up, 7 * 128 + 5, f32::NAN, ["NaN", "row 7", "column 5"]),
        (up, 191 * 128 + 127, f32::INFINITY, ["inf", "row 191", "column 127"]),
        ("model.embed_tokens.weight", 3 * 128, f32::NEG_INFINITY, ["-inf", "row 3", "column 0"]),
        ("model.norm.weight", 100, f32::NAN, ["NaN", "row 0", "column 100"]),
        ("model.layers.0.input_layernorm.weight", 1, f32::INFINITY, ["inf", "row 0", "column 1"]),
    ] {
        for quant in ["4bit", "ternary", "8bit", "f16", "f32"] {
            let dir = tempfile::tempdir().unwrap();
            let model = dir.path().join("model");
            write_llama(&model, Size::TINY, 1);
            let mut weights = SafetensorsFile::of_model(&model);
            weights.set(name, index, value);
            weights.save();
            let call = convert(dir.path()).arg("-q").arg(quant);
            refused(&format!("{name} {quant}"), dir.path(), call, 3, &[&says[..], &[name]].concat());
        }
    }
}

#[test]
fn an_architecture_that_is_not_supported_is_told_from_a_broken_one() {
    let unknown = |model: &Path| change_config(model, "model_type", json!("rwkv"));
    source_refused("rwkv", unknown, 4, &["rwkv", "llama", "gpt2"]);
    let packed =
        |model: &Path| change_config(model, "quantization_config", json!({"quant_method": "bitsandbytes"}));
    source_refused("quantized", packed, 4, &["bitsandbytes", "f16"]);
    let pickled = |model: &Path| {
        fs::remove_file(model.join("model.safetensors")).unwrap();
        // How torch.save began a file before version 1.6.
        let legacy = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
        fs::write(model.join("pytorch_model.bin"), legacy).unwrap();
    };
    source_refused("pickle", pickled, 4, &["pytorch_model.bin", "safetensors"]);
}

#[test]
fn a_cut_or_lying_weight_file_is_named() {
    let edit = |change: fn(&mut Vec<u8>)| {
        move |model: &Path| {
            let path = model.join("model.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
    };
    let says = &["model.safetensors"];
    source_refused("half", edit(|bytes| bytes.truncate(bytes.len() / 2)), 3, says);
    source_refused("one byte short", edit(|bytes| bytes.truncate(bytes.len() - 1)), 3, says);
    source_refused("seven bytes", edit(|bytes| bytes.truncate(7)), 3, says);
    source_refused("empty", edit(Vec::clear), 3, says);
    source_refused("header of 2^64 - 1", edit(|bytes| bytes[..8].fill(0xff)), 3, says);
    source_refused(
        "text",
        edit(|bytes| *bytes = b"version https://git-lfs.github.com/spec/v1\n".to_vec()),
        3,
        says,
    );
}

#[test]
fn a_configuration_that_cannot_be_is_named_with_the_field() {
    let remove = |model: &Path| fs::remove_file(model.join("config.json")).unwrap();
    source_refused("missing", remove, 3, &["config.json"]);
    for text in ["", "{", "[]", "\"llama\"", "{}", "\u{0}\u{1}", "<html>404</html>"] {
        let write = |model: &Path| fs::write(model.join("config.json"), text).unwrap();
        source_refused(text, write, 3, &["config.json"]);
    }
    for (field, value) in [
        ("model_type", json!(7)),
        ("hidden_size", json!("128")),
        ("hidden_size", json!(-128)),
        ("hidden_size", json!(0)),
        ("hidden_size", json!(1e300)),
        ("hidden_size", json!(128.5)),
        ("hidden_size", Value::Null),
        ("vocab_size", json!(u64::MAX)),
        ("vocab_size", json!(u32::MAX)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(-1)),
        ("num_hidden_layers", json!(u32::MAX)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!([4])),
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(u32::MAX)),
        ("intermediate_size", json!({})),
        ("intermediate_size", json!(u32::MAX)),
        ("max_position_embeddings", json!(u64::MAX)),
        ("rms_norm_eps", json!("small")),
        ("rms_norm_eps", json!(-1.0)),
        ("rms_norm_eps", json!(1e300)),
        ("rope_theta", json!(0)),
        ("rope_theta", json!(-5)),
        ("rope_scaling", json!("linear")),
        ("tie_word_embeddings", json!("yes")),
        ("eos_token_id", json!(-7)),
        ("bos_token_id", json!(96)),
    ] {
        let change = |model: &Path| change_config(model, field, value.clone());
        source_refused(&format!("{field} = {value}"), change, 3, &["config.json"]);
    }
    // Claims more layers than there are: the first that is missing is named, at once.
    let layers = |model: &Path| change_config(model, "num_hidden_layers", json!(60_000));
    source_refused("60000 layers", layers, 3, &["model.layers.2."]);
}

#[test]
fn a_rotation_given_twice_must_be_the_same_rotation() {
    // TINY has a `rope_theta` of 10000 in the old place.
    let again = |theta: f64| json!({"rope_theta": theta, "rope_type": "default"});
    for (field, value) in [
        ("rope_parameters", again(500_000.0)),
        ("rope_scaling", again(10_001.0)),
        ("rope_theta", json!(10_000.5)),
    ] {
        let change = |model: &Path| {
            change_config(model, "rope_parameters", again(10_000.0));
            change_config(model, field, value.clone());
        };
        source_refused(&format!("{field} = {value}"), change, 3, &["config.json", "rope_theta", "10000"]);
    }
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size::TINY, 1);
    change_config(&model, "rope_parameters", again(10_000.0));
    convert(dir.path()).run().ok();
}

#[test]
fn a_tokenizer_that_is_none_is_found_before_it_is_shipped() {
    for text in ["", "{}", "not json", "{\"model\": 5}"] {
        let write = |model: &Path| fs::write(model.join("tokenizer.json"), text).unwrap();
        source_refused(&format!("tokenizer.json {text:?}"), write, 3, &["tokenizer"]);
    }
}

#[test]
fn a_tokenizer_that_is_none_is_named_where_text_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    fs::write(model.join("tokenizer.json"), "{\"version\": \"1.0\"}").unwrap();
    for call in [
        program("qsf-run").arg(&model).args("-p Hello"),
        program("qsf-eval").arg(&model).arg("--file").arg(model.join("config.json")),
    ] {
        refused("tokenizer", dir.path(), call, 3, &["demo-1m", "tokenizer"]);
    }
}

#[test]
fn folders_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let nowhere = dir.path().join("nowhere");
    for call in [
        program("qsf-convert").arg(&nowhere).arg(dir.path().join("out.qsf")),
        program("qsf-convert").arg(&model).arg(nowhere.join("out.qsf")),
        program("qsf-inspect").arg(&nowhere),
        program("qsf-run").arg(&nowhere).args("-p x"),
        program("qsf-run").arg(&model).arg("-f").arg(&nowhere),
        program("qsf-eval").arg(&model).arg("--file").arg(&nowhere),
        program("qsf-eval").arg(&model).arg("--golden").arg(&nowhere),
        program("qsf-eval")
            .arg(&model)
            .arg("--base")
            .arg(&nowhere)
            .arg("--file")
            .arg(model.join("config.json")),
    ] {
        refused(&format!("{call:?}"), dir.path(), call, 3, &["nowhere"]);
    }
}

#[test]
fn an_output_never_costs_the_user_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let call = |out: &Path| program("qsf-convert").arg(&model).arg(out);
    let there = dir.path().join("there.qsf");
    fs::write(&there, "precious").unwrap();
    refused("exists", dir.path(), call(&there), 2, &["there.qsf", "--force"]);
    let weights = model.join("model.safetensors");
    refused("input", dir.path(), call(&weights), 2, &["model.safetensors"]);
    refused("input, forced", dir.path(), call(&weights).arg("--force"), 2, &["model.safetensors"]);
    let config = model.join("../demo-1m/config.json");
    refused("input by another name", dir.path(), call(&config).arg("--force"), 2, &["config.json"]);
    #[cfg(unix)]
    {
        let link = dir.path().join("link.qsf");
        std::os::unix::fs::symlink(&weights, &link).unwrap();
        refused("link to an input", dir.path(), call(&link).arg("--force"), 2, &["link.qsf"]);
        let dangling = dir.path().join("dangling.qsf");
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        refused("dangling link", dir.path(), call(&dangling), 2, &["dangling.qsf"]);
    }
    refused("a folder", dir.path(), call(dir.path()), 2, &["directory"]);
    refused("a folder, forced", dir.path(), call(dir.path()).arg("--force"), 2, &["directory"]);
}

#[test]
fn what_is_no_qsf_file_is_refused_by_every_program() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text.txt");
    fs::write(&text, "Some text to evaluate on.\n".repeat(100)).unwrap();
    let cases: [(&str, &[u8]); 5] = [
        ("empty.qsf", b""),
        ("magic.qsf", b"QSF1"),
        ("text.qsf", &b"This is a text, and not a model. ".repeat(10)),
        ("zeros.qsf", &[0; 5000]),
        ("gguf.qsf", &[b"GGUF\x03\0\0\0".as_slice(), &[1; 200]].concat()),
    ];
    for (name, bytes) in cases {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        for call in [
            program("qsf-inspect").arg(&path),
            program("qsf-inspect").arg(&path).args("--verify --json"),
            program("qsf-run").arg(&path).args("-p Hello"),
            program("qsf-eval").arg(&path).arg("--file").arg(&text),
        ] {
            refused(name, dir.path(), call, 3, &[name]);
        }
    }
}

#[test]
fn a_broken_gguf_file_is_refused_by_every_program_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.gguf");
    write_sparse_gguf(&whole, Size::TINY);
    let whole = fs::read(whole).unwrap();
    let path = dir.path().join("model.gguf");
    let text = dir.path().join("text.txt");
    fs::write(&text, "A text.").unwrap();
    for (what, bytes, says) in [
        ("counts", [b"GGUF\x03\0\0\0".as_slice(), &[1; 200]].concat(), "number of tensors"),
        ("magic alone", b"GGUF".to_vec(), "byte 4"),
        ("version 1", [b"GGUF\x01\0\0\0".as_slice(), &[0; 64]].concat(), "version"),
        ("cut short", whole[..whole.len() - 1].to_vec(), "blk.1.ffn_down.weight"),
    ] {
        fs::write(&path, bytes).unwrap();
        for call in [
            program("qsf-convert").arg(&path).arg(dir.path().join("out.qsf")),
            program("qsf-convert").arg(&path).arg("--dry-run"),
            program("qsf-run").arg(&path).args("-p Hello"),
            program("qsf-eval").arg(&path).arg("--file").arg(&text),
        ] {
            let code = if what == "version 1" { 4 } else { 3 };
            refused(what, dir.path(), call, code, &["model.gguf", says]);
        }
    }
}

#[test]
fn a_model_of_the_hub_that_is_not_there_is_told_from_a_path() {
    let dir = tempfile::tempdir().unwrap();
    for argument in ["org/name", "hf://org/name", "org/name@v2", "org/name:model-q4.gguf"] {
        let call = program("qsf-convert").arg(argument).env("HF_HUB_OFFLINE", "1").env("HF_HOME", "none");
        refused(argument, dir.path(), call, 3, &["org/name", "not in the cache", "HF_HUB_OFFLINE"]);
    }
    let call = program("qsf-convert").arg("org/name@../x");
    refused("revision", dir.path(), call, 2, &["a branch, a tag or a commit"]);
    // What cannot be a name on the hub is a path.
    let call = program("qsf-convert").arg("./org/name");
    refused("path", dir.path(), call, 3, &["./org/name"]);
}

#[test]
fn a_file_for_a_folder_and_a_folder_for_a_file_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let qsf = dir.path().join("model.qsf");
    program("qsf-convert").arg(&model).arg(&qsf).run().ok();
    let out = dir.path().join("out.qsf");
    let call = program("qsf-convert").arg(&qsf).arg(&out);
    refused(
        "quantize again",
        dir.path(),
        call,
        2,
        &["model.qsf", "already quantized (n4)", "--allow-requantize"],
    );
    let call = program("qsf-convert").arg(&qsf).arg(&qsf).args("--force -q f16");
    refused("convert onto itself", dir.path(), call, 2, &["model.qsf", "own files"]);
    refused(
        "inspect a folder without a model",
        dir.path(),
        program("qsf-inspect").arg("."),
        3,
        &["config.json"],
    );
    let call = program("qsf-run").arg(dir.path()).args("-p Hello");
    refused("run a folder without a model", dir.path(), call, 3, &["config.json"]);
}
