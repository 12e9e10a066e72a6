//! Model directories out, as transformers reads them: `config.json`, safetensors, tokenizer.
//!
//! | File | Duty |
//! |---|---|
//! | `fields` | a configuration as fields of `config.json` |
//! | `config_json` | `config.json` and `generation_config.json`, of the source or made |
//! | `companions` | tokenizer, chat template and what else stands beside the weights |
//! | `groups` | which matrices become groups of whole numbers |
//! | `stored` | a tensor as the files have it |
//! | `mlx` | what is otherwise for MLX: experts, and what `config.json` says |
//! | `quantization_config` | what `config.json` says of groups to all others |
//! | `shards` | which tensor is in which file |
//! | `layout` | all of it before anything is written |
//! | `writer` | the directory, as it is written |

mod companions;
mod config_json;
mod fields;
mod groups;
mod layout;
mod mlx;
mod quantization_config;
mod shards;
mod stored;
mod writer;

pub use companions::COMPANIONS;
pub(crate) use companions::check_companions;
pub(crate) use groups::{check_groups, plan_of_groups};
pub(crate) use layout::{
    bytes_beside_groups, bytes_described, check_model, directory_bytes, names_of_groups,
};
pub(crate) use writer::{HfDirectory, HfWriter};
