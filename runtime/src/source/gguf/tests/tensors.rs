//! From llama.cpp's tensors to the model's.

use qsf_format::TensorKind::{self, *};
use qsf_format::{NormPlacement, TensorId};

use super::models::*;
use super::*;
use crate::source::WeightSource;

fn values(source: &GgufSource, layer: Option<u32>, kind: TensorKind) -> Vec<f32> {
    source.load(TensorId { layer, kind }).unwrap().to_f32()
}

/// The first value of the tensor `name` in [`model`].
fn first_value(kind: &str, name: &str) -> f32 {
    1000.0 * tensors(kind).iter().position(|(other, _)| other == name).unwrap() as f32
}

#[test]
fn every_value_of_a_model_of_every_architecture_is_mapped_once() {
    for kind in ALL {
        let writer = model(kind);
        let source = open_model(&writer).unwrap_or_else(|e| panic!("{kind}: {e}"));
        let mut mapped: Vec<f32> = Vec::new();
        for info in source.tensors() {
            let tensor = source.load(info.id).unwrap();
            assert_eq!((tensor.rows(), tensor.cols()), (info.rows, info.cols), "{kind} {}", info.id);
            let shift = f32::from(u8::from(source.config().norm.gain_plus_one && info.name.contains("norm")));
            mapped.extend(tensor.to_f32().iter().map(|value| value + shift));
        }
        let mut stored: Vec<f32> =
            writer.data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        // Between tensors lie zeros, and one value is one.
        stored.retain(|&value| value != 0.0);
        mapped.retain(|&value| value != 0.0);
        mapped.sort_by(f32::total_cmp);
        stored.sort_by(f32::total_cmp);
        assert_eq!(mapped, stored, "{kind}");
    }
}

#[test]
fn a_tensor_that_nothing_uses_is_refused_by_name() {
    for kind in ALL {
        for name in ["blk.0.ssm_a", "blk.3.attn_norm.weight", "v.patch_embd.weight", "blk.0.attn_q.scale"] {
            let message = why_not(&model(kind).f32s(name, &[1], &[1.0]));
            assert!(
                message.contains(&format!("tensor {name:?}: expected only tensors of")),
                "{kind}: {message}"
            );
        }
    }
}

#[test]
fn a_tensor_that_is_missing_or_of_another_shape_is_named() {
    for kind in ALL {
        for (name, shape) in tensors(kind) {
            let without = model(kind).without_tensor(&name);
            let optional = name == "output.weight" && matches!(kind, "llama" | "mixtral" | "phi3");
            if kind == "gptneox" && name.contains("attn") && !name.contains("norm") && name.ends_with(".bias")
            {
                assert!(open_model(&without).is_ok(), "{name}");
            } else if optional {
                assert!(open_model(&without).unwrap().config().tied_head, "{kind}");
            } else {
                let message = why_not(&without);
                assert!(message.contains("expected a tensor of that name") || name == "token_embd.weight");
                // Of several in one, the first is missed, by the name that it has alone.
                let named = name.replace("attn_qkv", "attn_q");
                let named = if kind == "phi3" { named.replace("ffn_up", "ffn_gate") } else { named };
                assert!(message.contains(&format!("tensor {named:?}")), "{kind} {name}: {message}");
            }
            let mut other = model(kind);
            let tensor = other.tensors.iter_mut().find(|tensor| tensor.name == name.as_bytes()).unwrap();
            tensor.shape = shape.iter().map(|n| n - 1).collect();
            assert!(why_not(&other).contains("tensor \""), "{kind} {name}");
        }
    }
}

#[test]
fn a_part_that_is_there_in_two_ways_is_refused() {
    let rows = HEADS * HEAD_DIM;
    let twice =
        model("phi2").f32s("blk.1.attn_q.weight", &[HIDDEN, rows], &vec![0.0; (HIDDEN * rows) as usize]);
    let message = why_not(&twice);
    assert!(message.contains("expected one tensor for layer 1 attn_q"), "{message}");
}

#[test]
fn rows_that_llama_cpp_moved_are_moved_back() {
    // Of a head of 6 rows, the file has those of the first half at even places: 0 3 1 4 2 5.
    let places = [0, 2, 4, 1, 3, 5];
    for kind in ["llama", "mixtral", "smollm3"] {
        let source = open_model(&model(kind)).unwrap();
        for (tensor, name, heads) in [(AttnQ, "attn_q", HEADS), (AttnK, "attn_k", KV_HEADS)] {
            let first = first_value(kind, &format!("blk.1.{name}.weight"));
            let found = values(&source, Some(1), tensor);
            for head in 0..heads {
                for (row, place) in places.iter().enumerate() {
                    let at = ((head * HEAD_DIM) as usize + row) * HIDDEN as usize;
                    let stored = (head * HEAD_DIM + place) * HIDDEN;
                    assert_eq!(found[at], first + stored as f32, "{kind} {name} head {head} row {row}");
                }
            }
        }
        let v = values(&source, Some(1), AttnV);
        assert_eq!(v[HIDDEN as usize], first_value(kind, "blk.1.attn_v.weight") + HIDDEN as f32);
    }
    let apart = open_model(&model("llama")).unwrap();
    let mut fused = model("llama");
    for layer in 0..LAYERS {
        let size = (HIDDEN * HEAD_DIM) as usize;
        let first = |name: &str| first_value("llama", &format!("blk.{layer}.{name}.weight"));
        let run = |first: f32, heads: u64| (0..heads as usize * size).map(move |at| first + at as f32);
        let all: Vec<f32> = run(first("attn_q"), HEADS)
            .chain(run(first("attn_k"), 1))
            .chain(run(first("attn_v"), 1))
            .collect();
        for name in ["attn_q", "attn_k", "attn_v"] {
            fused = fused.without_tensor(&format!("blk.{layer}.{name}.weight"));
        }
        let rows = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
        fused = fused.f32s(&format!("blk.{layer}.attn_qkv.weight"), &[HIDDEN, rows], &all);
    }
    let fused = open_model(&fused).unwrap();
    for kind in [AttnQ, AttnK, AttnV] {
        assert_eq!(values(&fused, Some(2), kind), values(&apart, Some(2), kind), "{kind} of three in one");
    }
    let source = open_model(&model("qwen3")).unwrap();
    let first = first_value("qwen3", "blk.1.attn_q.weight");
    assert_eq!(values(&source, Some(1), AttnQ)[HIDDEN as usize], first + HIDDEN as f32, "stored as it is");
}

#[test]
fn what_is_stored_in_one_matrix_is_taken_apart() {
    let phi3 = open_model(&model("phi3")).unwrap();
    let first = first_value("phi3", "blk.2.ffn_up.weight");
    assert_eq!(values(&phi3, Some(2), FfnGate)[0], first);
    assert_eq!(values(&phi3, Some(2), FfnUp)[0], first + (FFN * HIDDEN) as f32);
    let first = first_value("phi3", "blk.2.attn_qkv.weight");
    let q_rows = HEADS * HEAD_DIM;
    assert_eq!(values(&phi3, Some(2), AttnQ)[0], first);
    assert_eq!(values(&phi3, Some(2), AttnK)[0], first + (q_rows * HIDDEN) as f32);
    assert_eq!(values(&phi3, Some(2), AttnV)[0], first + ((q_rows + HEAD_DIM) * HIDDEN) as f32);
    let gpt2 = open_model(&model("gpt2")).unwrap();
    let first = first_value("gpt2", "blk.0.attn_qkv.bias");
    assert_eq!(values(&gpt2, Some(0), AttnKBias)[0], first + q_rows as f32);
}

#[test]
fn gains_of_gemma_are_stored_with_the_1_that_they_do_not_have() {
    for kind in ["gemma2", "gemma3"] {
        let source = open_model(&model(kind)).unwrap();
        assert_eq!(source.config().norm.placement, NormPlacement::PreAndPost);
        let found = values(&source, Some(0), AttnNorm);
        assert_eq!(found[3], first_value(kind, "blk.0.attn_norm.weight") + 2.0);
        assert_eq!(values(&source, None, FinalNorm)[1], first_value(kind, "output_norm.weight"));
    }
}

#[test]
fn experts_stored_one_by_one_or_gate_beside_up_are_the_same_model() {
    let expected = open_model(&model("mixtral")).unwrap();
    let (mut apart, mut fused) = (model("mixtral"), model("mixtral"));
    for layer in 0..LAYERS {
        for (part, kind) in [("gate", ExpertGate), ("up", ExpertUp), ("down", ExpertDown)] {
            apart = apart.without_tensor(&format!("blk.{layer}.ffn_{part}_exps.weight"));
            let all = values(&expected, Some(layer as u32), kind);
            let shape = if part == "down" { [EXPERT_FFN, HIDDEN] } else { [HIDDEN, EXPERT_FFN] };
            for (e, values) in all.chunks((HIDDEN * EXPERT_FFN) as usize).enumerate() {
                apart = apart.f32s(&format!("blk.{layer}.ffn_{part}.{e}.weight"), &shape, values);
            }
        }
        let [gate, up] = [ExpertGate, ExpertUp].map(|kind| values(&expected, Some(layer as u32), kind));
        let size = (HIDDEN * EXPERT_FFN) as usize;
        let both: Vec<f32> =
            gate.chunks(size).zip(up.chunks(size)).flat_map(|(gate, up)| [gate, up].concat()).collect();
        fused = fused
            .without_tensor(&format!("blk.{layer}.ffn_gate_exps.weight"))
            .without_tensor(&format!("blk.{layer}.ffn_up_exps.weight"))
            .f32s(&format!("blk.{layer}.ffn_gate_up_exps.weight"), &[HIDDEN, 2 * EXPERT_FFN, EXPERTS], &both);
    }
    for writer in [apart, fused] {
        let found = open_model(&writer).unwrap();
        for info in expected.tensors() {
            let (one, other) = (expected.load(info.id).unwrap(), found.load(info.id).unwrap());
            assert_eq!(one.to_f32(), other.to_f32(), "{}", info.id);
        }
    }
}

#[test]
fn a_type_that_cannot_be_read_is_named_with_its_tensor_unless_nobody_needs_it() {
    for type_id in [4, 36, 1000] {
        let mut writer = model("llama");
        writer.tensors[1].type_id = type_id;
        let message = why_not(&writer);
        let name = format!("unknown type {type_id}");
        assert!(
            message.contains(&format!("{name} of tensor \"blk.0.attn_norm.weight\" is not supported")),
            "{message}"
        );
    }
    let ignored = model("llama").tensor("blk.0.attn_rot_embd.weight", &[1], 36, &[0; 4]);
    assert!(open_model(&ignored).is_ok());
}

#[test]
fn quantized_rows_are_decoded_where_they_are_and_multiplied_with_the_scale_of_their_matrix() {
    // Q8_0: a scale of 0.5, then codes. llama's own rows are moved besides: the second one is stored third.
    let row = |code: u8| [&[0x00, 0x38][..], &[code; 32]].concat();
    let mut writer = model("llama");
    let (hidden, q_rows) = (32, HEADS * HEAD_DIM);
    for tensor in &mut writer.tensors {
        tensor.shape.iter_mut().filter(|n| **n == HIDDEN).for_each(|n| *n = hidden);
    }
    let mut grown = Writer { tensors: Vec::new(), data: Vec::new(), ..writer.clone() }
        .set("llama.embedding_length", Value::U32(hidden as u32));
    for tensor in &writer.tensors {
        let name = std::str::from_utf8(&tensor.name).unwrap();
        let count = tensor.shape.iter().product::<u64>() as usize;
        grown = if name == "blk.1.attn_q.weight" {
            let rows: Vec<u8> = (0..q_rows as u8).flat_map(row).collect();
            grown.tensor(name, &tensor.shape, 8, &rows).f32s("blk.1.attn_q.scale", &[1], &[3.0])
        } else {
            grown.f32s(name, &tensor.shape, &vec![1.0; count])
        };
    }
    let source = open_model(&grown.clone().f32s("blk.1.attn_q.input_scale", &[1], &[9.0])).unwrap();
    let info = source.tensors().iter().find(|info| info.name == "blk.1.attn_q.weight").unwrap();
    assert_eq!((info.stored.to_string().as_str(), info.stored.is_quantized()), ("Q8_0", true));
    let found = values(&source, Some(1), AttnQ);
    assert_eq!((found[0], found[32], found[63], found[6 * 32]), (0.0, 0.5 * 2.0 * 3.0, 3.0, 0.5 * 6.0 * 3.0));
    let wrong =
        grown.clone().without_tensor("blk.1.attn_q.scale").f32s("blk.1.attn_q.scale", &[2], &[1.0; 2]);
    assert!(why_not(&wrong).contains("1 values of type F32"));
}
