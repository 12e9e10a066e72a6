//! Values and models that `scripts/make_packed_vectors.py` made, and checkpoints that contradict themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::*;
use crate::error::Result;
use crate::eval::{GoldenExpectation, compare_golden};
use crate::model_dir::Fields;
use crate::source::WeightSource;
use crate::source::huggingface::open_huggingface;
use crate::source::huggingface::plain;
use crate::source::mapping::TensorStore;
use crate::tensor::{StoredType, Tensor, TensorBytes};
use crate::{Activations, Decoder, Model};
use qsf_cpu::{Cpu, Isa, KvTypes};

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

fn compressed(symmetric: bool) -> Value {
    let weights = json!({"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group"});
    json!({
        "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": null}},
    })
}

/// What the configuration of a model with a case's matrix would say.
fn quantization_of(case: &str) -> Value {
    let parts: Vec<&str> = case.split('-').collect();
    match parts.as_slice() {
        ["mlx", "mxfp4"] => json!({"mode": "mxfp4", "bits": 4, "group_size": 32}),
        ["mlx", bits, group, _] => mlx(bits.parse().unwrap(), group.parse().unwrap()),
        ["awq", ..] => awq(),
        ["ct", .., "zeros"] => compressed(false),
        ["ct", ..] => compressed(true),
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
        let report = compare_golden(&decoder, KvTypes::default(), &path, &golden).unwrap();
        assert!(report.logits_relative_error < 1e-5 && report.greedy_equal, "{name}: {report:?}");
    }
}

#[test]
fn four_rows_of_three_values_are_in_one_of_bytes_and_the_scale_multiplies_or_divides() {
    // Codes 2, 1, 0, 2 of rows 0, 2, 4, 6, and 0, 0, 1, 2 of rows 1, 3, 5, 7.
    let memory = || {
        let mut memory = Memory::default().floats("x.weight_scale", &[1], &[0.5]);
        memory.0.insert("x.weight".into(), (Dtype::U8, vec![2, 1], vec![0b10_00_01_10, 0b10_01_00_00]));
        memory
    };
    for (class, one) in [("autobitlinear", 0.5), ("bitlinear", 2.0)] {
        let config = json!({"quant_method": "bitnet", "linear_class": class, "quantization_mode": "offline"});
        let store = memory().packed(config).unwrap();
        assert_eq!(store.describe("x.weight").unwrap().0, [8, 1]);
        assert!(store.describe("x.weight").unwrap().1.is_ternary());
        let found = store.load("x.weight").unwrap().to_f32();
        assert_eq!(found, [1.0, -1.0, 0.0, -1.0, -1.0, 0.0, 1.0, 1.0].map(|value: f32| value * one));
    }
    let mut two_scales = memory();
    two_scales.0.insert("x.weight_scale".into(), (Dtype::F32, vec![2], vec![0; 8]));
    let config = json!({"quant_method": "bitnet"});
    assert!(two_scales.packed(config.clone()).unwrap_err().to_string().contains("one value"));
    let mut zero = memory();
    zero.0.insert("x.weight_scale".into(), (Dtype::F32, vec![1], vec![0; 4]));
    let error = zero.packed(config).unwrap().load("x.weight").unwrap_err();
    assert!(error.to_string().contains("finite"), "{error}");
}

/// Eight inputs, eight outputs: code i for input i, zero 8 stored less 1, scale j + 1 for output j.
fn gptq_layer() -> Memory {
    Memory::default()
        .words("x.qweight", &[1, 8], &[0x7654_3210; 8])
        .words("x.qzeros", &[1, 1], &[0x7777_7777])
        .floats("x.scales", &[1, 8], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
}

/// Two inputs in groups of one, eight outputs: code and zero j for output j.
fn awq_layer() -> Memory {
    Memory::default()
        .words("x.qweight", &[2, 1], &[0x7531_6420, 0xfdb9_eca8])
        .words("x.qzeros", &[2, 1], &[0, 0x7531_6420])
        .floats("x.scales", &[2, 8], &[1.0; 16])
}

/// Codes 0 to 7 four times, of 3 bits: 0xfac688 in each 24.
fn mlx_layer() -> Memory {
    let mut memory = Memory::default()
        .words("x.weight", &[1, 3], &[0x88fa_c688, 0xc688_fac6, 0xfac6_88fa])
        .floats("x.scales", &[1, 1], &[2.0])
        .floats("x.biases", &[1, 1], &[-3.0]);
    memory.0.get_mut("x.weight").unwrap().0 = Dtype::U32;
    memory
}

/// One output, eight inputs: code i for input i, the middle code for 0, scale 0.5.
fn ct_layer() -> Memory {
    let shape = [1u64, 8].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut memory = Memory::default().words("x.weight_packed", &[1, 1], &[0x7654_3210]).floats(
        "x.weight_scale",
        &[1, 1],
        &[0.5],
    );
    memory.0.insert("x.weight_shape".into(), (Dtype::I64, vec![2], shape));
    memory
}

fn values(memory: Memory, quantization: Value) -> Vec<f32> {
    memory.packed(quantization).unwrap().load("x.weight").unwrap().to_f32()
}

#[test]
fn values_follow_from_the_layouts_as_they_are_described() {
    let expected: Vec<f32> = (0..64).map(|at| (at % 8 - 8) as f32 * (at / 8 + 1) as f32).collect();
    assert_eq!(values(gptq_layer(), gptq(4, -1)), expected);
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 1});
    // The second input has codes 8 + j and zeros j.
    let expected: Vec<f32> = (0..8).flat_map(|output| [output as f32, 8.0]).collect();
    assert_eq!(values(awq_layer(), awq), expected);
    let halves = [-4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5];
    assert_eq!(values(ct_layer(), compressed(true)), halves);
    let unset = ct_layer().words("x.weight_g_idx", &[8], &[u32::MAX; 8]);
    assert_eq!(values(unset, compressed(true)), halves);
    let expected: Vec<f32> = (0..32).map(|at| 2.0 * (at % 8) as f32 - 3.0).collect();
    assert_eq!(values(mlx_layer(), mlx(3, 32)), expected);
}

#[test]
fn symmetric_zeros_that_are_not_less_one_are_noticed() {
    let memory = || gptq_layer().words("x.qzeros", &[1, 1], &[0x8888_8888]);
    let mut symmetric = gptq(4, -1);
    symmetric["sym"] = json!(true);
    assert_eq!(values(memory(), symmetric.clone()), values(gptq_layer(), gptq(4, -1)));
    assert_eq!(values(gptq_layer(), symmetric), values(gptq_layer(), gptq(4, -1)));
    assert_eq!(values(memory(), gptq(4, -1))[7], -2.0, "9 is a zero like any other where they differ");
}

#[test]
fn groups_that_were_left_unset_are_runs_and_others_are_taken_at_their_word() {
    let memory = |g_idx: [u32; 8]| {
        gptq_layer()
            .words("x.qzeros", &[2, 1], &[0x7777_7777, 0x7777_7777])
            .floats("x.scales", &[2, 8], &[[1.0; 8], [10.0; 8]].concat())
            .words("x.g_idx", &[8], &g_idx)
    };
    let row = |g_idx, act| {
        let mut quantization = gptq(4, 4);
        quantization["desc_act"] = json!(act);
        values(memory(g_idx), quantization)[..8].to_vec()
    };
    let in_runs = [-8.0, -7.0, -6.0, -5.0, -40.0, -30.0, -20.0, -10.0];
    assert_eq!(row([0, 0, 0, 0, 1, 1, 1, 1], true), in_runs);
    assert_eq!(row([0; 8], false), in_runs);
    assert_eq!(row([1, 0, 0, 1, 0, 0, 1, 1], true), [-80.0, -7.0, -6.0, -50.0, -4.0, -3.0, -20.0, -10.0]);
    let store = memory([0, 0, 0, 0, 1, 1, 1, 2]).packed(gptq(4, 4)).unwrap();
    for message in [store.check("x.weight").unwrap_err(), store.load("x.weight").unwrap_err()] {
        assert!(message.to_string().contains("groups below 2, found 2 at input 7"), "{message}");
    }
    let negative = memory([u32::MAX; 8]).packed(gptq(4, 4)).unwrap();
    assert!(negative.check("x.weight").unwrap_err().to_string().contains("found -1 at input 0"));
}

#[test]
fn layers_of_other_widths_are_read_where_the_configuration_says_that_there_are_some() {
    let mut mixed = gptq(8, 128);
    mixed["dynamic"] = json!({"-:.*gate": {}, "+:.*x": {"bits": 4}});
    assert_eq!(values(gptq_layer(), mixed), values(gptq_layer(), gptq(4, -1)));
    let mut named = mlx(4, 64);
    named["x"] = mlx(3, 32);
    assert_eq!(values(mlx_layer(), named.clone()), values(mlx_layer(), mlx(3, 32)));
    named["x"] = json!(false);
    let plain = mlx_layer().packed(named).unwrap();
    assert_eq!(plain.names().count(), 3, "what is not packed stays as it is");
}

#[test]
fn a_bias_of_zeros_adds_nothing_and_another_does() {
    let store = gptq_layer().floats("x.bias", &[2], &[0.0, -0.0]).floats("y.bias", &[1], &[0.0]);
    let store = store.packed(gptq(4, -1)).unwrap();
    assert!(store.adds_nothing("x.bias") && !store.adds_nothing("y.bias"));
    let store = gptq_layer().floats("x.bias", &[2], &[0.0, 1e-9]).packed(gptq(4, -1)).unwrap();
    assert!(!store.adds_nothing("x.bias") && !store.adds_nothing("x.weight"));
}

#[test]
fn parts_that_contradict_one_another_are_named_with_what_fits() {
    let awq1 = json!({"quant_method": "awq", "bits": 4, "group_size": 1});
    let gptq4 = gptq(4, -1);
    let act = json!({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": true});
    let ct = compressed(true);
    let mut float_codes = gptq_layer();
    float_codes.0.get_mut("x.qweight").unwrap().0 = Dtype::F32;
    for (memory, quantization, parts) in [
        (gptq_layer().without("x.scales"), &gptq4, ["x.scales", "beside \"x.qweight\""]),
        (gptq_layer().without("x.qzeros"), &gptq4, ["x.qzeros", "found none"]),
        (gptq_layer(), &act, ["x.g_idx", "found none"]),
        (gptq_layer(), &gptq(8, -1), ["x.qzeros", "2 columns (8 outputs of 8 bits), found 1"]),
        (gptq_layer(), &gptq(4, 4), ["x.scales", "2 groups (8 inputs in groups of 4), found 1"]),
        (float_codes, &gptq4, ["x.qweight", "32-bit words (I32 or U32), found f32"]),
        (gptq_layer().words("x.scales", &[1, 8], &[0; 8]), &gptq4, ["x.scales", "floats"]),
        (gptq_layer().floats("x.scales", &[1, 7], &[0.0; 7]), &gptq4, ["x.scales", "shape [1, 8]"]),
        (gptq_layer().words("x.qzeros", &[1, 5], &[0; 5]), &gptq4, ["x.qzeros", "for 8 outputs"]),
        (gptq_layer().words("x.qweight", &[8], &[0; 8]), &gptq4, ["x.qweight", "two dimensions"]),
        (gptq_layer().words("x.qweight", &[0, 8], &[]), &gptq4, ["x.qweight", "none of them 0"]),
        (gptq_layer().words("x.g_idx", &[4], &[0; 4]), &gptq4, ["x.g_idx", "shape [8]"]),
        (gptq_layer().floats("x.weight", &[1], &[0.0]), &gptq4, ["x.weight", "not both"]),
        (
            // 12 words of 3 bits for 128 inputs need no more; 2 rows are no whole number of codes.
            Memory::default()
                .words("x.qweight", &[2, 32], &[0; 64])
                .words("x.qzeros", &[1, 3], &[0; 3])
                .floats("x.scales", &[1, 32], &[0.0; 32]),
            &gptq(3, -1),
            ["x.qweight", "whole number of codes of 3 bits"],
        ),
        (awq_layer().words("x.qzeros", &[1, 1], &[0]), &awq1, ["x.qzeros", "shape [2, 1]"]),
        (awq_layer().floats("x.scales", &[2, 4], &[0.0; 8]), &awq1, ["x.scales", "shape [2, 8]"]),
        (awq_layer(), &awq(), ["x.qweight", "a multiple of 16 rows"]),
        (awq_layer().words("x.qweight", &[2, 0], &[]), &awq1, ["x.qweight", "none of them 0"]),
        (ct_layer().without("x.weight_scale"), &ct, ["x.weight_scale", "found none"]),
        (ct_layer().without("x.weight_shape"), &ct, ["x.weight_shape", "found none"]),
        (ct_layer(), &compressed(false), ["x.weight_zero_point", "found none"]),
        (ct_layer().floats("x.weight_scale", &[1], &[1.0]), &ct, ["x.weight_scale", "two dimensions"]),
        (ct_layer().floats("x.weight_scale", &[1, 3], &[1.0; 3]), &ct, ["x.weight_scale", "divide 8 inputs"]),
        (
            ct_layer().words("x.weight_zero_point", &[1, 2], &[0; 2]),
            &ct,
            ["x.weight_zero_point", "shape [1, 1]"],
        ),
        (ct_layer().words("x.weight_g_idx", &[7], &[0; 7]), &ct, ["x.weight_g_idx", "shape [8]"]),
        (ct_layer().words("x.weight_packed", &[1, 3], &[0; 3]), &ct, ["x.weight_packed", "1 x 8 codes"]),
        (ct_layer().words("x.weight_packed", &[2, 1], &[0; 2]), &ct, ["x.weight_packed", "1 x 8 codes"]),
        (mlx_layer().without("x.biases"), &mlx(3, 32), ["x.biases", "found none"]),
        (mlx_layer(), &mlx(4, 32), ["x.weight", "whole groups of 32 codes of 4 bits"]),
        (mlx_layer(), &mlx(5, 32), ["x.weight", "whole groups"]),
        (mlx_layer().floats("x.scales", &[1, 2], &[0.0; 2]), &mlx(3, 32), ["x.scales", "shape [1, 1]"]),
        (mlx_layer().floats("x.biases", &[1], &[0.0]), &mlx(3, 32), ["x.biases", "that of the scales"]),
        (mlx_layer().words("x.weight", &[3], &[0; 3]), &mlx(3, 32), ["x.weight", "two dimensions"]),
    ] {
        let message = memory.refusal(quantization);
        assert!(message.starts_with("model.safetensors: tensor "), "{parts:?}: {message:?}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?} not in {message:?}");
    }
}

#[test]
fn sizes_beyond_all_memory_are_errors() {
    let huge = usize::MAX / 4 + 1;
    for (name, shape) in [("x.qweight", [huge, 8]), ("x.qweight", [1, huge]), ("x.qzeros", [huge, huge])] {
        let message = gptq_layer().words(name, &shape, &[]).refusal(&gptq(4, -1));
        assert!(message.contains("\"x."), "{message}");
        let message = awq_layer().words(name, &shape, &[]).refusal(&awq());
        assert!(message.contains("\"x."), "{message}");
    }
    assert!(mlx_layer().words("x.weight", &[1, huge], &[]).refusal(&mlx(3, 32)).contains("x.weight"));
    // A header that claims more than the file has.
    let claimed = gptq_layer().words("x.qweight", &[1 << 40, 8], &[0; 8]).words("x.g_idx", &[1 << 43], &[]);
    let store = claimed.packed(gptq(4, -1)).unwrap();
    for message in [store.check("x.weight").unwrap_err(), store.load("x.weight").unwrap_err()] {
        assert!(message.to_string().contains("bytes, found 0 bytes"), "{message}");
    }
}

#[test]
fn variants_that_are_not_read_are_named() {
    for (quantization, part) in [
        (json!({"quant_method": "awq", "version": "gemv"}), "version \"gemv\""),
        (json!({"quant_method": "awq", "backend": "llm-awq"}), "llm-awq"),
        (json!({"quant_method": "awq", "bits": 8}), "AWQ with 8 bits"),
        (json!({"quant_method": "awq", "group_size": 0}), "group_size"),
        (json!({"quant_method": "gptq"}), "bits"),
        (json!({"quant_method": "gptq", "bits": 5}), "GPTQ with 5 bits"),
        (json!({"quant_method": "gptq", "bits": 4, "group_size": "all"}), "the string \"all\""),
        (json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}), "marlin"),
        (json!({"quant_method": "gptq", "bits": 4, "is_marlin_format": true}), "Marlin"),
        (json!({"quant_method": "gptq", "bits": 4, "pack_dtype": "int16"}), "int16"),
        (
            json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
                "sparsity_config": {"format": "sparse-24-bitmask"}, "config_groups": {}}),
            "sparse-24-bitmask",
        ),
        (json!({"quant_method": "compressed-tensors", "format": "pack-quantized"}), "config_groups"),
        (json!({"bits": 7, "group_size": 64}), "7 bits in groups of 64"),
        (json!({"bits": 4, "group_size": 16, "mode": "nvfp4"}), "nvfp4"),
        (json!({"bits": 4, "group_size": 64, "mode": "mxfp4"}), "4 bits in groups of 64"),
        (json!({"bits": 4, "group_size": 64, "a.b": {"bits": 1}}), "1 bits"),
    ] {
        let message = method(quantization).unwrap_err().to_string();
        assert!(message.contains(part) && message.starts_with("config.json: "), "{part}: {message}");
    }
}
