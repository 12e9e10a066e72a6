//! From metadata to the architecture: what each key means, and what is refused.

use qsf_format::{Activation, ModelConfig, PositionConfig, Residual, RopeScaling, SlidingWindow};

use super::models::*;
use super::*;
use crate::source::WeightSource;

fn config(writer: Writer) -> ModelConfig {
    open_model(&writer).map(|source| source.config().clone()).unwrap()
}

fn numbers(values: &[u32]) -> Value {
    Value::List(values.iter().map(|&value| Value::U32(value)).collect())
}

fn scaling(writer: Writer) -> Option<RopeScaling> {
    let PositionConfig::Rope { scaling, .. } = config(writer).position else { panic!("no rotation") };
    scaling
}

#[test]
fn the_sizes_of_a_model_are_those_of_its_keys() {
    let found = config(model("llama").set("llama.rope.freq_base", Value::F32(5e5)));
    assert_eq!((found.layers, found.hidden, found.heads, found.kv_heads, found.head_dim), (3, 20, 3, 1, 6));
    assert_eq!((found.ffn, found.vocab, found.max_positions, found.tied_head), (14, 11, 32, false));
    assert_eq!(found.position, PositionConfig::rope(5e5, None));
    assert_eq!((found.architecture.as_str(), found.norm.epsilon), ("llama", 1e-5));
}

#[test]
fn architectures_have_the_names_that_transformers_gives_them() {
    let names: Vec<String> = ALL.iter().map(|kind| config(model(kind)).architecture).collect();
    let expected = [
        "llama",
        "mixtral",
        "smollm3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "olmo2",
        "phi3",
        "gemma2",
        "gemma3_text",
        "gpt2",
        "gpt_neox",
        "phi",
        "bloom",
    ];
    assert_eq!(names, expected);
    assert_eq!(config(model("gptneox")).activation, Activation::GeluErf);
    assert_eq!(config(model("gptneox")).residual, Residual::Parallel);
    let sequential = model("gptneox").set("gptneox.use_parallel_residual", Value::Bool(false));
    assert_eq!(config(sequential).residual, Residual::Sequential);
    assert_eq!(config(model("phi2")).residual, Residual::ParallelOneNorm);
    assert!(why_not(&model("gptneox").without("gptneox.use_parallel_residual")).contains("no such key"));
}

#[test]
fn numbers_per_layer_count_when_they_are_all_the_same() {
    let same = model("llama")
        .set("llama.attention.head_count", numbers(&[3, 3, 3]))
        .set("llama.attention.head_count_kv", numbers(&[1, 1, 1]))
        .set("llama.feed_forward_length", numbers(&[14, 14, 14]));
    assert_eq!(config(same), config(model("llama")));
    for key in ["llama.attention.head_count", "llama.attention.head_count_kv", "llama.feed_forward_length"] {
        let message = why_not(&model("llama").set(key, numbers(&[1, 1, 3])));
        assert!(message.contains(&format!("{key} that differs from layer to layer")), "{message}");
        for wrong in [vec![], vec![3, 3], vec![3; 4]] {
            let message = why_not(&model("llama").set(key, numbers(&wrong)));
            assert!(message.contains(key), "{message}");
        }
    }
}

/// CVE-2024-8063, CVE-2024-12055: keys of the wrong type, zero, or not there.
#[test]
fn sizes_that_are_missing_zero_huge_or_of_another_type_are_refused() {
    for kind in ALL {
        let writer = model(kind);
        let prefix = if kind == "mixtral" { "llama" } else { kind };
        for name in ["block_count", "context_length", "embedding_length", "attention.head_count"] {
            let key = format!("{prefix}.{name}");
            assert!(why_not(&writer.clone().without(&key)).contains("no such key"), "{kind} {name}");
            assert!(why_not(&writer.clone().set(&key, Value::Str("3"))).contains(&key), "{kind} {name}");
            for bad in [0, u32::MAX, 1 << 30] {
                if name != "context_length" || bad == 0 {
                    why_not(&writer.clone().set(&key, Value::U32(bad)));
                }
            }
        }
        why_not(
            &writer
                .clone()
                .without(&format!("{prefix}.attention.layer_norm_rms_epsilon"))
                .without(&format!("{prefix}.attention.layer_norm_epsilon")),
        );
    }
    assert!(why_not(&model("llama").set("llama.block_count", Value::U32(60_000))).contains("blk.3."));
    assert!(
        why_not(&model("llama").set("llama.attention.value_length", Value::U32(4))).contains("values of 4")
    );
    let odd = model("llama").without("llama.attention.key_length");
    assert!(why_not(&odd).contains("a multiple of attention.head_count = 3, found 20"));
}

#[test]
fn files_of_another_kind_say_so() {
    let message = why_not(&model("llama").set("general.architecture", Value::Str("mamba\u{1b}")));
    assert!(
        message.contains(r#"architecture "mamba\u{1b}" is not supported; supported: llama, smollm3"#),
        "{message}"
    );
    assert!(why_not(&model("llama").without("general.architecture")).contains("no such key"));
    assert!(
        why_not(&model("llama").set("general.type", Value::Str("adapter")))
            .contains(r#"a file of type "adapter""#)
    );
    let vocabulary = Writer { tensors: Vec::new(), data: Vec::new(), ..model("llama") };
    assert!(why_not(&vocabulary).contains("a vocabulary alone cannot be run"));
}

#[test]
fn a_key_that_may_change_the_result_is_refused_and_one_that_does_not_is_passed() {
    for (name, value) in [
        ("rope.dimension_sections", numbers(&[1, 2, 3])),
        ("attention.layer_indices", Value::Bool(true)),
        ("logit_scale", Value::F32(0.0625)),
        ("residual_scale", Value::F32(0.22)),
        ("attention.causal", Value::Bool(false)),
        ("attention.clamp_kqv", Value::F32(8.0)),
        ("expert_shared_count", Value::U32(1)),
        ("expert_gating_func", Value::U32(2)),
        ("rope.scaling.yarn_ext_factor", Value::F32(0.5)),
    ] {
        let message = why_not(&model("llama").set(&format!("llama.{name}"), value));
        assert!(message.contains(&format!("key \"llama.{name}\" is not supported")), "{message}");
    }
    let passed = model("llama")
        .set("llama.logit_scale", Value::F32(1.0))
        .set("llama.attention.causal", Value::Bool(true))
        .set("llama.expert_count", Value::U32(0))
        .set("llama.expert_gating_func", Value::U32(1))
        .set("llama.expert_group_count", Value::U32(1))
        .set("llama.rope.scaling.finetuned", Value::Bool(true))
        .set("llama.vocab_size", Value::U32(11))
        .set("general.anything", Value::U32(1))
        .set("qwen2.logit_scale", Value::F32(2.0));
    assert_eq!(config(passed), config(model("llama")));
}

#[test]
fn heads_may_be_rotated_in_part_where_rows_were_not_moved() {
    let partial = config(model("phi2").set("phi2.rope.dimension_count", Value::U32(4)));
    let PositionConfig::Rope { dims, .. } = partial.position else { panic!() };
    assert_eq!(dims, Some(4));
    let whole = config(model("phi2").set("phi2.rope.dimension_count", Value::U32(6)));
    assert_eq!(whole, config(model("phi2")));
    for (kind, bad) in [("llama", 4), ("smollm3", 4), ("phi2", 8), ("phi2", 3), ("phi2", 0)] {
        why_not(&model(kind).set(&format!("{kind}.rope.dimension_count"), Value::U32(bad)));
    }
}

/// The configuration alone, of a model that says to have so many layers.
fn with_layers(kind: &str, layers: u32) -> ModelConfig {
    let writer = model(kind).set(&format!("{kind}.block_count"), Value::U32(layers));
    crate::source::gguf::config::read(&open(&writer.bytes()).unwrap()).unwrap().config
}

#[test]
fn smollm3_does_not_rotate_every_fourth_layer() {
    let PositionConfig::Rope { unrotated_layers, .. } = with_layers("smollm3", 9).position else { panic!() };
    assert_eq!(unrotated_layers, [3, 7]);
}

#[test]
fn the_largest_gemmas_scale_queries_by_hidden_over_heads() {
    // query_pre_attn_scalar of the 27B models; here 20 / 3 heads.
    let scale = Some(1.0 / 6f32.sqrt());
    assert_eq!(
        (with_layers("gemma2", 46).attention_scale, with_layers("gemma3", 62).attention_scale),
        (scale, scale)
    );
    assert_eq!(
        (with_layers("gemma2", 42).attention_scale, with_layers("gemma3", 48).attention_scale),
        (None, None)
    );
}

#[test]
fn rotary_scaling_by_keys() {
    let with = |kind: &'static str, factor: f32| {
        model("llama")
            .set("llama.rope.scaling.type", Value::Str(kind))
            .set("llama.rope.scaling.factor", Value::F32(factor))
    };
    assert_eq!(scaling(with("linear", 4.0)), Some(RopeScaling::Linear { factor: 4.0 }));
    assert_eq!(
        scaling(model("llama").set("llama.rope.scale_linear", Value::F32(2.0))),
        Some(RopeScaling::Linear { factor: 2.0 })
    );
    for nothing in [with("none", 4.0), with("linear", 1.0), with("linear", 0.0)] {
        assert_eq!(scaling(nothing), None);
    }
    let yarn = with("yarn", 4.0).set("llama.rope.scaling.original_context_length", Value::U32(8));
    let Some(RopeScaling::Yarn {
        factor,
        original_positions,
        beta_fast,
        beta_slow,
        attention_factor,
        truncate,
    }) = scaling(yarn.clone())
    else {
        panic!()
    };
    assert_eq!((factor, original_positions, beta_fast, beta_slow, truncate), (4.0, 8, 32.0, 1.0, true));
    assert!((attention_factor - 1.138_629_4).abs() < 1e-6, "{attention_factor}: 0.1 ln 4 + 1");
    let own = yarn.set("llama.rope.scaling.yarn_attn_factor", Value::F32(1.5));
    assert!(matches!(scaling(own), Some(RopeScaling::Yarn { attention_factor: 1.5, .. })));
    for (kind, factor) in [("longrope", 4.0), ("ntk", 2.0), ("linear", -1.0), ("linear", f32::NAN)] {
        why_not(&with(kind, factor));
    }
    assert!(
        why_not(&model("llama").set("llama.rope.scaling.attn_factor", Value::F32(1.2)))
            .contains("attn_factor")
    );
}

#[test]
fn rotary_scaling_by_tensors() {
    let freqs = model("llama").f32s("rope_freqs.weight", &[3], &[1.0, 2.0, 8.0]);
    assert_eq!(scaling(freqs.clone()), Some(RopeScaling::Factors { factors: vec![1.0, 2.0, 8.0] }));
    let long = model("phi3")
        .set("phi3.rope.scaling.original_context_length", Value::U32(8))
        .set("phi3.rope.scaling.attn_factor", Value::F32(1.25))
        .f32s("rope_factors_short.weight", &[3], &[1.0, 1.5, 2.0])
        .f32s("rope_factors_long.weight", &[3], &[1.0, 3.0, 9.0]);
    let expected = RopeScaling::LongRope {
        original_positions: 8,
        short_factors: vec![1.0, 1.5, 2.0],
        long_factors: vec![1.0, 3.0, 9.0],
        attention_factor: 1.25,
    };
    assert_eq!(scaling(long.clone()), Some(expected));
    why_not(&freqs.clone().set("llama.rope.scaling.factor", Value::F32(2.0)));
    why_not(&long.without_tensor("rope_factors_short.weight"));
    for (shape, values) in
        [(vec![2], vec![1.0; 2]), (vec![3, 1], vec![1.0; 3]), (vec![3], vec![1.0, 0.0, 2.0])]
    {
        why_not(&model("llama").f32s("rope_freqs.weight", &shape, &values));
    }
    why_not(&model("llama").tensor("rope_freqs.weight", &[3], 1, &[0; 6]));
}

#[test]
fn windows_have_the_pattern_of_the_architecture_or_of_the_file() {
    let window = |writer| config(writer).sliding_window;
    let of = |size, layers: &[u32]| Some(SlidingWindow { size, layers: layers.to_vec() });
    assert_eq!(window(model("gemma2")), of(4096, &[0, 2]));
    assert_eq!(window(model("gemma3")), of(8, &[0, 1, 2]));
    assert_eq!(
        window(model("llama").set("llama.attention.sliding_window", Value::U32(16))),
        of(16, &[0, 1, 2])
    );
    assert_eq!(window(model("phi3").set("phi3.attention.sliding_window", Value::U32(0))), None);
    let key = "gemma3.attention.sliding_window_pattern";
    let flags = Value::List([true, false, true].map(Value::Bool).to_vec());
    assert_eq!(window(model("gemma3").set(key, flags)), of(8, &[0, 2]));
    assert_eq!(window(model("gemma3").set(key, numbers(&[0, 1, 1]))), of(8, &[1, 2]));
    assert_eq!(window(model("gemma3").set(key, Value::U32(3))), of(8, &[0, 1]));
    assert_eq!(window(model("gemma3").set(key, Value::U32(1))), None);
    for bad in [numbers(&[1, 1]), Value::Str("x"), Value::f32s(&[1.0; 3])] {
        assert!(why_not(&model("gemma3").set(key, bad)).contains(key));
    }
    assert!(why_not(&model("qwen2").set("qwen2.attention.sliding_window", Value::U32(16))).contains("= 16"));
    assert_eq!(window(model("qwen2").set("qwen2.attention.sliding_window", Value::U32(32))), None);
}

#[test]
fn layers_with_a_window_have_a_base_of_their_own() {
    let sliding = |writer: Writer| match config(writer).position {
        PositionConfig::Rope { sliding_theta, .. } => sliding_theta,
        _ => panic!(),
    };
    let gemma3 = model("gemma3").set("gemma3.rope.freq_base", Value::F32(1e6));
    assert_eq!(sliding(gemma3.clone()), Some(1e4));
    assert_eq!(sliding(gemma3.clone().set("gemma3.rope.freq_base_swa", Value::F32(5e3))), Some(5e3));
    assert_eq!(sliding(gemma3.without("gemma3.attention.sliding_window")), None);
    assert_eq!(sliding(model("gemma2")), None);
    // OLMo 3: windows are not scaled.
    let olmo3 = model("olmo2")
        .set("olmo2.attention.sliding_window", Value::U32(8))
        .set("olmo2.rope.scaling.type", Value::Str("yarn"))
        .set("olmo2.rope.scaling.factor", Value::F32(8.0));
    assert_eq!(sliding(olmo3), Some(1e4));
}

#[test]
fn gemma_scales_and_caps() {
    let gemma2 = config(model("gemma2"));
    assert_eq!((gemma2.attention_softcap, gemma2.logit_softcap), (Some(50.0), Some(30.0)));
    assert_eq!((gemma2.embedding_scale, gemma2.attention_scale), (Some(20f32.sqrt()), None));
    let other = config(model("gemma2").set("gemma2.attn_logit_softcapping", Value::F32(0.0)));
    assert_eq!(other.attention_softcap, None);
    assert_eq!(config(model("gemma3")).logit_softcap, None);
    assert_eq!(
        config(model("gemma3").set("gemma3.attention.scale", Value::F32(0.5))).attention_scale,
        Some(0.5)
    );
}

#[test]
fn experts_come_with_their_numbers() {
    let experts = config(model("qwen3moe")).experts.unwrap();
    assert_eq!((experts.count, experts.used, experts.ffn, experts.normalize_weights), (4, 2, 10, true));
    assert!(config(model("llama")).experts.is_none());
    assert!(why_not(&model("qwen2").set("qwen2.expert_count", Value::U32(4))).contains("have no experts"));
    assert!(why_not(&model("qwen3moe").set("qwen3moe.expert_count", Value::U32(0))).contains("experts"));
    assert!(why_not(&model("mixtral").without("llama.expert_used_count")).contains("no such key"));
    for used in [0, 5] {
        why_not(&model("mixtral").set("llama.expert_used_count", Value::U32(used)));
    }
}

#[test]
fn what_the_converter_guesses_is_corrected_by_what_is_stored() {
    for kind in ["gpt2", "phi2", "bloom"] {
        let key = format!("{kind}.feed_forward_length");
        assert_eq!(config(model(kind).set(&key, Value::U32(80))).ffn, 14, "{kind}");
    }
    let bloom = model("bloom").set("bloom.context_length", Value::U32(20));
    assert_eq!(config(bloom).max_positions, 2048);
}

#[test]
fn tokens_that_start_and_end_a_text() {
    let key = |name: &str| format!("tokenizer.ggml.{name}_token_id");
    let writer = model("llama")
        .set(&key("bos"), Value::U32(1))
        .set(&key("eos"), Value::U32(2))
        .set(&key("eot"), Value::U32(5))
        .set(&key("eom"), Value::U32(2))
        .set(&key("padding"), Value::U32(u32::MAX));
    let found = config(writer.clone());
    assert_eq!((found.bos, found.stop_tokens, found.pad), (Some(1), vec![2, 5], None));
    for name in ["bos", "eos", "eot", "eom", "padding"] {
        let message = why_not(&writer.clone().set(&key(name), Value::U32(11)));
        assert!(message.contains("a token below 11, found 11"), "{message}");
    }
    let many = model("llama").set("tokenizer.ggml.tokens", Value::strs(&["x"; 12]));
    assert!(why_not(&many).contains("at most 11"));
}

#[test]
fn the_chat_template_comes_along() {
    let source = open_model(&model("llama").set("tokenizer.chat_template", Value::Str("{{ x }}"))).unwrap();
    assert_eq!(source.chat_template(), Some(&b"{{ x }}"[..]));
    assert!(open_model(&model("llama").set("tokenizer.chat_template", Value::U8(1))).is_err());
}
