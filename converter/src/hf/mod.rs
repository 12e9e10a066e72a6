//! Model directories out, as transformers reads them: `config.json`, safetensors, tokenizer.
//!
//! | File | Duty |
//! |---|---|
//! | `number` | numbers with no more digits than they need |
//! | `rope_fields` | rotary positions as fields of a configuration |
//! | `config_fields` | a configuration as fields of `config.json` |
//! | `config_json` | `config.json` and `generation_config.json`, of the source or made |
//! | `companions` | tokenizer, chat template and what else stands beside the weights |
//! | `groups` | which matrices become groups of whole numbers |
//! | `stored` | a tensor as the files have it |
//! | `quantization_config` | what `config.json` says of groups |
//! | `shards` | which tensor is in which file |
//! | `layout` | all of it before anything is written |
//! | `writer` | the directory, as it is written |

mod companions;
mod config_fields;
mod config_json;
mod groups;
mod layout;
mod number;
mod quantization_config;
mod rope_fields;
mod shards;
mod stored;
mod writer;

pub(crate) use groups::{check_groups, plan_of_groups};
pub(crate) use layout::{check_model, directory_bytes};
pub(crate) use writer::{HfDirectory, HfWriter};
