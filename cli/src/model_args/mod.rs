//! Flags that the programs which run models share, and what they choose.
//!
//! | File | Duty |
//! |---|---|
//! | `activations` | what weights are multiplied with |
//! | `device` | the processor or a graphics processor |
//! | `huge_pages` | pages of 2 MiB for weights |
//! | `kv` | the key/value cache |
//! | `lora` | adapters |
//! | `shortcuts` | what of the model is left out: `head` (vocabulary clusters), `layers` (layers and early exits) |
//! | `stream` | memory: opening and loading a model with or without a budget |

mod activations;
mod device;
mod head;
mod huge_pages;
mod kv;
mod layers;
mod lora;
mod shortcuts;
mod stream;

pub use activations::{ActivationArgs, DefaultActivations};
#[cfg(not(feature = "gpu"))]
pub use device::built_without;
pub use device::{Device, DeviceArgs, Runs, adapters_json, adapters_text, only_on_cpu};
pub use head::{HeadArgs, HeadChoice, HeadReport};
pub use huge_pages::HugePageArgs;
pub use kv::KvArgs;
pub use layers::{LayerArgs, LayerReport, Share};
pub use lora::{LoraArgs, LoraReport, ScaledPath};
pub use shortcuts::{ShortcutArgs, ShortcutReport};
pub use stream::{IoArg, OpenModel, StreamArgs, Streaming};
