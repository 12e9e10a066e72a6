//! How the help of `qsf-eval` is arranged.

use super::args::EvalArgs;
use crate::command_line::{Help, Program};

impl Program for EvalArgs {
    const HELP: Help = Help {
        about: "Measures perplexity of a model, its distance from a base model, and tasks",
        usage: "qsf-eval [OPTIONS] MODEL -f TEXT",
        short: &[
            ("model", "QSF file, HuggingFace directory or GGUF file"),
            ("file", "Text to evaluate on; - for stdin"),
            ("task", "hellaswag, winogrande, arc, piqa, mmlu, ..."),
            ("task_file", "Items of the task: JSONL"),
            ("base", "Model to compare with"),
            ("ctx_size", "Tokens per chunk [512]"),
            ("chunks", "Chunks to evaluate [all]"),
            ("kv_type", "Type of the key/value cache"),
            ("lora", "Adapter to add: PEFT directory or GGUF file"),
            ("ram_budget", "Most memory, such as 200MB"),
            ("device", "cpu, gpu or auto"),
            ("threads", "Threads"),
            ("json", "Print one JSON object"),
            ("quiet", "Print no notes and no progress"),
        ],
        commands: &[],
        examples: "Examples:
  qsf-eval model.qsf -f wiki.test.raw
  qsf-eval model.qsf -f text.txt --base ./model-dir --chunks 60",
        groups: &[
            (
                "What is measured",
                &[
                    "file",
                    "base",
                    "save_base",
                    "ctx_size",
                    "chunks",
                    "golden",
                    "store",
                    "json",
                    "quiet",
                    "verbose",
                ],
            ),
            ("Tasks", &["task", "task_file", "few_shot", "few_shot_file", "limit", "task_out"]),
            ("Parts on several machines", &["part", "part_out", "force", "join"]),
            ("Adapters", &["lora", "no_lora"]),
            ("Memory", &["ram_budget", "memory_plan", "io", "kv_type", "kv_window", "kv_policy"]),
            ("Speed for quality", &["activations", "head", "quality", "early_exit"]),
            ("Machine", &["device", "threads", "pin"]),
            ("Other", &["untrusted", "completions", "man", "help", "version"]),
        ],
    };
}
