//! What is in a model's file, for people and programs: in words, in tables, as JSON, and as a page. Nothing here knows a command
//! line: `qsf-inspect` and the page for browsers (`web/`) show the same.
//!
//! | Module | Duty |
//! |---|---|
//! | [`overview`], [`tensors`] | what is shown of a QSF file |
//! | [`source`] | what is shown of a GGUF file or a directory |
//! | [`report`] | a page about files, and a model card |
//! | [`json_document`] | what is the same in all JSON documents |
//! | [`table`] | tables in plain text |

pub mod json_document;
pub mod overview;
pub mod report;
pub mod source;
pub mod table;
pub mod tensors;
