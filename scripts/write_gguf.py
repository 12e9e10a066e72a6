#!/usr/bin/env python3
"""Writes a LLaMA-shaped HuggingFace directory as a GGUF file in f16, f32 or bf16, with the `gguf` package.

    python3 scripts/write_gguf.py MODEL_DIR OUT.gguf [--type f16] [--pre gpt-2]

For tests of the GGUF reader: an independent writer, which llama.cpp's tools take (llama-quantize, llama-perplexity). Rows of
query and key projections are reordered to neighbouring pairs, as llama.cpp's own converter does. Needs gguf, numpy and
safetensors; the tokenizer must be byte-level BPE.
"""

import argparse
import json
import os

import gguf
import numpy as np
from safetensors import safe_open

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in whole:
        return whole[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def pairs(weight, heads):
    """Rows of each head from halves to neighbouring pairs."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def tensors(folder):
    files = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors") and name.startswith("model"))
    for file in files:
        with safe_open(os.path.join(folder, file), "np") as shard:
            for name in shard.keys():
                yield name, shard.get_tensor(name)


def add_tokenizer(writer, folder, pre, vocab_size):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    by_id = {id: token for token, id in tokenizer["model"]["vocab"].items()}
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    by_id.update(special)
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(vocab_size)]
    control, normal, unused = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL, gguf.TokenType.UNUSED
    types = [control if i in special else normal if i in by_id else unused for i in range(vocab_size)]
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--type", choices=["f16", "f32", "bf16"], default="f16")
    parser.add_argument("--pre", default="gpt-2", help="name of the pre-tokenizer")
    args = parser.parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name(os.path.basename(os.path.normpath(args.model)))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    add_tokenizer(writer, args.model, args.pre, config["vocab_size"])
    for name, weight in tensors(args.model):
        weight = weight.astype(np.float32)
        for part, count in [("q_proj", heads), ("k_proj", kv_heads)]:
            if part in name:
                weight = pairs(weight, count)
        name = gguf_name(name)
        if weight.ndim == 1 or args.type == "f32":
            writer.add_tensor(name, weight)
        elif args.type == "f16":
            writer.add_tensor(name, weight.astype(np.float16))
        else:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
