//! Architectures of 2024 and later, a file for each or for a family.

mod cohere;
mod deepseek2;
mod dense;
mod ernie4_5;
mod exaone4;
mod gemma;
mod gemma4;
mod glm4;
mod gpt_oss;
mod granite;
mod hunyuan;
mod layer_norms;
mod lfm2;
mod mistral3;
mod mixtures;
mod qwen35;
mod state_spaces;

pub(super) use cohere::{COHERE2, COMMAND_R};
pub(in crate::source::gguf) use deepseek2::scale_of_yarn;
pub(super) use deepseek2::{DEEPSEEK2, MINICPM3};
pub(super) use dense::{ARCEE, SEED_OSS};
pub(super) use ernie4_5::{ERNIE4_5, ERNIE4_5_MOE};
pub(super) use exaone4::EXAONE4;
pub(super) use gemma::GEMMA;
pub(super) use gemma4::GEMMA4;
pub(super) use glm4::{GLM4, GLM4_MOE};
pub(super) use gpt_oss::GPT_OSS;
pub(super) use granite::{GRANITE, GRANITE_HYBRID, GRANITE_MOE};
pub(super) use hunyuan::{HUNYUAN_DENSE, HUNYUAN_MOE};
pub(super) use layer_norms::{NEMOTRON, OLMO, STABLELM, STARCODER2};
pub(super) use lfm2::{LFM2, LFM2_MOE};
pub(super) use mistral3::MISTRAL3;
pub(super) use mixtures::{DOTS1, MINIMAX_M2, OLMOE, QWEN2_MOE};
pub(super) use qwen35::{QWEN3_NEXT, QWEN35, QWEN35_MOE};
pub(super) use state_spaces::{MAMBA2, NEMOTRON_H, NEMOTRON_H_MOE};
