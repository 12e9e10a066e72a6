//! The order of modules: which module may import which, as docs/architecture.md states it, held against the sources.
//!
//! | File | Duty |
//! |---|---|
//! | `tokens` | source text as words and signs |
//! | `source_file` | what a file declares, imports and mentions |
//! | `source_crate` | the files of a crate, and which of them takes what from which |
//! | `order` | the order as it is written down, and what runs against it |
//! | `of_this_repository` | the test that this is for |

mod of_this_repository;
mod order;
mod source_crate;
mod source_file;
mod tests;
mod tokens;
