//! What `qsf-inspect` says of files that its own writer would not make.

use std::path::Path;
use std::process::Command;

use qsf_format::*;
use serde_json::Value;

use crate::small_file::*;

fn inspect(path: &Path, options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_qsf-inspect")).arg(path).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn record(layer: Option<u32>, kind: TensorKind, relative_error: f64) -> TensorRecord {
    TensorRecord {
        layer,
        kind: kind.name().into(),
        rows: 1,
        cols: 1,
        quant: QuantType::Q4,
        promoted_from: None,
        outliers: 0,
        cosine: Some(1.0),
        relative_error: Some(relative_error),
        max_abs_error: Some(0.5),
    }
}

#[test]
fn each_tensor_is_shown_with_its_own_error_whatever_the_order_in_meta_and_beside_unknown_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut meta = meta();
    // Neither in file order nor complete.
    meta.tensors = vec![
        record(None, TensorKind::Positions, 0.5),
        record(Some(1), TensorKind::AttnQ, 0.25),
        record(Some(0), TensorKind::FfnUp, 0.125),
        record(Some(0), TensorKind::AttnQ, 0.0625),
        record(None, TensorKind::TokenEmbedding, 0.75),
    ];
    write_with(&path, options(Compression::None), &meta).unwrap();
    // The second tensor of layer 0 becomes an optional one of a kind that is not known.
    let mut bytes = std::fs::read(&path).unwrap();
    let file = QsfFile::open(&path).unwrap();
    let start = file.layer(0).unwrap().tensors[1].with_header().start;
    let header = file.layers()[0].offset as usize + 64 + start;
    drop(file);
    bytes[header..header + 4].copy_from_slice(&1000u32.to_le_bytes());
    bytes[header + 14] = 1;
    seal_layer_and_chunk(&mut bytes, 0);
    std::fs::write(&path, bytes).unwrap();

    let value = inspect(&path, &["--json", "--tensors"]);
    let shown: Vec<_> = value["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["place"].as_str().unwrap(), t["kind"].as_str().unwrap(), t["relative_error"].as_f64()))
        .collect();
    let expected = [
        ("embedding", "token_embedding", Some(0.75)),
        ("layer", "attn_q", Some(0.0625)),
        ("layer", "kind 1000", None),
        ("layer", "ffn_up", Some(0.125)),
        ("layer", "ffn_up_bias", None),
        ("layer", "attn_q", Some(0.25)),
        ("layer", "attn_norm", None),
        ("layer", "ffn_up", None),
        ("layer", "ffn_up_bias", None),
        ("final", "final_norm", None),
        ("final", "final_norm_bias", None),
        ("final", "head", None),
        ("positions", "positions", Some(0.5)),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn the_layout_of_each_tensor_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write(&path, Compression::None).unwrap();
    let value = inspect(&path, &["--json", "--tensors"]);
    assert_eq!(value["embedding"]["layout"], "panels");
    let layouts: Vec<_> = value["tensors"].as_array().unwrap()[..3]
        .iter()
        .map(|t| (t["kind"].as_str().unwrap(), t["layout"].as_str().unwrap()))
        .collect();
    assert_eq!(value["tensors"][0]["outliers"], 60);
    assert_eq!(value["tensors"][0]["outlier_bytes"], 8 + 2 * 300 + 4 * 60);
    assert_eq!(layouts, [("token_embedding", "panels"), ("attn_q", "panels"), ("attn_norm", "rows")]);
    let text = Command::new(env!("CARGO_BIN_EXE_qsf-inspect")).arg(&path).arg("--tensors").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("attn_norm")).unwrap();
    assert!(line.split_whitespace().eq("layer 0 attn_norm f16 rows 1 64 128 - - - -".split(' ')), "{line}");
}

#[test]
fn absurd_sizes_in_meta_do_not_end_in_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut meta = meta();
    let huge = TensorRecord { rows: u32::MAX, cols: u32::MAX, ..record(None, TensorKind::Head, 0.0) };
    meta.tensors = vec![huge; 3];
    let source = SourceFile { name: "a".into(), bytes: u64::MAX, sha256: String::new() };
    meta.provenance.sources = vec![source; 2];
    write_with(&path, options(Compression::None), &meta).unwrap();
    let bits = inspect(&path, &["--json"])["bits_per_weight"].as_f64().unwrap();
    assert!(bits > 0.0 && bits < 1e-9, "{bits}");
    let text = Command::new(env!("CARGO_BIN_EXE_qsf-inspect")).arg(&path).output().unwrap();
    assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
}

// Other systems refuse such names.
#[cfg(target_os = "linux")]
#[test]
fn a_file_whose_name_is_not_utf8_can_be_shown_as_json() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(std::ffi::OsStr::from_bytes(b"m\xFF.qsf"));
    write(&path, Compression::None).unwrap();
    let value = inspect(&path, &["--json"]);
    assert!(value["path"].as_str().unwrap().ends_with(".qsf"), "{value}");
}

#[test]
fn the_embedding_is_listed_with_the_compression_of_its_chunks_and_errors_with_the_largest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut meta = meta();
    let unknown =
        TensorRecord { cosine: None, relative_error: None, ..record(Some(0), TensorKind::AttnQ, 0.0) };
    meta.tensors = vec![unknown];
    write_with(&path, options(Compression::Lz4), &meta).unwrap();
    let value = inspect(&path, &["--json", "--tensors"]);
    let section = value["sections"].as_array().unwrap().iter().find(|s| s["tag"] == "EMBD").unwrap();
    assert_eq!((&section["compression"], &value["embedding"]["compression"]), (&"lz4".into(), &"lz4".into()));
    let query = &value["tensors"][1];
    assert_eq!((&query["place"], &query["layer"]), (&"layer".into(), &0.into()));
    assert_eq!((&query["cosine"], &query["max_abs_error"]), (&Value::Null, &0.5.into()), "{query}");
}
