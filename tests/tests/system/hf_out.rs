//! Model directories out: transformers gets the model that was given, tensor by tensor, with the values of a quantized file where
//! these are asked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use qsf_runtime::source;
use qsf_tests::*;
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// Shape and values of every tensor in the files of a directory, as they are stored.
fn stored(dir: &Path) -> BTreeMap<String, (Vec<usize>, String, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("model") || !name.ends_with(".safetensors") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
            let dtype = format!("{:?}", tensor.dtype());
            all.insert(name, (tensor.shape().to_vec(), dtype, tensor.data().to_vec()));
        }
    }
    all
}

fn values(path: &Path) -> Vec<(String, Vec<f32>)> {
    let model = source::open(path).unwrap();
    let of = |info: &source::TensorInfo| (info.id.to_string(), model.load(info.id).unwrap().to_f32());
    model.tensors().iter().map(of).collect()
}

fn nothing_left(out: &Path) -> bool {
    !out.exists() && !out.with_extension("partial").exists()
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Values that a rotary model of OPT's kind does not use, or that are computed from others.
fn means_nothing(name: &str) -> bool {
    name.ends_with("embed_positions.weight") || name.ends_with("inv_freq")
}

#[test]
fn every_architecture_comes_back_from_qsf_as_its_tensors_were() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = 0;
    for entry in fs::read_dir(golden("")).unwrap() {
        let model = entry.unwrap().path();
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        if !model.join("config.json").is_file() {
            continue;
        }
        let (qsf, out) = (dir.path().join("a.qsf"), dir.path().join(&name));
        convert(&model, &qsf, "--quant f32 --force").run().ok();
        convert(&qsf, &out, "--to hf --dtype f32").run().ok();
        compare(&name, &model, &out);
        // By these vLLM finds its code. Those of InternLM 3 are the hub's, where transformers has LLaMA's.
        let classes = |dir: &Path| json_of(&dir.join("config.json"))["architectures"].clone();
        assert!(name == "internlm3" || classes(&out) == classes(&model), "{name}: {}", classes(&out));
        written += 1;
    }
    assert!(written >= 112, "{written}");
}

#[test]
fn every_architecture_goes_through_with_its_own_configuration() {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden("")).unwrap() {
        let model = entry.unwrap().path();
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        if !model.join("config.json").is_file() {
            continue;
        }
        let out = dir.path().join(&name);
        convert(&model, &out, "--to hf --dtype f32").run().ok();
        compare(&name, &model, &out);
        let (old, new) = (json_of(&model.join("config.json")), json_of(&out.join("config.json")));
        assert_eq!(new["dtype"], "float32");
        if old.get("text_config").is_none() && old.get("quantization_config").is_none() {
            let changed = ["dtype", "torch_dtype", "_name_or_path", "auto_map"];
            for (field, value) in old.as_object().unwrap() {
                assert!(changed.contains(&field.as_str()) || new[field] == *value, "{name}: {field}");
            }
        }
    }
}

/// Compares all tensors of the same name, and all values of the model.
fn compare(name: &str, model: &Path, out: &Path) {
    let (old, new) = (stored(model), stored(out));
    let mut same = 0;
    for (tensor, (shape, dtype, bytes)) in &new {
        let Some((old_shape, old_dtype, old_bytes)) = old.get(tensor) else { continue };
        same += 1;
        if old_dtype != dtype || means_nothing(tensor) {
            continue;
        }
        assert_eq!(old_shape, shape, "{name}: {tensor}");
        let differs = || {
            let floats = |bytes: &[u8]| {
                let all = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                all.collect::<Vec<f32>>()
            };
            let (a, b) = (floats(old_bytes), floats(bytes));
            a.iter().zip(&b).any(|(a, b)| (a - b).abs() > 1e-6 * a.abs())
        };
        // Rates of decay are stored as logarithms.
        assert!(old_bytes == bytes || tensor.ends_with("A_log") && !differs(), "{name}: {tensor}");
    }
    assert!(same > 0, "{name}: no tensor of the same name: {:?}", new.keys().next());
    let (old, new) = (values(model), values(out));
    assert_eq!(old.len(), new.len(), "{name}");
    for ((id, a), (other, b)) in old.iter().zip(&new) {
        let close = a.iter().zip(b).all(|(a, b)| a == b || (a - b).abs() <= 2e-6 * a.abs());
        assert!(id == other && a.len() == b.len() && close, "{name}: {id}");
    }
}

#[test]
fn a_directory_has_the_values_of_the_quantized_file_and_its_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (qsf, hf) = (dir.path().join("a.qsf"), dir.path().join("hf"));
    let args = format!("--quant n3 --outliers 1% --calibration {CALIBRATION} --calibration-tokens 1000");
    convert(&model, &qsf, &args).run().ok();
    convert(&model, &hf, &format!("{args} --to hf --dtype f32")).run().ok();
    assert!(values(&qsf) == values(&hf));
    assert_eq!(fs::read(model.join("tokenizer.json")).unwrap(), fs::read(hf.join("tokenizer.json")).unwrap());
    // The same from the QSF file, which has a tokenizer and no configuration of transformers.
    let again = dir.path().join("again");
    convert(&qsf, &again, "--to hf --dtype f32").run().ok();
    assert!(stored(&hf) == stored(&again));
    let text = "--temp 0 -n 12";
    let run = |path: &Path| {
        program("qsf-run").arg(path).args(text).arg("-p").arg("It was a dark").run().ok().stdout
    };
    assert_eq!(run(&qsf), run(&again));
    let origin = json_of(&hf.join("qsf.json"));
    assert_eq!(origin["options"]["quant"], "n3");
}

#[test]
fn a_gguf_recipe_and_a_size_give_their_values_too() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (gguf, hf) = (dir.path().join("a.gguf"), dir.path().join("hf"));
    convert(&model, &gguf, "--quant Q4_0").run().ok();
    convert(&model, &hf, "--quant Q4_0 --to hf --dtype f32").run().ok();
    assert!(values(&gguf) == values(&hf));
    let (qsf, sized) = (dir.path().join("s.qsf"), dir.path().join("sized"));
    let args = format!("--target-size 500kB --calibration {CALIBRATION} --calibration-tokens 600");
    convert(&model, &qsf, &args).run().ok();
    convert(&model, &sized, &format!("{args} --to hf --dtype f32")).run().ok();
    let (a, b) = (values(&qsf), values(&sized));
    let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
    assert!(same * 10 >= a.len() * 9, "{same} of {} tensors are the same", a.len());
}

#[test]
fn files_keep_to_their_size_and_the_index_names_every_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (one, many) = (dir.path().join("one"), dir.path().join("many"));
    convert(&model, &one, "--to hf").run().ok();
    let report = convert(&model, &many, "--to hf --shard-size 600kB --json").run().json();
    let index = json_of(&many.join("model.safetensors.index.json"));
    let tensors = stored(&many);
    assert!(stored(&one) == tensors);
    assert_eq!(index["weight_map"].as_object().unwrap().len(), tensors.len());
    let bytes: usize = tensors.values().map(|(_, _, data)| data.len()).sum();
    assert_eq!(index["metadata"]["total_size"], json!(bytes));
    let mut all = 0;
    for entry in fs::read_dir(&many).unwrap() {
        let entry = entry.unwrap();
        let size = entry.metadata().unwrap().len();
        all += size;
        if entry.path().extension().is_some_and(|end| end == "safetensors") {
            let tensors = SafeTensors::deserialize(&fs::read(entry.path()).unwrap()).unwrap().len();
            assert!(size < 700_000 || tensors == 1, "{entry:?}: {size}");
        }
    }
    assert_eq!(report["file_bytes"], json!(all));
    let predicted = program("qsf-convert").arg(&model).arg("--to").args("hf --dry-run --json").run().json();
    let predicted = predicted["predicted_file_bytes"].as_u64().unwrap();
    assert!(predicted.abs_diff(all) < 20_000, "{predicted} {all}");
}

#[test]
fn what_is_there_is_kept_and_what_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.odt"), "mine").unwrap();
    for args in ["--to hf", "--to hf --force"] {
        let forced = convert(&model, &out, args).run();
        assert_eq!(forced.code, 2, "{}", forced.stderr);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    }
    fs::remove_file(out.join("notes.odt")).unwrap();
    convert(&model, &out, "--to hf").run().ok();
    assert_eq!(convert(&model, &out, "--to hf").run().code, 2);
    convert(&model, &out, "--to hf --force --dtype bf16").run().ok();
    assert_eq!(json_of(&out.join("config.json"))["dtype"], "bfloat16");
    // A folder of notes is no model, though its files end like those of one.
    let docs = dir.path().join("docs");
    fs::create_dir(&docs).unwrap();
    for name in ["README.md", "notes.txt", "package.json"] {
        fs::write(docs.join(name), "mine").unwrap();
    }
    refused("notes", dir.path(), convert(&model, &docs, "--to hf --force"), 2, &["docs", "config.json"]);
    // The directory that is read is never the one that is written.
    let own = convert(&model, &model, "--to hf --force").run();
    assert!(own.code == 2 && model.join("model.safetensors").is_file(), "{}", own.stderr);
    // A weight that f16 cannot have.
    let huge = dir.path().join("huge");
    write_llama(&huge, Size::TINY, 1);
    let path = huge.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&70_000f32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let failed = convert(&huge, &dir.path().join("f16"), "--to hf --dtype f16").run();
    assert!(failed.code == 2 && failed.stderr.contains("70000") && failed.stderr.contains("--dtype"));
    assert!(nothing_left(&dir.path().join("f16")));
}
