//! Small models of every architecture as llama.cpp's converter writes them: odd sizes, heads of another width than
//! `hidden / heads`, values that tell where they came from.

use super::{Value, Writer};

/// The architectures.
pub(in crate::source) const ALL: [&str; 14] = [
    "llama", "mixtral", "smollm3", "qwen2", "qwen3", "qwen3moe", "olmo2", "phi3", "gemma2", "gemma3", "gpt2",
    "gptneox", "phi2", "bloom",
];

pub(super) const LAYERS: u64 = 3;
pub(super) const HIDDEN: u64 = 20;
pub(super) const HEADS: u64 = 3;
pub(super) const KV_HEADS: u64 = 1;
pub(super) const HEAD_DIM: u64 = 6;
pub(super) const FFN: u64 = 14;
pub(super) const EXPERTS: u64 = 4;
pub(super) const EXPERT_FFN: u64 = 10;
pub(super) const VOCAB: u64 = 11;
pub(super) const CONTEXT: u64 = 32;

/// A model of this kind; `mixtral` is `llama` with experts.
pub(in crate::source) fn model(kind: &str) -> Writer {
    let architecture = if kind == "mixtral" { "llama" } else { kind };
    let mut writer = keys(kind, architecture);
    for (i, (name, shape)) in tensors(kind).into_iter().enumerate() {
        let count = shape.iter().product::<u64>();
        let values: Vec<f32> = (0..count).map(|at| (1000 * i) as f32 + at as f32).collect();
        writer = writer.f32s(&name, &shape, &values);
    }
    writer
}

fn keys(kind: &str, architecture: &str) -> Writer {
    let numbers = [
        ("block_count", LAYERS),
        ("context_length", CONTEXT),
        ("embedding_length", HIDDEN),
        ("feed_forward_length", FFN),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS),
        ("attention.key_length", HEAD_DIM),
        ("attention.value_length", HEAD_DIM),
    ];
    let mut writer = Writer::new().set("general.architecture", Value::Text(architecture.to_owned()));
    for (name, number) in numbers {
        writer = writer.set(&format!("{architecture}.{name}"), Value::U32(number as u32));
    }
    let epsilon = match kind {
        "gpt2" | "gptneox" | "phi2" | "bloom" => "layer_norm_epsilon",
        _ => "layer_norm_rms_epsilon",
    };
    writer = writer.set(&format!("{architecture}.attention.{epsilon}"), Value::F32(1e-5));
    let experts =
        [("expert_count", EXPERTS), ("expert_used_count", 2), ("expert_feed_forward_length", EXPERT_FFN)];
    if matches!(kind, "mixtral" | "qwen3moe") {
        for (name, number) in experts {
            writer = writer.set(&format!("{architecture}.{name}"), Value::U32(number as u32));
        }
    }
    if kind == "gptneox" {
        writer = writer.set("gptneox.use_parallel_residual", Value::Bool(true));
    }
    if kind == "gemma3" {
        writer = writer.set("gemma3.attention.sliding_window", Value::U32(8));
    }
    writer
}

/// Names and dimensions, fastest first.
pub(super) fn tensors(kind: &str) -> Vec<(String, Vec<u64>)> {
    let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
    let layer_norms = matches!(kind, "gpt2" | "gptneox" | "phi2" | "bloom");
    let mut all: Vec<(String, Vec<u64>)> = vec![("token_embd.weight".into(), vec![HIDDEN, VOCAB])];
    let mut add = |name: String, weight: &[u64], bias: bool| {
        all.push((format!("{name}.weight"), weight.to_vec()));
        if bias {
            all.push((format!("{name}.bias"), vec![*weight.last().unwrap()]));
        }
    };
    if kind == "bloom" {
        add("token_embd_norm".into(), &[HIDDEN], true);
    }
    if kind == "gpt2" {
        add("position_embd".into(), &[HIDDEN, CONTEXT], false);
    }
    for layer in 0..LAYERS {
        let name = |name: &str| format!("blk.{layer}.{name}");
        if kind != "olmo2" {
            add(name("attn_norm"), &[HIDDEN], layer_norms);
        }
        if matches!(kind, "gpt2" | "gptneox" | "phi2" | "bloom" | "phi3") {
            add(name("attn_qkv"), &[HIDDEN, q + 2 * kv], layer_norms);
        } else {
            for (part, rows) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
                add(name(part), &[HIDDEN, rows], kind == "qwen2");
            }
        }
        let norms = match kind {
            "olmo2" => Some((q, kv)),
            "qwen3" | "qwen3moe" | "gemma3" => Some((HEAD_DIM, HEAD_DIM)),
            _ => None,
        };
        if let Some((q, k)) = norms {
            add(name("attn_q_norm"), &[q], false);
            add(name("attn_k_norm"), &[k], false);
        }
        add(name("attn_output"), &[q, HIDDEN], layer_norms);
        if matches!(kind, "olmo2" | "gemma2" | "gemma3") {
            add(name("post_attention_norm"), &[HIDDEN], false);
            add(name("post_ffw_norm"), &[HIDDEN], false);
        }
        if !matches!(kind, "olmo2" | "phi2") {
            add(name("ffn_norm"), &[HIDDEN], layer_norms);
        }
        match kind {
            "mixtral" | "qwen3moe" => {
                add(name("ffn_gate_inp"), &[HIDDEN, EXPERTS], false);
                add(name("ffn_gate_exps"), &[HIDDEN, EXPERT_FFN, EXPERTS], false);
                add(name("ffn_up_exps"), &[HIDDEN, EXPERT_FFN, EXPERTS], false);
                add(name("ffn_down_exps"), &[EXPERT_FFN, HIDDEN, EXPERTS], false);
            }
            "phi3" => {
                add(name("ffn_up"), &[HIDDEN, 2 * FFN], false);
                add(name("ffn_down"), &[FFN, HIDDEN], false);
            }
            _ => {
                if !layer_norms {
                    add(name("ffn_gate"), &[HIDDEN, FFN], false);
                }
                add(name("ffn_up"), &[HIDDEN, FFN], layer_norms);
                add(name("ffn_down"), &[FFN, HIDDEN], layer_norms);
            }
        }
    }
    add("output_norm".into(), &[HIDDEN], layer_norms);
    if matches!(kind, "llama" | "mixtral" | "olmo2" | "phi3" | "gptneox" | "phi2") {
        add("output".into(), &[HIDDEN, VOCAB], kind == "phi2");
    }
    all
}
