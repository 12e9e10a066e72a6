//! Directories that are incomplete, damaged or hostile: every one an error that says what to look at.

use std::fs;
use std::path::PathBuf;

use qsf_format::Failure;
use serde_json::json;

use super::*;

const EMBEDDING: &str = "model.embed_tokens.weight";

/// A LLaMA directory whose weight file has these bytes.
fn with_weights(bytes: &[u8]) -> String {
    let dir = TinyModel::llama().write_config();
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    refusal(dir.path())
}

fn good_weights() -> Vec<u8> {
    fs::read(TinyModel::llama().write().path().join("model.safetensors")).unwrap()
}

/// A safetensors file with this header before `data` bytes.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn a_path_that_is_no_model_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert_says(&refusal(&dir.path().join("absent")), &["absent", "cannot open"]);
    assert_says(&refusal(dir.path()), &["config.json", "no such file"]);
    fs::write(dir.path().join("file"), "").unwrap();
    assert_says(&refusal(&dir.path().join("file")), &["expected a model directory, found a file"]);
}

#[test]
fn a_configuration_that_is_no_json_object_is_named() {
    for text in ["", "{", "[]", "{\"hidden_size\": 1e999}", "\u{feff}{}"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), text).unwrap();
        assert_says(&refusal(dir.path()), &["config.json", "expected"]);
    }
}

#[test]
fn a_directory_without_weights_says_which_files_are_read() {
    let dir = TinyModel::llama().write_config();
    assert_says(&refusal(dir.path()), &["model.safetensors", "pytorch_model.bin.index.json", "none"]);
}

#[test]
fn a_weight_file_cut_at_any_point_is_an_error() {
    let good = good_weights();
    assert_says(&with_weights(b""), &["model.safetensors", "an empty file"]);
    for cut in 1..40 {
        assert_says(&with_weights(&good[..cut]), &["model.safetensors: the header", "complete safetensors"]);
    }
    for cut in [good.len() / 2, good.len() - 1] {
        let (expected, found) = (format!("expected {} bytes", good.len()), format!("found {cut} bytes"));
        assert_says(&with_weights(&good[..cut]), &["model.safetensors", &expected, &found, "cut short"]);
    }
    let longer = [&good[..], &[0]].concat();
    assert_says(&with_weights(&longer), &["model.safetensors: the header"]);
}

#[test]
fn lying_headers_are_errors() {
    let tensor = |shape: &str, offsets: &str| {
        format!(r#"{{"{EMBEDDING}":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    for header in [
        tensor("[10,8]", "[0,319]"),
        tensor("[10,8]", "[320,0]"),
        tensor("[10,8]", "[-1,320]"),
        tensor("[10,8]", "[4,324]"),
        tensor("[4611686018427387905,4]", "[0,320]"),
        tensor("[18446744073709551615,18446744073709551615]", "[0,320]"),
        tensor("[1e3]", "[0,320]"),
        "[".repeat(100_000),
        "{}".to_owned(),
        "null".to_owned(),
        r#"{"a":{"dtype":"F64_","shape":[1],"data_offsets":[0,8]}}"#.to_owned(),
    ] {
        assert_says(&with_weights(&with_header(&header, 320)), &["model.safetensors"]);
    }
    let name = r#"{"a\u001b[2J":{"dtype":"F32","shape":[80],"data_offsets":[4,324]}}"#;
    assert_says(&with_weights(&with_header(name, 320)), &[r"a\u{1b}[2J"]);
    for length in [u64::MAX, u64::MAX - 7, 1 << 40, 100_000_001, 1 << 63] {
        let mut bytes = good_weights();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert_says(&with_weights(&bytes), &["model.safetensors: the header"]);
    }
    let twice = tensor("[10,8]", "[0,320]").replace("}}", "},") + &tensor("[10,8]", "[320,640]")[1..];
    assert_says(&with_weights(&with_header(&twice, 640)), &["model.safetensors"]);
}

#[test]
fn a_missing_tensor_is_named() {
    for name in [EMBEDDING, "model.norm.weight", "model.layers.0.mlp.up_proj.weight"] {
        let message = TinyModel::llama().without_tensor(name).refusal();
        assert_says(&message, &[&format!("tensor \"{name}\""), "as every llama model has one"]);
    }
    let untied = TinyModel::llama().with("tie_word_embeddings", json!(false));
    assert_says(&untied.refusal(), &["tensor \"lm_head.weight\"", "the head is not tied"]);
    let layers = TinyModel::llama().with("num_hidden_layers", json!(60_000));
    assert_says(&layers.refusal(), &["model.layers.1.input_layernorm.weight"]);
}

#[test]
fn a_tensor_that_nothing_would_use_is_named() {
    for name in
        ["model.layers.0.self_attn.q_norm.weight", "model.layers.1.mlp.up_proj.weight", "score.weight"]
    {
        let message = TinyModel::llama().with_tensor(name, Plain::f32(&[8], 0.0)).refusal();
        assert_says(&message, &[name, "model.safetensors"]);
    }
    let hostile = TinyModel::llama().with_tensor("a\u{1b}[2J", Plain::f32(&[8], 0.0)).refusal();
    assert_says(&hostile, &[r"\u{1b}[2J"]);
}

#[test]
fn a_wrong_shape_is_named_with_both_shapes() {
    for shape in [&[8, 10][..], &[80], &[10, 8, 1], &[10, 9], &[0, 8]] {
        let message = TinyModel::llama().with_tensor(EMBEDDING, Plain::f32(shape, 0.0)).refusal();
        assert_says(&message, &[EMBEDDING, "expected shape [10, 8]", &format!("found shape {shape:?}")]);
    }
    let message =
        TinyModel::gpt2("").with_tensor("h.0.attn.c_attn.weight", Plain::f32(&[12, 4], 0.0)).refusal();
    assert_says(&message, &["c_attn.weight", "[4, 12]", "[12, 4]"]);
}

#[test]
fn a_type_that_is_not_read_is_named() {
    for dtype in [Dtype::I32, Dtype::U8, Dtype::F8_E4M3FNUZ, Dtype::BOOL] {
        let model = TinyModel::llama().with_tensor(EMBEDDING, Plain::zeros(dtype, &[10, 8]));
        let error = model.open().unwrap_err();
        assert_eq!(error.failure(), Failure::Unsupported);
        assert_says(&error.to_string(), &[&format!("{dtype:?}"), EMBEDDING, "supported: F16, BF16, F32"]);
    }
}

#[test]
fn an_index_cannot_lead_out_of_the_directory() {
    let outside = tempfile::tempdir().unwrap();
    let target: PathBuf = outside.path().join("x.safetensors");
    fs::write(&target, good_weights()).unwrap();
    for name in ["../x.safetensors", target.to_str().unwrap(), "a/../x.safetensors", "", "..", "config.json"]
    {
        let dir = TinyModel::llama().write_config();
        write_index(dir.path(), &json!({EMBEDDING: name}));
        assert_says(
            &refusal(dir.path()),
            &["weight_map of", EMBEDDING, "the plain name of a .safetensors file"],
        );
    }
    let dir = TinyModel::llama().write_config();
    fs::create_dir(dir.path().join("d.safetensors")).unwrap();
    write_index(dir.path(), &json!({EMBEDDING: "d.safetensors"}));
    assert_says(&refusal(dir.path()), &["expected a regular file, found a directory"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_and_not_to_devices() {
    use std::os::unix::fs::symlink;
    let blobs = TinyModel::llama().write();
    let dir = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        symlink(blobs.path().join(name), dir.path().join(name)).unwrap();
    }
    assert!(open_huggingface(dir.path()).is_ok(), "the layout of the hub's cache");
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    symlink("/dev/zero", dir.path().join("model.safetensors")).unwrap();
    assert_says(&refusal(dir.path()), &["expected a regular file, found a special file"]);
}

#[test]
fn an_index_of_the_wrong_form_is_named() {
    let dir = TinyModel::llama().write_config();
    let index = dir.path().join("model.safetensors.index.json");
    for (text, says) in [
        ("{}", "weight_map: expected an object, found no such field"),
        (r#"{"weight_map": []}"#, "weight_map: expected an object, found a list of 0"),
        (r#"{"weight_map": {"a": 1}}"#, "the name of a .safetensors file, found 1"),
        ("", "a JSON object"),
    ] {
        fs::write(&index, text).unwrap();
        assert_says(&refusal(dir.path()), &["model.safetensors.index.json", says]);
    }
    fs::write(&index, r#"{"weight_map": {}}"#).unwrap();
    assert_says(&refusal(dir.path()), &[EMBEDDING, "found none"]);
}

#[test]
fn a_missing_shard_is_named_with_a_tensor_that_it_should_hold() {
    let dir = TinyModel::llama().write_sharded();
    fs::remove_file(dir.path().join("a.safetensors")).unwrap();
    assert_says(&refusal(dir.path()), &["a.safetensors", EMBEDDING, "no such file"]);
}

#[test]
fn a_shard_without_a_tensor_of_the_index_is_named_with_it() {
    let model = TinyModel::llama();
    let dir = model.write_sharded();
    model.write_weights(&dir.path().join("b.safetensors"), |name| {
        !name.contains("embed") && !name.contains("up_proj")
    });
    assert_says(&refusal(dir.path()), &["b.safetensors", "up_proj.weight", "as the index says"]);
}

#[test]
fn a_tensor_in_two_shards_is_named_with_both() {
    let model = TinyModel::llama();
    let dir = model.write_sharded();
    model.write_weights(&dir.path().join("b.safetensors"), |_| true);
    assert_says(&refusal(dir.path()), &["a.safetensors", "b.safetensors", EMBEDDING, "one here and one in"]);
}
