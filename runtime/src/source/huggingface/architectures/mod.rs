//! The architectures that can be read, one file each: what `config.json` means and what the tensors are called.
//!
//! A new one is a file with a `const` of [`Architecture`] and a line in [`ALL`].

mod apertus;
mod arcee;
mod architecture;
mod bamba;
mod bitnet;
mod bloom;
mod codegen;
mod cohere;
mod deepseek;
mod dots1;
mod ernie4_5;
mod ernie4_5_moe;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gated_delta;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm;
mod glm4;
mod glm4_moe;
mod gpt2;
mod gpt_bigcode;
mod gpt_neox;
mod gpt_oss;
mod gptj;
mod granite;
mod granitemoe;
mod granitemoehybrid;
mod helium;
mod hunyuan;
mod hyperclovax;
mod internlm3;
mod jamba;
mod kimi_linear;
mod latent;
mod lfm2;
mod lfm2_moe;
mod llama;
mod llama4;
mod mamba;
mod mamba1;
mod mamba2;
mod mimo_v2_flash;
mod minicpm3;
mod minimax_m2;
mod ministral;
mod ministral3;
mod mistral;
mod mixtral;
mod mixtures;
mod mpt;
mod names;
mod nemotron;
mod nemotron_h;
mod olmo;
mod olmo2;
mod olmo3;
mod olmo_hybrid;
mod olmoe;
mod opt;
mod phi;
mod phi3;
mod phimoe;
mod qwen2;
mod qwen2_moe;
mod qwen3;
mod qwen3_5;
mod qwen3_5_moe;
mod qwen3_moe;
mod qwen3_next;
mod reader;
mod rope;
mod seed_oss;
mod smollm3;
mod solar_open;
mod stablelm;
mod starcoder2;
mod windows;

pub(super) use architecture::{Architecture, Reader, SourceConfig};

/// Every architecture.
pub(super) const ALL: &[Architecture] = &[
    llama::LLAMA,
    gpt2::GPT2,
    mistral::MISTRAL,
    mixtral::MIXTRAL,
    phi::PHI,
    phi3::PHI3,
    qwen2::QWEN2,
    qwen3::QWEN3,
    qwen3_moe::QWEN3_MOE,
    qwen3_next::QWEN3_NEXT,
    qwen3_5::QWEN3_5,
    qwen3_5_moe::QWEN3_5_MOE,
    lfm2::LFM2,
    lfm2_moe::LFM2_MOE,
    bamba::BAMBA,
    falcon_h1::FALCON_H1,
    mamba2::MAMBA2,
    mamba1::MAMBA,
    mamba1::FALCON_MAMBA,
    jamba::JAMBA,
    nemotron_h::NEMOTRON_H,
    gemma2::GEMMA2,
    gemma3::GEMMA3,
    gemma3n::GEMMA3N,
    gemma4::GEMMA4,
    smollm3::SMOLLM3,
    olmo2::OLMO2,
    gpt_neox::GPT_NEOX,
    opt::OPT,
    bloom::BLOOM,
    gemma::GEMMA,
    qwen2_moe::QWEN2_MOE,
    olmo::OLMO,
    olmo3::OLMO3,
    olmo_hybrid::OLMO_HYBRID,
    olmoe::OLMOE,
    granite::GRANITE,
    granitemoe::GRANITE_MOE,
    granitemoe::GRANITE_MOE_SHARED,
    granitemoehybrid::GRANITE_MOE_HYBRID,
    gptj::GPTJ,
    mpt::MPT,
    gpt_bigcode::GPT_BIGCODE,
    glm::GLM,
    glm4::GLM4,
    glm4_moe::GLM4_MOE,
    cohere::COHERE,
    cohere::COHERE2,
    ernie4_5::ERNIE4_5,
    ernie4_5_moe::ERNIE4_5_MOE,
    seed_oss::SEED_OSS,
    exaone4::EXAONE4,
    starcoder2::STARCODER2,
    stablelm::STABLELM,
    ministral::MINISTRAL,
    ministral3::MINISTRAL3,
    gpt_oss::GPT_OSS,
    arcee::ARCEE,
    nemotron::NEMOTRON,
    helium::HELIUM,
    hunyuan::HUNYUAN_DENSE,
    hunyuan::HUNYUAN_MOE,
    dots1::DOTS1,
    solar_open::SOLAR_OPEN,
    apertus::APERTUS,
    minimax_m2::MINIMAX_M2,
    mimo_v2_flash::MIMO_V2_FLASH,
    deepseek::DEEPSEEK_V2,
    deepseek::DEEPSEEK_V3,
    deepseek::GLM4_MOE_LITE,
    deepseek::MISTRAL4,
    minicpm3::MINICPM3,
    llama4::LLAMA4,
    falcon::FALCON,
    bitnet::BITNET,
    phimoe::PHIMOE,
    codegen::CODEGEN,
    internlm3::INTERNLM3,
    kimi_linear::KIMI_LINEAR,
    hyperclovax::HYPERCLOVAX,
];

/// The architecture that a `model_type` means.
pub(super) fn of_model_type(model_type: &str) -> Option<&'static Architecture> {
    ALL.iter().find(|architecture| architecture.model_types.contains(&model_type))
}

/// What to say when a model is of no known architecture.
pub(super) fn supported() -> String {
    let names: Vec<&str> = ALL.iter().map(Architecture::name).collect();
    format!("supported model types: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_architecture_has_an_embedding_and_types_of_its_own() {
        let mut types = HashSet::new();
        for architecture in ALL {
            assert!(architecture.embedding().ends_with(".weight"), "{}", architecture.name());
            for model_type in architecture.model_types {
                assert!(types.insert(model_type), "{model_type} twice");
                assert_eq!(of_model_type(model_type).map(Architecture::name), Some(architecture.name()));
            }
        }
        assert!(of_model_type("rwkv").is_none());
    }

    #[test]
    fn every_rule_names_at_least_one_kind_and_no_name_is_there_twice_for_the_same() {
        for architecture in ALL {
            let mut names = HashSet::new();
            for rule in architecture.table.rules {
                assert!(!rule.kinds.is_empty(), "{}", rule.name);
                for kind in rule.kinds {
                    assert!(names.insert((rule.name, kind)), "{}: {} twice", architecture.name(), rule.name);
                    assert_eq!(kind.is_per_layer(), rule.name.contains("{}"), "{}: {kind}", rule.name);
                    assert_eq!(kind.is_matrix(), rule.kinds[0].is_matrix(), "{}: {kind}", rule.name);
                }
            }
        }
    }
}
