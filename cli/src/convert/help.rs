//! How the help of `qsf-convert` is arranged.

use super::args::ConvertArgs;
use crate::command_line::{Help, Program};

impl Program for ConvertArgs {
    const HELP: Help = Help {
        about: "Converts a HuggingFace or GGUF model into one QSF or GGUF file",
        usage: "qsf-convert [OPTIONS] MODEL [OUT]",
        short: &[
            ("model", "HuggingFace directory, GGUF file, QSF file or org/name"),
            ("out", "File to write: OUT.qsf or OUT.gguf"),
            ("quant", "Type, such as 4bit, or Q4_K_M of GGUF files"),
            ("target_size", "Choose the types for this size, such as 24MB"),
            ("target_bpw", "Choose the types for so many bits per weight"),
            ("calibration", "Text to fit the weights to"),
            ("eval", "Text to compare the file with MODEL on"),
            ("dry_run", "Predict size, time and memory, and stop"),
            ("ram", "Most memory, such as 8GB"),
            ("force", "Replace OUT if it exists"),
            ("threads", "Threads"),
            ("batch", "Do all conversions that a file lists"),
            ("demo", "Convert a built-in model, and compare types"),
            ("json", "Print one JSON object"),
            ("quiet", "Print no notes and no progress"),
        ],
        commands: &[],
        examples: "Examples:
  qsf-convert ./Llama-3.2-1B llama.qsf --quant 4bit
  qsf-convert ./gpt2 small.qsf --target-size 70MB --calibration text.txt",
        groups: &[
            (
                "Output",
                &[
                    "to",
                    "dtype",
                    "shard_size",
                    "split_size",
                    "force",
                    "dry_run",
                    "compress",
                    "layout",
                    "json",
                    "quiet",
                    "verbose",
                    "no_table",
                ],
            ),
            ("Adapters", &["merge_lora", "embed_lora"]),
            ("Types", &["quant", "tensor_type", "block_size", "outliers", "min_cosine", "allow_requantize"]),
            ("Types for a size", &["target_size", "target_bpw", "gguf_types", "effort", "plan", "save_plan"]),
            (
                "Calibration",
                &["calibration", "calibration_tokens", "chat_template", "imatrix", "clusters", "early_exit"],
            ),
            (
                "Statistics",
                &["stats_in", "stats_out", "stats_only", "stats_part", "merge_stats", "show_stats"],
            ),
            (
                "Proof",
                &["eval", "eval_chunks", "max_kld", "max_ppl_increase", "max_size", "skip_tokenizer_check"],
            ),
            ("Batch", &["batch", "out_dir", "jobs", "shard", "retry", "fail_fast"]),
            ("HuggingFace hub", &["revision", "upload", "private"]),
            ("Demo", &["demo", "demo_dir"]),
            ("Machine", &["ram", "threads", "pin"]),
            ("Other", &["untrusted", "completions", "man", "help", "version"]),
        ],
    };
}
