//! Model directories with weights of `torch.save`.

use std::path::PathBuf;

use qsf_format::Failure;

use super::*;
use crate::source::WeightSource;
use crate::source::huggingface::pickle::tests::writers::{Entry, Pickle, Zip};

/// The tensors of `model` that `choose` names, as a file of torch.
fn checkpoint(model: &TinyModel, choose: impl Fn(&str) -> bool) -> Vec<u8> {
    let chosen: Vec<_> = model.tensors.iter().filter(|(name, _)| choose(name)).collect();
    let mut pickle = Pickle::new().op(b"}");
    let mut entries = Vec::new();
    for (key, (name, tensor)) in chosen.into_iter().enumerate() {
        assert_eq!(tensor.dtype, Dtype::F32);
        let shape: Vec<i64> = tensor.shape.iter().map(|&size| size as i64).collect();
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i];
        }
        let (key, count) = (key.to_string(), shape.iter().product());
        pickle =
            pickle.text(name).tensor("FloatStorage", &key, count, (0, &shape[..], &strides[..])).op(b"s");
        entries.push(Entry::new(&format!("archive/data/{key}"), &tensor.bytes));
    }
    entries.push(Entry::new("archive/data.pkl", &pickle.op(b".").0));
    Zip { entries, zip64: true }.bytes()
}

/// Writes `model` in two files of torch with an index.
fn write_sharded(model: &TinyModel) -> TempDir {
    let dir = model.write_config();
    let shard = |name: &str| if name.contains("embed") { "a.bin" } else { "b.bin" };
    for file in ["a.bin", "b.bin"] {
        fs::write(dir.path().join(file), checkpoint(model, |name| shard(name) == file)).unwrap();
    }
    let weight_map: BTreeMap<&str, &str> =
        model.tensors.keys().map(|name| (name.as_str(), shard(name))).collect();
    write_torch_index(dir.path(), &json!(weight_map));
    dir
}

fn write_torch_index(dir: &Path, weight_map: &Value) {
    let index = json!({"metadata": {}, "weight_map": weight_map});
    fs::write(dir.join("pytorch_model.bin.index.json"), index.to_string()).unwrap();
}

fn write_single(model: &TinyModel) -> TempDir {
    let dir = model.write_config();
    fs::write(dir.path().join("pytorch_model.bin"), checkpoint(model, |_| true)).unwrap();
    dir
}

fn file_names(source: &HuggingFaceSource) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    source.files().into_iter().map(name).collect()
}

#[test]
fn a_model_of_torch_is_the_same_as_one_of_safetensors() {
    for model in [TinyModel::llama(), TinyModel::gpt2(""), TinyModel::gpt2("transformer.")] {
        let expected = model.open().unwrap();
        for dir in [write_single(&model), write_sharded(&model)] {
            let source = open_huggingface(dir.path()).unwrap();
            assert_eq!(source.tensors().len(), expected.tensors().len());
            for (info, other) in source.tensors().iter().zip(expected.tensors()) {
                assert_eq!(
                    (info.id, &info.name, info.rows, info.cols),
                    (other.id, &other.name, other.rows, other.cols)
                );
                let values = |source: &HuggingFaceSource| source.load(info.id).unwrap().to_f32();
                assert_eq!(values(&source), values(&expected), "{}", info.name);
            }
            source.release(None);
        }
    }
}

#[test]
fn safetensors_go_before_files_of_torch() {
    let model = TinyModel::llama();
    let dir = write_sharded(&model);
    let index = "pytorch_model.bin.index.json";
    assert_eq!(file_names(&open_huggingface(dir.path()).unwrap()), ["config.json", index, "a.bin", "b.bin"]);
    fs::write(dir.path().join("pytorch_model.bin"), checkpoint(&model, |_| true)).unwrap();
    assert_eq!(file_names(&open_huggingface(dir.path()).unwrap()), ["config.json", "pytorch_model.bin"]);
    model.write_weights(&dir.path().join("model.safetensors"), |_| true);
    assert_eq!(file_names(&open_huggingface(dir.path()).unwrap()), ["config.json", "model.safetensors"]);
}

#[test]
fn an_index_of_torch_names_only_bin_files_beside_it() {
    let dir = write_sharded(&TinyModel::llama());
    for name in ["../a.bin", "/etc/passwd", "a.safetensors", "a\\b.bin", "", "x.bin\u{1b}"] {
        write_torch_index(dir.path(), &json!({"model.norm.weight": name}));
        let expected = "the plain name of a .bin file in the same directory";
        assert_says(&refusal(dir.path()), &["pytorch_model.bin.index.json", expected]);
    }
    write_torch_index(dir.path(), &json!({"model.norm.weight": "c.bin"}));
    assert_says(&refusal(dir.path()), &["c.bin", "no such file"]);
    write_torch_index(dir.path(), &json!({"model.norm.weight": "a.bin"}));
    assert_says(&refusal(dir.path()), &["a.bin", "model.norm.weight", "as the index says"]);
}

#[test]
fn a_file_that_would_run_something_is_refused_and_nothing_is_run() {
    let dir = write_single(&TinyModel::llama());
    let mark = dir.path().join("owned");
    let command = format!("touch {}", mark.display());
    let pickle = Pickle::new().global("os", "system").op(b"(").text(&command).op(b"tR.");
    fs::write(dir.path().join("pytorch_model.bin"), Zip::of_checkpoint(&pickle.0).bytes()).unwrap();
    let error = open_huggingface(dir.path()).unwrap_err();
    assert_eq!(error.failure(), Failure::Unsupported);
    assert_says(&error.to_string(), &["pytorch_model.bin", "os.system", "model.safetensors"]);
    assert!(!mark.exists());
}

#[test]
fn a_file_of_an_old_torch_says_what_to_do() {
    let dir = TinyModel::llama().write_config();
    let legacy = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
    fs::write(dir.path().join("pytorch_model.bin"), legacy).unwrap();
    let error = open_huggingface(dir.path()).unwrap_err();
    assert_eq!(error.failure(), Failure::Unsupported);
    assert_says(&error.to_string(), &["pytorch_model.bin", "save the model as model.safetensors"]);
}
