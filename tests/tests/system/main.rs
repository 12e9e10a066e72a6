//! The programs from outside, as their users call them. One program for all of it, since each that is linked costs seconds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

// What the project is for.
mod end_to_end;
mod promised_figures;
mod reference;

// Models come in.
mod architectures;
mod attention;
mod bad_input;
mod bad_requests;
mod difference;
mod mistakes;
mod mlx_out;
mod not_numbers;
mod number_types;
mod random_models;
mod real_models;
mod real_tokenizers;
mod reference_configurations;
mod texts;
mod tokenizers;
mod untrusted;

// Files come out.
mod batch;
mod batch_lists;
mod batch_memory;
mod budgets;
mod calibration;
mod conformance;
mod damage;
mod determinism;
mod foreseen;
mod gguf_keys;
mod gguf_out;
mod gguf_tokenizers;
mod groups_out;
mod hf_out;
mod layouts;
mod long_texts;
mod min_cosine;
mod mutations;
mod outliers;
mod own_files;
mod parts;
mod plans;
mod saved_bases;
mod stored_evaluations;
mod targets;
mod tasks;

// Models run.
mod bench;
mod chat;
mod classify;
mod clusters;
mod early_exit;
mod huge_pages;
mod imatrix;
mod interactive;
mod kv_cache;
mod layers;
mod lora;
mod prompts;
mod streaming;

// What is shown.
mod json_documents;
mod report;
mod row_parts;
mod self_text;

// The system around them.
#[cfg(target_os = "linux")]
mod hostile_files;
#[cfg(target_os = "linux")]
mod hostile_json;
#[cfg(target_os = "linux")]
mod hostile_templates;
#[cfg(unix)]
mod interrupts;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(unix)]
mod side_files;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod split_gguf;
mod stacks;
