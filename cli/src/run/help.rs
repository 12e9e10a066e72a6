//! How the help of `qsf-run` is arranged.

use super::args::RunArgs;
use crate::command_line::{Help, Program};

impl Program for RunArgs {
    const HELP: Help = Help {
        about: "Generates text with a QSF file, a GGUF file or a HuggingFace model",
        usage: "qsf-run [OPTIONS] MODEL -p TEXT",
        short: &[
            ("model", "QSF file, HuggingFace directory or GGUF file"),
            ("prompt", "Text to continue"),
            ("file", "File whose text to continue; - for stdin"),
            ("max_tokens", "Most tokens to generate; -1: to the end"),
            ("ctx_size", "Context in tokens"),
            ("prompts", "File with many prompts, one JSON object a line"),
            ("chat", "Answer the prompt in the model's chat template"),
            ("interactive", "Chat: answer what is typed"),
            ("temperature", "0: always the likeliest token [0.7]"),
            ("seed", "Seed of the random choices"),
            ("ram_budget", "Most memory, such as 200MB"),
            ("device", "cpu, gpu or auto"),
            ("threads", "Threads"),
            ("bench", "Measure the speed of MODEL"),
            ("json", "Print one JSON object"),
            ("verbose", "Print timings to stderr"),
            ("quiet", "Print no notes and no progress"),
        ],
        commands: &[],
        examples: "Examples:
  qsf-run model.qsf -p \"Once upon a time\" -n 64
  qsf-run model.qsf -i",
        groups: &[
            (
                "Prompt and output",
                &[
                    "prompt",
                    "file",
                    "prompt_ids",
                    "prompts",
                    "results",
                    "sequences",
                    "classify",
                    "label",
                    "attention",
                    "attention_layers",
                    "force",
                    "max_tokens",
                    "ctx_size",
                    "stop",
                    "ignore_eos",
                    "chat",
                    "interactive",
                    "system_prompt",
                    "date",
                    "json",
                    "verbose",
                    "quiet",
                ],
            ),
            (
                "Sampling",
                &[
                    "temperature",
                    "top_k",
                    "top_p",
                    "min_p",
                    "seed",
                    "repeat_penalty",
                    "presence_penalty",
                    "frequency_penalty",
                    "repeat_last_n",
                ],
            ),
            ("Adapters", &["lora", "no_lora"]),
            (
                "Memory",
                &["ram_budget", "memory_plan", "io", "huge_pages", "kv_type", "kv_window", "kv_policy"],
            ),
            ("Speed for quality", &["activations", "head", "quality", "early_exit"]),
            ("Tokens", &["tokenize", "no_bos", "no_parse_special"]),
            (
                "Measuring",
                &["bench", "pp", "tg", "depth", "repetitions", "cold", "kernel", "format", "system"],
            ),
            ("Machine", &["device", "threads", "pin"]),
            ("Other", &["untrusted", "completions", "man", "help", "version"]),
        ],
    };
}
