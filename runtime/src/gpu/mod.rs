//! Models on a graphics processor, by wgpu: Vulkan, Metal and DX12.
//!
//! Weights of the file format stay in their types, in the panels of the file; types of GGUF become f32. A step, of a prompt or of one token, is one compute pass; what comes
//! back are the logits that were asked for.
//!
//! | File | Duty |
//! |---|---|
//! | `device` | which adapter, and what it can do |
//! | `wgsl` | the text of the kernels |
//! | `kernels` | kernels with their pipelines, made when they are first needed |
//! | `panels`, `weights` | matrices in buffers |
//! | `parts` | matrices whose rows are in parts of several types, and the head |
//! | `part_order` | values of rows in the order of the parts |
//! | `linears`, `mlp` | matrices with their biases and adapters, and norms; feed-forwards |
//! | `room` | whether a model fits |
//! | `model`, `attention_weights`, `mixer`, `experts` | a model in buffers; attention, recurrent mixers, mixtures of experts |
//! | `latent` | attention by way of latents, weights and buffers |
//! | `streams` | residual streams beside each other, weights and buffers |
//! | `embedding`, `host_rows` | where the token embedding is; tables whose rows the processor decodes |
//! | `per_layer` | what layers get of a token besides the residual stream, weights and buffers |
//! | `state`, `cache`, `input_rows` | what changes while it runs; keys and values; rows that matrices read |
//! | `expert_room` | sizes of what mixtures need |
//! | `mixer_buffers`, `recurrent_state` | the same of recurrent mixers: values of a step, and what is kept of tokens |
//! | `step` | what is recorded for a step |
//! | `dispatch` | hands commands over, and reads what comes back |
//! | `probe` | whether matrix units compute what they should |
//! | `likeliest` | the tokens that a sampler can choose |
//! | `times` | where the time of a step goes |
//! | `measure` | single kernels without a model |
//! | `decoder` | runs steps |
//! | `texts` | every kernel, for compilers of other systems |

mod attention_weights;
mod cache;
mod decoder;
mod device;
mod dispatch;
mod embedding;
mod expert_room;
mod experts;
mod host_rows;
mod input_rows;
mod kernels;
mod latent;
mod likeliest;
mod linears;
mod measure;
mod mixer;
mod mixer_buffers;
mod mlp;
mod model;
mod panels;
mod part_order;
mod parts;
mod per_layer;
mod probe;
mod recurrent_state;
mod room;
mod state;
mod step;
mod streams;
#[cfg(test)]
mod tests;
mod texts;
mod times;
mod weights;
mod wgsl;

pub use decoder::GpuDecoder;
pub use device::{AdapterSummary, Gpu, adapters};
pub use measure::{GpuKernelBench, GpuKernelRow};
pub use room::Room;
pub use state::GpuState;
pub use texts::{KernelText, kernel_texts};
