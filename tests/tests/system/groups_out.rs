//! Directories of whole numbers in groups, for compressed-tensors: bytes as its own reader takes them apart, and the values that were
//! fitted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use qsf_runtime::cpu::f16_to_f32;
use qsf_runtime::source;
use qsf_tests::*;
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn values(path: &Path) -> Vec<(String, Vec<f32>)> {
    let model = source::open(path).unwrap();
    let of = |info: &source::TensorInfo| (info.id.to_string(), model.load(info.id).unwrap().to_f32());
    model.tensors().iter().map(of).collect()
}

struct Stored {
    dtype: String,
    shape: Vec<usize>,
    data: Vec<u8>,
}

fn stored(dir: &Path) -> BTreeMap<String, Stored> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "safetensors") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
            let (dtype, shape) = (format!("{:?}", tensor.dtype()), tensor.shape().to_vec());
            all.insert(name, Stored { dtype, shape, data: tensor.data().to_vec() });
        }
    }
    all
}

/// Code `i` of packed ones, a bit at a time.
fn code(bits: usize, words: &[u8], i: usize) -> u32 {
    let bit = |at: usize| u32::from(words[at / 8] >> (at % 8) & 1);
    (0..bits).map(|b| bit(i * bits + b) << b).sum()
}

/// A matrix by the definition of the format: `scale * (code - zero)`.
fn decoded(all: &BTreeMap<String, Stored>, stem: &str, bits: usize) -> Vec<f32> {
    let [packed, scale, shape] =
        ["packed", "scale", "shape"].map(|end| &all[&format!("{stem}.weight_{end}")]);
    let number = |i: usize| i64::from_le_bytes(shape.data[8 * i..8 * i + 8].try_into().unwrap()) as usize;
    let (outputs, inputs, groups) = (number(0), number(1), scale.shape[1]);
    assert_eq!((packed.dtype.as_str(), &packed.shape), ("I32", &vec![outputs, inputs * bits / 32]), "{stem}");
    assert_eq!(
        (scale.dtype.as_str(), scale.shape[0], shape.dtype.as_str()),
        ("F16", outputs, "I64"),
        "{stem}"
    );
    let scales: Vec<f32> =
        scale.data.chunks(2).map(|b| f16_to_f32(u16::from_le_bytes([b[0], b[1]]))).collect();
    let zero_point = all.get(&format!("{stem}.weight_zero_point"));
    let zero = |row: usize, group: usize| match zero_point {
        None => 1 << (bits - 1),
        Some(zeros) => {
            assert_eq!(zeros.shape, [(outputs * bits).div_ceil(32), groups]);
            let column: Vec<u8> =
                zeros.data.chunks(4).skip(group).step_by(groups).flatten().copied().collect();
            code(bits, &column, row)
        }
    };
    let row_bytes = inputs * bits / 8;
    let mut out = Vec::new();
    for row in 0..outputs {
        let codes = &packed.data[row * row_bytes..][..row_bytes];
        for col in 0..inputs {
            let group = col / (inputs / groups);
            let level = code(bits, codes, col) as f32 - zero(row, group) as f32;
            out.push(scales[row * groups + group] * level);
        }
    }
    out
}

#[test]
fn files_hold_the_values_that_were_fitted_in_the_words_of_the_format() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for (scheme, bits) in [("W4A16", 4), ("W8A16", 8), ("W4A16_ASYM", 4), ("W8A16_ASYM", 8)] {
        let (packed, plain) = (dir.path().join(scheme), dir.path().join(format!("{scheme}-f32")));
        convert(&model, &packed, &format!("--to compressed-tensors --quant {scheme}")).run().ok();
        // The way back, which reads them.
        convert(&packed, &plain, "--to hf --dtype f32").run().ok();
        let (all, floats) = (stored(&packed), stored(&plain));
        let stems: Vec<&str> = all.keys().filter_map(|name| name.strip_suffix(".weight_packed")).collect();
        assert_eq!(stems.len(), 7 * 4, "{scheme}");
        for stem in stems {
            let ours = &floats[&format!("{stem}.weight")].data;
            let ours: Vec<f32> = ours.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            assert!(decoded(&all, stem, bits) == ours, "{scheme}: {stem}");
            assert_eq!(all.contains_key(&format!("{stem}.weight_zero_point")), scheme.ends_with("ASYM"));
        }
        let config = json_of(&packed.join("config.json"));
        let quantization = &config["quantization_config"];
        assert_eq!(quantization["quant_method"], "compressed-tensors");
        assert_eq!(quantization["format"], "pack-quantized");
        assert_eq!(quantization["ignore"], json!(["lm_head"]));
        let weights = &quantization["config_groups"]["group_0"]["weights"];
        assert_eq!((&weights["num_bits"], &weights["group_size"]), (&json!(bits), &json!(128)));
        assert_eq!(weights["symmetric"], json!(!scheme.ends_with("ASYM")));
        // What is read says nothing of groups any more.
        assert_eq!(json_of(&plain.join("config.json")).get("quantization_config"), None);
        assert_eq!(
            fs::read(model.join("tokenizer.json")).unwrap(),
            fs::read(packed.join("tokenizer.json")).unwrap()
        );
    }
}

#[test]
fn a_calibration_text_halves_the_damage_and_threads_change_no_byte() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let kld = |name: &str, args: &str| {
        let out = dir.path().join(name);
        let args = format!("--to compressed-tensors {args} --eval {TEXT} --eval-chunks 4 --json");
        let report = convert(&model, &out, &args).run().json();
        let stored = report["evaluation"]["kld"]["mean"].as_f64();
        stored.unwrap_or_else(|| panic!("{report}"))
    };
    let calibrated = format!("--calibration {CALIBRATION} --calibration-tokens 4000");
    let (alone, fitted) = (kld("alone", ""), kld("fitted", &format!("{calibrated} --threads 1")));
    assert!(fitted < 0.7 * alone, "{fitted} of {alone}");
    let finer = kld("finer", &format!("{calibrated} --group-size 32"));
    assert!(finer < fitted, "{finer} against {fitted}");
    kld("again", &format!("{calibrated} --threads 2"));
    let bytes = |name: &str| fs::read(dir.path().join(name).join("model.safetensors")).unwrap();
    assert!(bytes("fitted") == bytes("again"));
}

/// Converts a model to 8 bits, and compares all values; says whether any matrix has groups, or why there is no directory.
fn comes_back(name: &str, model: &Path, out: &Path) -> Result<bool, String> {
    let args = "--to compressed-tensors --quant W8A16 --dtype f32 --allow-requantize --skip-tokenizer-check";
    let output = convert(model, out, args).run();
    if output.code != 0 {
        assert!(!out.exists() && !out.with_extension("partial").exists(), "{name}");
        return Err(output.stderr);
    }
    let (old, new) = (values(model), values(out));
    assert_eq!(old.len(), new.len(), "{name}");
    for ((id, a), (other, b)) in old.iter().zip(&new) {
        let square = |v: f32| f64::from(v).powi(2);
        let error: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
        let all: f64 = a.iter().map(|a| square(*a)).sum();
        // Rows in another order would be as far off as the rows are long.
        assert!(id == other && error <= 1e-4 * all, "{name}: {id}: {error} of {all}");
    }
    Ok(stored(out).keys().any(|tensor| tensor.ends_with("_packed")))
}

#[test]
fn architectures_with_joined_and_ordered_rows_and_experts_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for entry in fs::read_dir(golden("")).unwrap() {
        let model = entry.unwrap().path();
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        if !model.join("config.json").is_file() {
            continue;
        }
        match comes_back(&name, &model, &dir.path().join(&name)) {
            Ok(true) => written.push(name),
            Ok(false) => panic!("{name}: no groups, and no word of it"),
            // Most are so small that their rows are no whole groups.
            Err(why) => {
                assert!(
                    why.contains("no matrix is quantized") || why.contains("inputs first"),
                    "{name}: {why}"
                );
            }
        }
    }
    for name in ["gemma4", "qwen3_next", "qwen3_5_moe"] {
        assert!(written.iter().any(|other| other == name), "{name} is not among {written:?}");
    }
    let mixtral = dir.path().join("experts");
    write_mixtral(&mixtral, Size { layers: 2, hidden: 64, ffn: 96, vocab: 96 }, 4, 7);
    assert_eq!(comes_back("mixtral", &mixtral, &dir.path().join("mixtral-w8")), Ok(true));
    let experts = stored(&dir.path().join("mixtral-w8"));
    assert!(experts.keys().any(|name| name.contains(".experts.3.") && name.ends_with("weight_packed")));
    assert!(experts.keys().any(|name| name.ends_with("gate.weight")), "routers are floats");
    // GGUF files have the rows of queries and keys in another order.
    let (small, gguf) = (small_model(dir.path()), dir.path().join("small.gguf"));
    convert(&small, &gguf, "--quant f32").run().ok();
    assert_eq!(comes_back("gguf", &gguf, &dir.path().join("small-w8")), Ok(true));
    assert_eq!(comes_back("hf", &small, &dir.path().join("small-w8-of-hf")), Ok(true));
    let packed =
        |name: &str| stored(&dir.path().join(name)).remove("model.layers.0.self_attn.q_proj.weight_packed");
    assert!(packed("small-w8").unwrap().data == packed("small-w8-of-hf").unwrap().data);
}

#[test]
fn a_plan_a_dry_run_and_files_of_a_size_are_as_for_other_directories() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let [whole, split, replayed] = ["whole", "split", "replayed"].map(|name| dir.path().join(name));
    let plan = dir.path().join("plan.json");
    let args = "--to compressed-tensors --group-size 64 --tensor-type ffn_down=f32";
    let report = convert(&model, &whole, &format!("{args} --json --save-plan")).arg(&plan).run().json();
    convert(&model, &split, &format!("{args} --shard-size 200kB")).run().ok();
    program("qsf-convert").arg(&model).arg(&replayed).arg("--plan").arg(&plan).run().ok();
    let bytes = |path: &Path| {
        let of = |(name, tensor): (String, Stored)| (name, tensor.shape, tensor.data);
        stored(path).into_iter().map(of).collect::<Vec<_>>()
    };
    assert!(bytes(&whole) == bytes(&split) && bytes(&whole) == bytes(&replayed));
    assert_eq!(json_of(&whole.join("config.json")), json_of(&replayed.join("config.json")));
    let ignored = json_of(&whole.join("config.json"))["quantization_config"]["ignore"].clone();
    assert_eq!(ignored.as_array().unwrap().len(), 1 + 4, "{ignored}");
    assert_eq!(ignored[0], "model.layers.0.mlp.down_proj");
    let index = json_of(&split.join("model.safetensors.index.json"));
    assert_eq!(index["weight_map"].as_object().unwrap().len(), stored(&split).len());
    let sized: u64 = fs::read_dir(&whole).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(report["file_bytes"], json!(sized));
    let dry = program("qsf-convert").arg(&model).args(&format!("{args} --dry-run --json")).run().json();
    let predicted = dry["predicted_file_bytes"].as_u64().unwrap();
    assert!(predicted.abs_diff(sized) < 20_000, "{predicted} {sized}");
    // A name of its own, where none is given.
    let named = program("qsf-convert").arg(&model).args("--quant W8A16").dir(dir.path()).run();
    named.ok();
    assert!(dir.path().join("demo-1m-W8A16/config.json").is_file());
}

#[test]
fn what_such_a_directory_cannot_have_is_refused_by_name_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (demo_model(dir.path()), dir.path().join("out"));
    for (args, code, says) in [
        ("--tensor-type attn_q=8bit", 2, "attn_q"),
        ("--tensor-type attn_q=int8-g128-f16", 2, "one type of groups"),
        ("--target-size 1MB", 2, "--target-size"),
        ("--quant n4", 2, "W4A16_ASYM"),
        ("--outliers 1%", 2, "--outliers"),
    ] {
        let refused = convert(&model, &out, &format!("--to compressed-tensors {args}")).run();
        assert!(refused.code == code && refused.stderr.contains(says), "{args}: {}", refused.stderr);
        assert!(!out.exists() && !out.with_extension("partial").exists(), "{args}");
    }
    // A type of groups in another format.
    let args = "--tensor-type token_embedding=int4-g128-f16";
    let refused = convert(&model, &dir.path().join("a.qsf"), args).run();
    assert!(refused.code == 2 && refused.stderr.contains("compressed-tensors"), "{}", refused.stderr);
    // A width that the groups do not divide.
    let small = small_model(dir.path());
    let refused = convert(&small, &out, "--to compressed-tensors --group-size 128").run();
    assert!(refused.code == 2 && refused.stderr.contains("--group-size 128"), "{}", refused.stderr);
    // One that stays as it is has no groups.
    let kept = dir.path().join("kept");
    convert(&small, &kept, "--to compressed-tensors --group-size 64 --tensor-type ffn_down=f16").run().ok();
    let config = &json_of(&kept.join("config.json"))["quantization_config"]["config_groups"]["group_0"];
    assert_eq!(config["weights"]["group_size"], 64);
    let gpt2 = convert(&golden("gpt2"), &out, "--to compressed-tensors").run();
    assert!(gpt2.code == 4 && gpt2.stderr.contains("inputs first"), "{}", gpt2.stderr);
}
