//! Values and models that `scripts/make_packed_vectors.py` made, and checkpoints that contradict themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::*;
use crate::cpu::{Cpu, Isa};
use crate::eval::{GoldenExpectation, compare_golden};
use crate::source::WeightSource;
use crate::source::huggingface::fields::Fields;
use crate::source::huggingface::open_huggingface;
use crate::source::huggingface::plain;
use crate::{Activations, Decoder, Model};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/packed").join(name)
}

/// Tensors in memory.
#[derive(Debug, Clone, Default)]
struct Memory(BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Memory {
    fn words(mut self, name: &str, shape: &[usize], words: &[u32]) -> Memory {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.0.insert(name.into(), (Dtype::I32, shape.to_vec(), bytes));
        self
    }

    fn floats(mut self, name: &str, shape: &[usize], values: &[f32]) -> Memory {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.insert(name.into(), (Dtype::F32, shape.to_vec(), bytes));
        self
    }

    fn without(mut self, name: &str) -> Memory {
        assert!(self.0.remove(name).is_some(), "{name} was there");
        self
    }

    fn packed(self, quantization: Value) -> Result<Box<dyn TensorStore>> {
        let method = method(quantization)?;
        PackedStore::wrap(Box::new(self), &method)
    }

    fn refusal(self, quantization: &Value) -> String {
        self.packed(quantization.clone()).err().map_or_else(String::new, |e| e.to_string())
    }
}

impl TensorStore for Memory {
    fn file_of(&self, _: &str) -> &Path {
        Path::new("model.safetensors")
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        self.0.get(name).map(|(dtype, shape, _)| (shape.as_slice(), plain::stored_type(*dtype)))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.keys().map(String::as_str))
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let (dtype, shape, bytes) = &self.0[name];
        let cols = shape.last().copied().unwrap_or(1);
        let rows = shape.iter().product::<usize>() / cols;
        let quant = plain::stored_type(*dtype).native().expect("only plain tensors are loaded");
        Ok(Tensor::new(rows, cols, quant, Default::default(), bytes.clone().into()).unwrap())
    }

    fn raw(&self, name: &str) -> Result<TensorBytes> {
        Ok(self.0[name].2.clone().into())
    }
}

/// What `config.json` with this under `quantization` (no `quant_method`) or `quantization_config` says.
fn method(quantization: Value) -> Result<Method> {
    let field =
        if quantization.get("quant_method").is_some() { "quantization_config" } else { "quantization" };
    let config = json!({field: quantization});
    let fields = Fields { path: Path::new("config.json"), within: "", map: config.as_object().unwrap() };
    Ok(read_method(fields)?.expect("a method that is read"))
}

fn gptq(bits: u32, group_size: i64) -> Value {
    json!({"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": false, "sym": false})
}

fn awq() -> Value {
    json!({"quant_method": "awq", "bits": 4, "group_size": 16, "version": "GEMM"})
}

fn mlx(bits: u32, group_size: usize) -> Value {
    json!({"bits": bits, "group_size": group_size})
}

/// What the configuration of a model with a case's matrix would say.
fn quantization_of(case: &str) -> Value {
    let parts: Vec<&str> = case.split('-').collect();
    match parts.as_slice() {
        ["mlx", "mxfp4"] => json!({"mode": "mxfp4", "bits": 4, "group_size": 32}),
        ["mlx", bits, group, _] => mlx(bits.parse().unwrap(), group.parse().unwrap()),
        ["awq", ..] => awq(),
        &["gptq", bits, version, order] => {
            let mut found = gptq(bits.parse().unwrap(), if order == "borrowed" { -1 } else { 16 });
            found["desc_act"] = json!(order == "mixed");
            found["checkpoint_format"] = json!(if version == "v2" { "gptq_v2" } else { "gptq" });
            found
        }
        other => panic!("case {other:?}"),
    }
}

#[test]
fn values_of_every_layout_are_those_of_the_tools() {
    let file = std::fs::read(fixture("vectors.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let mut cases: BTreeMap<String, Memory> = BTreeMap::new();
    for (name, view) in file.tensors() {
        let (case, tensor) = name.split_once('/').unwrap();
        let stored = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
        cases.entry(case.to_owned()).or_default().0.insert(tensor.to_owned(), stored);
    }
    assert!(cases.len() >= 15, "cases: {:?}", cases.keys());
    for (case, mut memory) in cases {
        let expected = memory.load("expected").unwrap().to_f32();
        let (_, shape, _) = memory.0.remove("expected").unwrap();
        let store = memory.packed(quantization_of(&case)).unwrap();
        assert_eq!(store.names().collect::<Vec<_>>(), ["x.weight"], "{case}");
        assert_eq!(store.describe("x.weight").unwrap().0, shape, "{case}");
        assert!(store.describe("x.weight").unwrap().1.is_quantized(), "{case}");
        store.check("x.weight").unwrap();
        let found = store.load("x.weight").unwrap();
        assert_eq!((found.rows(), found.cols()), (shape[0], shape[1]), "{case}");
        for (i, (found, expected)) in found.to_f32().iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{case}: value {i}");
        }
    }
}

#[test]
fn models_of_every_tool_compute_what_their_expanded_weights_compute() {
    for (name, stored) in [("mlx", "MLX 6-bit"), ("gptq", "GPTQ 4-bit"), ("awq", "AWQ 4-bit")] {
        let source = open_huggingface(&fixture(name)).unwrap();
        assert_eq!(source.tensors().len(), 11, "{name}");
        let output = source.tensors().iter().find(|info| info.name.ends_with("o_proj.weight")).unwrap();
        assert_eq!(output.stored.to_string(), stored);
        let path = fixture(name).join("expected.safetensors");
        let golden = GoldenExpectation::read(&path).unwrap();
        let model = Model::load(&source).unwrap();
        let decoder = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32));
        let report = compare_golden(&decoder, &path, &golden).unwrap();
        assert!(report.logits_rel_err < 1e-5 && report.greedy_equal, "{name}: {report:?}");
    }
}
