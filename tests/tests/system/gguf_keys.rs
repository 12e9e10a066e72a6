//! Keys of GGUF files beside those of llama.cpp's own converter (`tests/fixtures/gguf`, made by `convert_hf_to_gguf.py`): equal, but for
//! a list of differences, of which each must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use qsf_runtime::gguf::GgufFile;
use qsf_tests::*;

/// Keys that differ in files of all models, or of those named: without the architecture in front.
const DIFFERENT: &[(&str, &[&str])] = &[
    // Where a file is from.
    ("general.quantized_by", ALL),
    ("qsf.options", ALL),
    ("qsf.sources", ALL),
    // The reference writes names of directories with a capital, and a type of floats for each file of these.
    ("general.name", ALL),
    ("general.file_type", ALL),
    // Said of a model without a tokenizer, which the reference has no files of.
    ("tokenizer.ggml.model", ALL),
    ("vocab_size", ALL),
    // Counts of weights of a mixture, rounded.
    ("general.size_label", &["gpt_oss_mxfp4"]),
    // Numbers of transformers that the reference does not look at: widths of feed-forwards, positions, layers.
    (
        "feed_forward_length",
        &[
            "gpt2",
            "phi",
            "gemma4_experts",
            "gemma4_keys_are_values",
            "qwen3_5_moe",
            "gpt_bigcode",
            "nemotron_h_moe",
            "falcon_groups",
        ],
    ),
    ("context_length", &["bloom", "granitemoehybrid", "nemotron_h", "nemotron_h_moe"]),
    ("full_attention_interval", &["qwen3_5", "qwen3_5_moe", "qwen3_next_experts"]),
    ("expert_shared_feed_forward_length", &["ernie4_5_moe"]),
    ("leading_dense_block_count", &["glm4_moe_lite"]),
    // Things that are so anyway, where the reference leaves them out: what readers take without the key.
    (
        "rope.freq_base",
        &["falcon", "falcon_groups", "gemma", "gpt_neox", "phi", "stablelm", "stablelm_parallel"],
    ),
    ("attention.head_count_kv", &["gemma4", "gemma4_experts", "gpt2", "gpt_neox"]),
    ("attention.sliding_window_pattern", &["cohere2"]),
    ("rope.dimension_count", &["nemotron_h", "nemotron_h_moe"]),
    ("attention.key_length", &["glm"]),
    ("attention.value_length", &["glm"]),
    ("expert_weights_scale", &["mimo_v2_flash"]),
    ("expert_weights_norm", &["deepseek_v2", "deepseek_v2_groups"]),
    ("expert_feed_forward_length", &["granitemoe", "granitemoehybrid", "granitemoeshared", "jamba", "olmoe"]),
    ("rope.scaling.finetuned", &["granite", "granitemoe", "granitemoeshared"]),
    ("rope.scaling.yarn_attn_factor", &["deepseek_v3", "ministral3", "mistral4"]),
    ("attention.temperature_scale", &["mistral4"]),
    ("rope.scaling.yarn_beta_fast", &["llama_yarn", "olmo3"]),
    ("rope.scaling.yarn_beta_slow", &["llama_yarn", "olmo3"]),
    ("rope.dimension_sections", &["qwen3_next_experts"]),
    // Computed in 32 bits there.
    ("activation_sparsity_scale", &["gemma3n"]),
    // Rounded to 16 bits there.
    ("xielu.eps", &["apertus"]),
    // Things that the reference forgets: sigmoid routers, limits and windows of the model.
    ("expert_gating_func", &["deepseek_v3", "dots1", "glm4_moe_lite", "minimax_m2", "nemotron_h_moe"]),
    ("attention.clamp_kqv", &["olmoe"]),
    ("attention.sliding_window", &["starcoder2"]),
    // Things that are so without the key.
    ("nextn_predict_layers", &["glm4_moe", "glm4_moe_plain"]),
    ("expert_group_count", &["glm4_moe_lite", "glm4_moe_plain", "mimo_v2_flash"]),
    ("expert_group_used_count", &["glm4_moe_lite", "glm4_moe_plain", "mimo_v2_flash"]),
    ("tokenizer.ggml.add_bos_token", &["glm", "phi"]),
];

const ALL: &[&str] = &[];

/// Models with numbers that files of their architecture have no key for: such a file would be another model. Of Kimi Linear, GGUF
/// files are read only.
const REFUSED: [&str; 12] = [
    "bamba",
    "falcon_mamba",
    "gemma2",
    "gemma3",
    "gpt_oss",
    "kimi_linear",
    "lfm2_moe",
    "llama4_text",
    "minicpm3",
    "mpt",
    "phimoe",
    "smollm3",
];

/// Types of GGUF values (the specification, `gguf_metadata_value_type`).
const F32: u32 = 6;

fn keys(path: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let file = GgufFile::open(path).unwrap();
    let architecture = format!("{}.", file.metadata.need_str("general.architecture").unwrap());
    let plain = |key: &str| key.strip_prefix(&architecture).unwrap_or(key).to_owned();
    file.metadata.stored().map(|(key, ty, bytes)| (plain(key), (ty, bytes.to_vec()))).collect()
}

fn same(a: &(u32, Vec<u8>), b: &(u32, Vec<u8>)) -> bool {
    let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    match (a, b) {
        // Computed in Python, in 64 bits.
        ((F32, a), (F32, b)) => (float(a) - float(b)).abs() <= 1e-6 * float(a).abs(),
        _ => a == b,
    }
}

#[test]
fn keys_are_those_of_the_reference_converter_but_for_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let (mut seen, mut refused, mut unknown) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gguf")).unwrap() {
        let theirs = entry.unwrap().path();
        let name = theirs.file_stem().unwrap().to_string_lossy().into_owned();
        let ours = dir.path().join(format!("{name}.gguf"));
        let made = program("qsf-convert").arg(golden(&name)).arg(&ours).args("--quant f32").run();
        if made.code == 4 {
            refused.insert(name);
            continue;
        }
        made.ok();
        let (theirs, ours) = (keys(&theirs), keys(&ours));
        for key in theirs.keys().chain(ours.keys()) {
            if theirs.get(key).zip(ours.get(key)).is_some_and(|(a, b)| same(a, b)) {
                continue;
            }
            let listed = DIFFERENT.iter().find(|(known, _)| known == key);
            let known = listed.is_some_and(|(_, models)| models.is_empty() || models.contains(&&name[..]));
            if !known {
                unknown.push(format!(
                    "{name}: {key}: theirs {:?}, ours {:?}",
                    theirs.get(key),
                    ours.get(key)
                ));
            }
            seen.insert((key.clone(), name.clone()));
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert_eq!(refused.iter().map(String::as_str).collect::<Vec<_>>(), REFUSED);
    for (key, models) in DIFFERENT {
        for model in *models {
            assert!(
                seen.contains(&((*key).to_owned(), (*model).to_owned())),
                "{key} of {model} is the same now"
            );
        }
    }
}
