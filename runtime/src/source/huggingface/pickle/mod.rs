//! Checkpoints of `torch.save` (`pytorch_model.bin`), read without running anything in them.
//!
//! Such a file is a zip archive of stored entries (`torch/serialization.py`, `caffe2/serialize/inline_container.cc`):
//! `NAME/data.pkl`, a pickle that says which tensors there are, and `NAME/data/KEY`, the values of each storage. A
//! pickle is a program, and Python's own reader lets it call any function. Here it runs on a machine that knows a few
//! names and makes nothing but a list of tensors, whose values then stay where they are in the file.
//!
//! | File | Duty |
//! |---|---|
//! | `checkpoint` | the archive as a whole |
//! | `zip` | its entries |
//! | `opcodes`, `globals`, `unpickle` | the machine that runs a pickle, and the names that it knows |
//! | `state_dict` | the tensors that come out |
//! | `advice` | what to do about a file that is not read |

mod advice;
mod checkpoint;
mod globals;
mod opcodes;
mod state_dict;
mod unpickle;
mod zip;

#[cfg(test)]
pub(super) mod tests;

pub(super) use checkpoint::read;
