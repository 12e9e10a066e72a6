//! Directories for MLX: codes, scales and biases as its definition takes them apart, types per matrix, and experts in one tensor.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use qsf_tests::*;
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(&format!("--to mlx {args}"))
}

fn config(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap()
}

struct Stored {
    dtype: String,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl Stored {
    fn floats(&self) -> Vec<f32> {
        assert_eq!(self.dtype, "F32");
        self.data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

fn stored(dir: &Path) -> BTreeMap<String, Stored> {
    let bytes = fs::read(dir.join("model.safetensors")).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    assert!(metadata.metadata().is_some());
    let of = |(name, tensor): (String, safetensors::tensor::TensorView<'_>)| {
        let (dtype, shape) = (format!("{:?}", tensor.dtype()), tensor.shape().to_vec());
        (name, Stored { dtype, shape, data: tensor.data().to_vec() })
    };
    SafeTensors::deserialize(&bytes).unwrap().tensors().into_iter().map(of).collect()
}

/// A matrix by the definition of the format: `scale * code + bias`, codes a bit at a time.
fn decoded(all: &BTreeMap<String, Stored>, stem: &str, bits: usize, group: usize) -> Vec<f32> {
    let [weight, scales, biases] = ["weight", "scales", "biases"].map(|end| &all[&format!("{stem}.{end}")]);
    let rows: usize = weight.shape[..weight.shape.len() - 1].iter().product();
    let words = *weight.shape.last().unwrap();
    let cols = words * 32 / bits;
    assert_eq!((weight.dtype.as_str(), scales.shape.last()), ("U32", Some(&(cols / group))), "{stem}");
    assert_eq!(scales.shape, biases.shape, "{stem}");
    let (scales, biases) = (scales.floats(), biases.floats());
    let bit = |row: usize, at: usize| u32::from(weight.data[row * words * 4 + at / 8] >> (at % 8) & 1);
    let mut out = Vec::new();
    for row in 0..rows {
        for col in 0..cols {
            let code: u32 = (0..bits).map(|b| bit(row, col * bits + b) << b).sum();
            let of = row * (cols / group) + col / group;
            out.push(scales[of] * code as f32 + biases[of]);
        }
    }
    out
}

#[test]
fn files_hold_the_fitted_values_in_the_words_of_the_format_also_those_of_the_embedding() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for (quant, bits) in
        [("affine2", 2), ("3bit", 3), ("affine4", 4), ("affine5", 5), ("affine6", 6), ("8bit", 8)]
    {
        let (packed, plain) = (dir.path().join(quant), dir.path().join(format!("{quant}-f32")));
        convert(&model, &packed, &format!("--dtype f32 --quant {quant}")).run().ok();
        let back = program("qsf-convert").arg(&packed).arg(&plain).args("--to hf --dtype f32").run();
        back.ok();
        let (all, floats) = (stored(&packed), stored(&plain));
        let stems: Vec<&str> = all.keys().filter_map(|name| name.strip_suffix(".scales")).collect();
        assert_eq!(stems.len(), 7 * 4 + 1, "{quant}");
        assert!(stems.contains(&"model.embed_tokens"), "{stems:?}");
        for stem in stems {
            let ours = floats[&format!("{stem}.weight")].floats();
            let values = decoded(&all, stem, bits, 64);
            // A product and a sum in one rounding or in two.
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * a.abs().max(1e-2);
            assert!(values.len() == ours.len() && values.iter().zip(&ours).all(close), "{quant}: {stem}");
        }
        let expected = json!({ "group_size": 64, "bits": bits, "mode": "affine" });
        assert_eq!(config(&packed)["quantization"], expected);
        assert_eq!(config(&packed)["quantization_config"], expected);
        assert_eq!(config(&plain).get("quantization"), None);
    }
}

#[test]
fn types_for_a_size_differ_by_matrix_and_a_tenth_more_bytes_lose_less() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    // At the size of one type, a choice among 2, 3 and 4 bits is no better for this model but by chance.
    let calibrated =
        format!("--calibration {CALIBRATION} --calibration-tokens 4000 --eval {TEXT} --eval-chunks 8 --json");
    let report = |name: &str, args: &str| {
        convert(&model, &dir.path().join(name), &format!("{args} {calibrated}")).run().json()
    };
    let kld = |report: &Value| report["evaluation"]["kld"]["mean"].as_f64().unwrap();
    let bytes = |report: &Value| report["file_bytes"].as_u64().unwrap();
    let uniform = report("uniform", "--quant affine3");
    let limit = bytes(&uniform) / 10 * 11;
    let chosen = report("chosen", &format!("--target-size {limit}B --threads 1"));
    assert!(bytes(&chosen) <= limit && bytes(&chosen) > limit / 10 * 9, "{} of {limit}", bytes(&chosen));
    assert!(kld(&chosen) < kld(&uniform), "{} beside {}", kld(&chosen), kld(&uniform));
    let again = report("again", &format!("--target-size {limit}B --threads 2"));
    let file = |name: &str| fs::read(dir.path().join(name).join("model.safetensors")).unwrap();
    assert!(file("chosen") == file("again") && bytes(&again) == bytes(&chosen));
    // Layers that differ are named, and have what their tensors have.
    let (all, config) = (stored_any(&dir.path().join("chosen")), config(&dir.path().join("chosen")));
    let general = config["quantization"]["bits"].as_u64().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for stem in all.keys().filter_map(|name| name.strip_suffix(".scales")) {
        let bits = config["quantization"][stem]["bits"].as_u64().unwrap_or(general);
        let (weight, scales) = (&all[&format!("{stem}.weight")], &all[&format!("{stem}.scales")]);
        assert_eq!(weight.last().unwrap() * 32, scales.last().unwrap() * 64 * bits as usize, "{stem}");
        kinds.insert(bits);
    }
    assert!(kinds.len() > 1, "{kinds:?}");
    // The same from a plan.
    let plan = dir.path().join("plan.json");
    let dry = program("qsf-convert").arg(&model).args(&format!("--to mlx --target-size {limit}B --dry-run"));
    dry.args(&format!("--calibration {CALIBRATION} --calibration-tokens 4000 --save-plan"))
        .arg(&plan)
        .run()
        .ok();
    let replayed = dir.path().join("replayed");
    program("qsf-convert").arg(&model).arg(&replayed).arg("--plan").arg(&plan).run().ok();
    assert!(file("replayed") == file("chosen"));
}

fn stored_any(dir: &Path) -> BTreeMap<String, Vec<usize>> {
    stored(dir).into_iter().map(|(name, tensor)| (name, tensor.shape)).collect()
}

#[test]
fn experts_are_one_tensor_and_overrides_name_types_of_mlx() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (dir.path().join("experts"), dir.path().join("mlx"));
    write_mixtral(&model, Size { layers: 2, hidden: 64, ffn: 128, vocab: 96 }, 4, 7);
    let args = "--skip-tokenizer-check --dtype bf16 --tensor-type attn_q=affine6 --tensor-type attn_k=affine3-g32-f16 \
                --tensor-type attn_v=bf16";
    convert(&model, &out, args).run().ok();
    let shapes = stored_any(&out);
    let stem = "model.layers.1.block_sparse_moe";
    assert_eq!(shapes[&format!("{stem}.switch_mlp.down_proj.weight")], [4, 64, 128 * 4 / 32]);
    assert_eq!(shapes[&format!("{stem}.switch_mlp.gate_proj.scales")], [4, 128, 1]);
    assert!(
        shapes.contains_key(&format!("{stem}.gate.weight"))
            && !shapes.keys().any(|name| name.contains("experts"))
    );
    let described = &config(&out)["quantization"];
    let of = |name: &str| &described[format!("model.layers.0.self_attn.{name}")];
    assert_eq!(of("q_proj"), &json!({ "group_size": 64, "bits": 6, "mode": "affine" }));
    assert_eq!(of("k_proj"), &json!({ "group_size": 32, "bits": 3, "mode": "affine" }));
    assert!(!shapes.contains_key("model.layers.0.self_attn.v_proj.scales"));
}

#[test]
fn what_mlx_cannot_have_is_refused_by_name_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (demo_model(dir.path()), dir.path().join("out"));
    let refused = |model: &Path, args: &str, code: i32, says: &str| {
        let run = convert(model, &out, args).run();
        assert!(run.code == code && run.stderr.contains(says), "{args}: {}", run.stderr);
        assert!(!out.exists() && !out.with_extension("partial").exists(), "{args}");
    };
    refused(&model, "--quant W4A16", 2, "affine4");
    refused(&model, "--quant n4", 2, "affine4");
    refused(&model, "--tensor-type attn_q=8bit", 2, "affine");
    refused(&model, "--tensor-type attn_q=int4-g128-f16", 2, "affine");
    refused(&model, "--outliers 1%", 2, "--outliers");
    refused(&model, "--min-cosine 0.99", 2, "--min-cosine");
    refused(&golden("gpt2"), "", 4, "gpt2");
    refused(&golden("qwen3_next"), "", 4, "qwen3_next");
}
