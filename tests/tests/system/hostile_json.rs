//! JSON of strangers that would take gigabytes as a tree of values: refused soon, before it is built.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use qsf_format::*;
use qsf_tests::*;
use serde_json::{Value, json};

/// Bytes that a refusal may take above what a program takes anyway.
const MORE_MEMORY: u64 = 64 << 20;
/// Time in which it comes, on a machine with much other load. Alone it is below two seconds.
const SOON: Duration = Duration::from_secs(10);

/// Peak memory of a program that only says its version.
fn own_memory() -> u64 {
    program("qsf-run").args("--version").run_measured().1
}

/// Expects exit code 3, a message that says all of `says`, soon and in little memory.
fn refused_cheaply(what: &str, call: Program, says: &[&str]) {
    let started = Instant::now();
    let (output, peak) = call.run_measured();
    let (took, more) = (started.elapsed(), peak.saturating_sub(own_memory()));
    assert_eq!(output.code, 3, "{what}: {}", output.stderr);
    for part in says {
        assert!(output.stderr.contains(part), "{what}: {part:?} is not in: {}", output.stderr);
    }
    println!("{what}: {more} bytes more, {took:?}");
    assert!(more < MORE_MEMORY, "{what}: {more} bytes");
    assert!(took < SOON, "{what}: {took:?}");
}

/// Writes a file with `bomb` in META, which compressed has a few kilobytes; the writer reads it back as every program does.
fn write_with_options(path: &Path, bomb: Value) -> Result<(), Box<dyn std::error::Error>> {
    let model = ModelConfig {
        architecture: "llama".into(),
        layers: 1,
        hidden: 4,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        ffn: 8,
        vocab: 3,
        max_positions: 16,
        position: PositionConfig::rope(10_000.0, None),
        tied_head: true,
        ..ModelConfig::default()
    };
    let (block, compression) = (BlockSize::B64, Compression::None);
    let options = WriterOptions { force: true, block, compression, tables: CodeTables::default() };
    let floats = |count: u32| (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>();
    let (quant, layout, cols) = (QuantType::F32, Layout::Rows, model.hidden);
    let mut writer = QsfWriter::create(path, model.layers, options).unwrap();
    writer.begin_embedding(quant, layout, model.vocab, cols).unwrap();
    writer.embedding_rows(&floats(model.vocab * cols)).unwrap();
    let norm = EncodedTensor { kind: TensorKind::AttnNorm, rows: 1, cols, quant, layout, data: floats(4) };
    writer.layer(vec![norm], None).unwrap();
    writer.begin_final(model.tied_head).unwrap();
    writer.begin_tensor(TensorKind::FinalNorm, 1, cols, quant, layout).unwrap();
    writer.tensor_rows(&floats(4)).unwrap();
    writer.end_final();
    let options = [("bomb".to_owned(), bomb)].into_iter().collect();
    let provenance =
        Provenance { tool: "a test".into(), sources: Vec::new(), requantized_from: Vec::new(), options };
    let meta = Meta { version: META_VERSION, model, provenance, tensors: Vec::new() };
    writer.finish(&meta, quant.id(), None, None)?;
    Ok(())
}

#[test]
fn metadata_of_very_many_values_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bomb.qsf");
    let bombs = [
        ("maps", Value::Array(vec![json!({"a": 1}); 300_000]), "MiB of memory"),
        ("lists", Value::Array(vec![json!([]); 1_000_000]), "MiB of memory"),
        ("numbers", Value::Array(vec![json!(1); 3_000_000]), "MiB of memory"),
        ("text", json!("x".repeat(60_000_000)), "zstd"),
    ];
    for (what, bomb, says) in bombs {
        let error = write_with_options(&file, bomb).unwrap_err().to_string();
        assert!(error.contains("section META") && error.contains(says), "{what}: {error}");
    }
    write_with_options(&file, json!([1, {"a": []}])).unwrap();
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
        ("/added_tokens", Value::Array(vec![json!({"id": 0, "content": "x"}); 200_000]), "MiB of memory"),
        ("/model/merges", Value::Array(vec![json!("a b"); (1 << 20) + 1]), "merges; at most"),
    ];
    for (place, bomb, says) in bombs {
        let mut json = original.clone();
        *json.pointer_mut(place).unwrap() = bomb;
        fs::write(&path, json.to_string()).unwrap();
        let call = program("qsf-run").arg(&model).args("-p hi -n 1");
        refused_cheaply(place, call, &["tokenizer", says]);
    }
}
