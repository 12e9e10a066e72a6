#!/usr/bin/env python3
"""Compares perplexities of models with random weights: llama.cpp on files of its own converter, and ours on the same files.

    python3 scripts/perplexity_with_llama_cpp.py LLAMA_CPP_FOLDER --llama-cpp ~/llama.cpp/build/bin --qsf target/release

A model is a case of scripts/make_golden.py, four times as wide, with the tokenizer of demo-1m and 1024 positions. llama.cpp's
converter writes it as F32, F16 and Q8_0 file (rows that are no multiple of 32 stay F16 there). llama-perplexity and qsf-eval
read each of these, and qsf-eval also the directory. The text is cli/data/demo.txt, 8 chunks of 512 tokens. llama.cpp rounds
activations to the type of the weights; ours are in 32 bits, as are keys and values of both.

Prints a Markdown table of the differences in percent, and --json FILE also writes the figures. The exit code is 1 where one is
above --tolerance. Needs what the two scripts need that it imports.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

import torch
import transformers

import convert_with_llama_cpp as converter
import make_golden

SCALE, POSITIONS, TYPES = 4, 1024, ["f32", "f16", "q8_0"]
# A power of two, so that values stay those of bf16.
HEAD = 0.25
# Widths and settings that llama.cpp does not take, each as it takes them.
KNOWN_WIDTHS = {
    "cohere": {"use_qk_norm": False},
    "deepseek_v2": {"q_lora_rank": 24 * SCALE},
    "dots1": {"num_key_value_heads": 4},
    "ernie4_5": {"use_bias": False},
    "ernie4_5_moe": {"intermediate_size": 80 * SCALE},
    "exaone4": {"head_dim": 10 * SCALE},
    "gemma3n": {"vocab_size_per_layer_input": 2048, "hidden_size_per_layer_input": 256, "laurel_rank": 64},
    "glm": {"head_dim": 10 * SCALE},
    "gpt2": {"n_inner": 4 * 36 * SCALE},
    "gpt_bigcode": {"n_inner": 4 * 36 * SCALE},
    "kimi_linear": {"linear_num_heads": 4},
    "qwen3_5": {"linear_value_head_dim": 10 * SCALE},
    "qwen3_5_moe": {"linear_value_head_dim": 10 * SCALE},
    "qwen3_next_experts": {"linear_value_head_dim": 10 * SCALE},
}
# Cases without what llama.cpp computes otherwise than transformers: where these agree, it is that and nothing else.
WITHOUT = {
    "bamba": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}},
    # Without this its converter names no score, and llama.cpp takes a softmax.
    "deepseek_v3": {"scoring_func": "sigmoid"},
    "falcon_h1_norm": {"attention_bias": False},
    "glm4_moe_lite": {"scoring_func": "sigmoid"},
    # It rounds the limits of YaRN, whatever `truncate` says.
    "gpt_oss": {"rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}},
    "mimo_v2_flash": {"sliding_window": POSITIONS},
}
HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "../cli/data/demo-1m/tokenizer.json")
# Asked again where llama-perplexity ends before its log is written, as it does on busy machines.
ATTEMPTS = 12


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", metavar="LLAMA_CPP_FOLDER", help="with convert_hf_to_gguf.py")
    parser.add_argument("--only", metavar="NAMES", help="comma-separated cases (those that llama.cpp converts)")
    parser.add_argument("--llama-cpp", required=True, metavar="FOLDER", help="of llama-perplexity")
    parser.add_argument("--qsf", default="target/release", metavar="FOLDER", help="of qsf-eval (target/release)")
    parser.add_argument("--text", default=os.path.join(HERE, "../cli/data/demo.txt"), metavar="FILE")
    parser.add_argument("--ctx", type=int, default=512, metavar="N", help="tokens of a chunk (512)")
    parser.add_argument("--chunks", type=int, default=8, metavar="N", help="chunks (8)")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--tolerance", type=float, default=0.5, metavar="PERCENT", help="of perplexity (0.5)")
    parser.add_argument("--folder", metavar="FOLDER", help="keep models and files there")
    parser.add_argument("--json", metavar="FILE", help="also write all figures")
    return parser.parse_args()


def vocabulary():
    """The tokens of demo-1m by number, those that are special, and the merges."""
    with open(TOKENIZER, encoding="utf-8") as file:
        tokenizer = json.load(file)
    by_id = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    by_id.update(special)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return [by_id[i] for i in range(len(by_id))], set(special), merges


def with_tokenizer(tokens, special, merges):
    """Has every class of the converter write this vocabulary."""
    import gguf
    from conversion import base

    def set_vocab(self):
        kinds = [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))]
        self.gguf_writer.add_tokenizer_model("gpt2")
        self.gguf_writer.add_tokenizer_pre("gpt-2")
        self.gguf_writer.add_token_list(tokens)
        self.gguf_writer.add_token_types(kinds)
        self.gguf_writer.add_token_merges(merges)
        self.gguf_writer.add_bos_token_id(0)
        self.gguf_writer.add_eos_token_id(0)
        self.gguf_writer.add_add_bos_token(False)
    for cls in converter.subclasses(base.TextModel):
        cls.set_vocab = set_vocab


def longer(name, fields):
    """The same configuration for texts of so many tokens, with widths that llama.cpp takes."""
    sizes = {key: POSITIONS for key in ["max_position_embeddings", "n_positions", "max_seq_len"] if key in fields}
    return {**fields, **sizes, **KNOWN_WIDTHS.get(name, {})}


def with_dense_layers(rename):
    """Has the converter see how many of the first layers have no experts, where transformers only has a list of them."""
    def under_known_names(config):
        if config["model_type"] == "glm4_moe_lite":
            config["first_k_dense_replace"] = (config["mlp_layer_types"] + ["sparse"]).index("sparse")
        rename(config)
    return under_known_names


def with_small_head(randomize):
    """Weights whose logits lie closer together: perplexities near the number of tokens, and not far above."""

    def randomized(model, generator):
        randomize(model, generator)
        with torch.no_grad():
            model.get_output_embeddings().weight.mul_(HEAD)
    return randomized


def run(command):
    found = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = (part.decode("utf-8", "replace") for part in (found.stdout, found.stderr))
    if found.returncode != 0:
        reason = re.search(r"error loading model: (.*)|GGML_ASSERT(.*)", err)
        reason = (reason.group(1) or reason.group()) if reason else (err or out).strip()[-160:]
        raise RuntimeError(f"{os.path.basename(command[0])}: {reason}")
    return out, err


def here(args, model):
    out, _ = run([os.path.join(args.qsf, "qsf-eval"), model, "--file", args.text, "--ctx", str(args.ctx), "--chunks",
                  str(args.chunks), "--kv-type", "f32", "--activations", "f32", "-t", str(args.threads), "--json"])
    return json.loads(out)["ppl"]


def there(args, file):
    for _ in range(ATTEMPTS):
        out, err = run([os.path.join(args.llama_cpp, "llama-perplexity"), "-m", file, "-f", args.text, "-c", str(args.ctx),
                        "-b", str(args.ctx), "--chunks", str(args.chunks), "--no-warmup", "-ngl", "0", "-fa", "off",
                        "-ctk", "f32", "-ctv", "f32", "-t", str(args.threads)])
        found = re.search(rf"(?:\[{args.chunks}\]|Final estimate: PPL = )([0-9]+\.[0-9]+)", out + err)
        if found:
            return float(found.group(1))
    raise RuntimeError(f"llama-perplexity names no perplexity: {(out + err).strip()[-300:]}")


def first_line(error):
    return " ".join(str(error).split())[:160]


def measured(args, folder, case, number, changes):
    name, config_class, fields, _ = case
    model = os.path.join(folder, name)
    make_golden.make(model, config_class, {**longer(name, fields), **changes}, False, 1000 + number)
    shutil.copy(TOKENIZER, model)
    row = {"model": name, "changes": changes, "directory": here(args, model)}
    for kind in TYPES:
        file = os.path.join(folder, f"{name}-{kind}.gguf")
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                converter.convert(os.path.abspath(args.source), model, file, kind)
        except (Exception, SystemExit) as error:
            row[kind] = {"error": f"not converted: {first_line(error)}"}
            break
        try:
            row[kind] = {"here": here(args, file)}
            row[kind]["there"] = there(args, file)
        except RuntimeError as error:
            row[kind] = {**row.get(kind, {}), "error": first_line(error)}
    return row


def cell(row, kind):
    found = row.get(kind, {})
    if "error" in found:
        return found["error"]
    return f"{(found['here'] / found['there'] - 1) * 100:+.3f} %" if found else ""


def is_off(row, tolerance):
    return any("error" in row.get(kind, {"error": ""}) or
               abs(row[kind]["here"] / row[kind]["there"] - 1) * 100 > tolerance for kind in TYPES)


def main():
    args = parse_arguments()
    logging.disable(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    converter.prepare(os.path.abspath(args.source))
    tokens, special, merges = vocabulary()
    with_tokenizer(tokens, special, merges)
    make_golden.VOCAB = len(tokens)
    converter.under_known_names = with_dense_layers(converter.under_known_names)
    make_golden.randomize = with_small_head(make_golden.randomize)
    cases = [(case, i) for i, case in enumerate(make_golden.cases(SCALE))]
    cases += [(case, 100 + zlib.crc32(case[0].encode()) % 900) for case in make_golden.later_cases(SCALE)]
    names, rows = args.only.split(",") if args.only else converter.NAMES, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(args.folder or scratch)
        os.makedirs(folder, exist_ok=True)
        print("| Model | Directory | " + " | ".join(kind.upper() for kind in TYPES) + " |\n|---|---|" + "---|" * len(TYPES))
        cases = [(case, number) for case, number in cases if case[0] in names]
        for case, number in sorted(cases, key=lambda found: names.index(found[0][0])):
            for changes in [{}, *([WITHOUT[case[0]]] if case[0] in WITHOUT else [])]:
                try:
                    row = measured(args, folder, case, number, changes)
                except Exception as error:
                    row = {"model": case[0], "changes": changes, TYPES[0]: {"error": first_line(error)}}
                rows.append(row)
                whole = f"{row['directory']:.4f}" if "directory" in row else ""
                name = case[0] + (f", {', '.join(changes)} changed" if changes else "")
                print(f"| {name} | {whole} | " + " | ".join(cell(row, kind) for kind in TYPES) + " |", flush=True)
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
    return 1 if any(is_off(row, args.tolerance) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
