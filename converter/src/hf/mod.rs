//! Model directories out, as transformers reads them: `config.json`, safetensors, tokenizer.
//!
//! | File | Duty |
//! |---|---|
//! | `number` | numbers with no more digits than they need |
//! | `rope_fields` | rotary positions as fields of a configuration |
//! | `config_fields` | a configuration as fields of `config.json` |
//! | `config_json` | `config.json` and `generation_config.json`, of the source or made |
//! | `companions` | tokenizer, chat template and what else stands beside the weights |
//! | `shards` | which tensor is in which file |
//! | `layout` | all of it before anything is written |
//! | `writer` | the directory, as it is written |

mod companions;
mod config_fields;
mod config_json;
mod layout;
mod number;
mod rope_fields;
mod shards;
mod writer;

pub(crate) use layout::{check_model, directory_bytes};
pub(crate) use writer::{HfDirectory, HfWriter};
