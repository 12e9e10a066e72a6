//! `qsf-run --attention`: weights and keys are those of transformers (`scripts/make_attention.py`), whatever attention is like.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use safetensors::SafeTensors;
use serde_json::Value;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// The tensors of a file by their names, and its metadata.
struct File(Vec<u8>);

impl File {
    fn read(path: &Path) -> File {
        File(fs::read(path).unwrap())
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    /// A value of the metadata, read as JSON.
    fn about(&self, name: &str) -> Value {
        let (_, metadata) = SafeTensors::read_metadata(&self.0).unwrap();
        serde_json::from_str(&metadata.metadata().as_ref().unwrap()[name]).unwrap()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn ids(file: &File) -> String {
    let tensors = file.tensors();
    let ids = tensors.tensor("input_ids").unwrap().data().as_chunks().0.iter();
    ids.map(|id| i32::from_le_bytes(*id).to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn every_kind_of_attention_is_that_of_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(FIXTURES).join("attention")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let expected = File::read(&path);
        let out = dir.path().join(&name);
        let call = program("qsf-run").arg(Path::new(FIXTURES).join("golden").join(&name));
        let call = call.args("--prompt-ids").arg(ids(&expected)).args("--activations f32 --attention");
        call.arg(&out).run().ok();
        let found = File::read(&out);
        let (expected, tensors) = (expected.tensors(), found.tensors());
        for (tensor, of_transformers) in
            expected.tensors().into_iter().filter(|(name, _)| name != "input_ids")
        {
            let ours = tensors.tensor(&tensor).unwrap_or_else(|e| panic!("{name} {tensor}: {e}"));
            assert_eq!(ours.shape(), of_transformers.shape(), "{name} {tensor}");
            let pairs = floats(ours.data()).into_iter().zip(floats(of_transformers.data()));
            let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(error < 1e-4, "{name} {tensor}: {error}");
        }
        let count = |of: &SafeTensors<'_>| of.names().iter().filter(|name| name.ends_with("weights")).count();
        assert_eq!(count(&tensors), count(&expected), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn layers_without_attention_are_named_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("look");
    let call =
        program("qsf-run").arg(Path::new(FIXTURES).join("golden/qwen3_next")).args("--prompt-ids 2,3,4");
    call.arg("--attention").arg(&out).run().ok();
    let file = File::read(&out);
    let mut names: Vec<String> = file.tensors().names().into_iter().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["layers.1.keys", "layers.1.weights"]);
    let kinds: Vec<Value> =
        file.about("layers").as_array().unwrap().iter().map(|l| l["kind"].clone()).collect();
    assert_eq!(kinds, ["recurrent", "full", "recurrent"]);
    assert_eq!(file.about("token_ids"), serde_json::json!([2, 3, 4]));
}

/// A file that is not there yet, and a call that writes it.
fn demo(dir: &Path) -> (PathBuf, impl Fn(&str) -> Program) {
    let (source, out) = (demo_model(dir), dir.join("look.safetensors"));
    let path = out.clone();
    let call = move |more: &str| {
        let call = program("qsf-run").arg(&source).args("-p").arg("Once upon a time").arg("--attention");
        call.arg(&path).args(more)
    };
    (out, call)
}

#[test]
fn a_row_adds_up_to_one_in_any_number_of_threads_and_the_file_says_what_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let (out, call) = demo(dir.path());
    let report = call("--json -t 1").run().json();
    let first = fs::read(&out).unwrap();
    assert_eq!(report["bytes"].as_u64().unwrap(), first.len() as u64);
    call("--force -t 2").run().ok();
    assert_eq!(first, fs::read(&out).unwrap());
    let file = File(first);
    let pieces = file.about("tokens");
    let pieces: Vec<&str> = pieces.as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
    assert_eq!(pieces.concat(), "Once upon a time");
    assert_eq!(pieces.len() as u64, report["tokens"].as_u64().unwrap());
    let tensors = file.tensors();
    for layer in 0..4 {
        let weights = tensors.tensor(&format!("layers.{layer}.weights")).unwrap();
        assert_eq!(weights.shape(), [4, pieces.len(), pieces.len()]);
        for (row, weights) in floats(weights.data()).chunks(pieces.len()).enumerate() {
            let sum: f32 = weights.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5, "row {row}: {sum}");
            assert!(
                weights[row % pieces.len() + 1..].iter().all(|weight| *weight == 0.0),
                "nothing of what comes"
            );
        }
    }
}

#[test]
fn some_layers_can_be_chosen_and_what_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (out, call) = demo(dir.path());
    call("--attention-layers 3,1").run().ok();
    let file = File::read(&out);
    let mut names: Vec<String> = file.tensors().names().into_iter().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["layers.1.keys", "layers.1.weights", "layers.3.keys", "layers.3.weights"]);
    let refused = call("").run();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(File::read(&out).0, file.0);
    let refused = call("--force --attention-layers 4").run();
    assert!(refused.code == 2 && refused.stderr.contains("layers 0 to 3"), "{}", refused.stderr);
    assert_eq!(File::read(&out).0, file.0);
    for other in ["--ram-budget 60MB", "--kv-window 40", "-n 3", "--quality 0.5"] {
        assert_eq!(call(other).run().code, 2, "{other}");
    }
}
