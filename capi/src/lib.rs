//! QSF for C. `include/qsf.h` is made of this crate; the test `header` holds one to the other.
//!
//! | File | Duty |
//! |---|---|
//! | `status` | error codes, the text of the last error, and the border that no panic crosses |
//! | `arguments` | what pointers of C mean |
//! | `options` | options by name |
//! | `files` | verify, inspect and evaluate files |
//! | `model` | open a model; text to tokens and back |
//! | `text` | generate text, with a callback |
//! | `session` | tokens in, logits out |

// What a pointer must be is said once, in the header: valid, or NULL where that is allowed.
#![allow(clippy::missing_safety_doc, reason = "under \"Pointers\" in the header")]

mod arguments;
mod files;
mod model;
mod options;
mod session;
mod status;
mod text;
