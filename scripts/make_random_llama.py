#!/usr/bin/env python3
"""Writes a LLaMA with random weights: a HuggingFace directory in f16 and, on request, the same weights as a GGUF file.

    python3 scripts/make_random_llama.py OUT_DIR [--gguf OUT.gguf] [--layers 22] [--hidden 2048] ...

For measurements of speed, on machines with nothing but Python 3.8 or newer: how fast a model runs depends on its shape, not
on what it has learned. The default shape has 1.04 billion weights. There is no tokenizer; prompts are token ids.

Values are drawn from one pool of 2^20 normally distributed numbers, copied from random places of it, so that writing is as fast
as the disk. Each matrix has a standard deviation of 1/sqrt(columns), which keeps activations near 1 through all layers; gains of
norms are 1. The same options and seed give the same bytes.
"""

import argparse
import json
import os
import random
import struct
import sys

POOL = 1 << 20
# Values copied in one piece. Short enough that no two matrices agree over more than a few rows.
PIECE = 1 << 15
SHARD_BYTES = 1 << 30
GGUF_ALIGN = 32
# Types of metadata and of tensors: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
U32, F32, TEXT = 4, 6, 8
TENSOR_F32, TENSOR_F16 = 0, 1
MOSTLY_F16 = 1


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="directory to write; made if it is not there")
    parser.add_argument("--gguf", metavar="FILE", help="also write the weights as a GGUF file for llama.cpp")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=5632)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=16384)
    parser.add_argument("--positions", type=int, default=4096, help="longest context (4096)")
    parser.add_argument("--tied", action="store_true", help="no head of its own")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sizes = [args.layers, args.hidden, args.ffn, args.heads, args.kv_heads, args.vocab, args.positions]
    if min(sizes) < 1:
        parser.error("all sizes must be at least 1")
    if args.hidden % (2 * args.heads) or args.heads % args.kv_heads:
        parser.error("--hidden must be an even multiple of --heads, and --heads a multiple of --kv-heads")
    return args


def tensors(args):
    """Name in HuggingFace, name in GGUF, shape, and heads where rows are rotated in pairs."""
    hidden, ffn, kv = args.hidden, args.ffn, args.hidden // args.heads * args.kv_heads
    yield "model.embed_tokens", "token_embd", (args.vocab, hidden), None
    for i in range(args.layers):
        for name, gguf, shape, heads in [
            ("input_layernorm", "attn_norm", (hidden,), None),
            ("self_attn.q_proj", "attn_q", (hidden, hidden), args.heads),
            ("self_attn.k_proj", "attn_k", (kv, hidden), args.kv_heads),
            ("self_attn.v_proj", "attn_v", (kv, hidden), None),
            ("self_attn.o_proj", "attn_output", (hidden, hidden), None),
            ("post_attention_layernorm", "ffn_norm", (hidden,), None),
            ("mlp.gate_proj", "ffn_gate", (ffn, hidden), None),
            ("mlp.up_proj", "ffn_up", (ffn, hidden), None),
            ("mlp.down_proj", "ffn_down", (hidden, ffn), None),
        ]:
            yield f"model.layers.{i}.{name}", f"blk.{i}.{gguf}", shape, heads
    yield "model.norm", "output_norm", (hidden,), None
    if not args.tied:
        yield "lm_head", "output", (args.vocab, hidden), None


def count(shape):
    return shape[0] if len(shape) == 1 else shape[0] * shape[1]


class Weights:
    """Random matrices as bytes of f16. A tensor depends on the seed and its name alone."""

    def __init__(self, seed):
        self.seed = seed
        rng = random.Random(seed)
        self.normal = [rng.gauss(0.0, 1.0) for _ in range(POOL)]
        self.pools = {}

    def pool(self, cols):
        """The pool for matrices of `cols` columns, with its first piece once more behind it."""
        if cols not in self.pools:
            scale = cols ** -0.5
            values = struct.pack(f"<{POOL}e", *[value * scale for value in self.normal])
            self.pools[cols] = values + values[: 2 * PIECE]
        return self.pools[cols]

    def matrix(self, name, shape):
        pool = self.pool(shape[-1])
        rng = random.Random(f"{self.seed} {name}")
        left, pieces = count(shape), []
        while left:
            values = min(left, PIECE)
            start = 2 * int(rng.random() * POOL)
            pieces.append(pool[start : start + 2 * values])
            left -= values
        return b"".join(pieces)


def f16(weights, name, shape):
    return struct.pack("<e", 1.0) * count(shape) if len(shape) == 1 else weights.matrix(name, shape)


def write_safetensors(args, weights):
    """Shards of about a gibibyte with an index, as the tools of the hub write them."""
    shards, size = [[]], 0
    for name, _, shape, _ in tensors(args):
        if size and size + 2 * count(shape) > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append((f"{name}.weight", shape))
        size += 2 * count(shape)
    index, total = {}, 0
    for number, shard in enumerate(shards, 1):
        single = len(shards) == 1
        file_name = "model.safetensors" if single else f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name, shape in shard:
            end = at + 2 * count(shape)
            header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, end]}
            index[name], at = file_name, end
        total += at
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(args.out, file_name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name, shape in shard:
                file.write(f16(weights, name, shape))
    if len(shards) > 1:
        with open(os.path.join(args.out, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": index}, file, indent=1)
    return total // 2


def write_config(args):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float16",
        "hidden_size": args.hidden, "intermediate_size": args.ffn, "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads,
        "head_dim": args.hidden // args.heads, "vocab_size": args.vocab,
        "max_position_embeddings": args.positions, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": args.tied, "bos_token_id": 1, "eos_token_id": 2,
    }
    with open(os.path.join(args.out, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def in_pairs(matrix, shape, heads):
    """Rows of each head from halves, as HuggingFace rotates them, to the neighbouring pairs of llama.cpp."""
    row, half = 2 * shape[1], shape[0] // heads // 2
    order = (head * 2 * half + i + part for head in range(heads) for i in range(half) for part in (0, half))
    return b"".join(matrix[r * row : (r + 1) * row] for r in order)


def write_gguf(args, weights):
    dim = args.hidden // args.heads
    metadata = [
        ("general.architecture", TEXT, "llama"), ("general.name", TEXT, os.path.basename(os.path.normpath(args.out))),
        ("general.file_type", U32, MOSTLY_F16), ("general.alignment", U32, GGUF_ALIGN),
        ("llama.context_length", U32, args.positions), ("llama.embedding_length", U32, args.hidden),
        ("llama.block_count", U32, args.layers), ("llama.feed_forward_length", U32, args.ffn),
        ("llama.attention.head_count", U32, args.heads), ("llama.attention.head_count_kv", U32, args.kv_heads),
        ("llama.attention.key_length", U32, dim), ("llama.attention.value_length", U32, dim),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), ("llama.rope.dimension_count", U32, dim),
        ("llama.rope.freq_base", F32, 10000.0), ("llama.vocab_size", U32, args.vocab),
        ("tokenizer.ggml.model", TEXT, "no_vocab"),
    ]
    packed = {TEXT: text, U32: lambda v: struct.pack("<I", v), F32: lambda v: struct.pack("<f", v)}
    listed = list(tensors(args))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(metadata))
    head += b"".join(text(key) + struct.pack("<I", kind) + packed[kind](value) for key, kind, value in metadata)
    at = 0
    for _, name, shape, _ in listed:
        kind, width = (TENSOR_F32, 4) if len(shape) == 1 else (TENSOR_F16, 2)
        # The innermost dimension comes first.
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(f"{name}.weight") + dimensions + struct.pack("<IQ", kind, at)
        at += -(-width * count(shape) // GGUF_ALIGN) * GGUF_ALIGN
    with open(args.gguf, "wb") as file:
        file.write(head + bytes(-len(head) % GGUF_ALIGN))
        for name, _, shape, heads in listed:
            if len(shape) == 1:
                data = struct.pack("<f", 1.0) * shape[0]
            else:
                data = weights.matrix(f"{name}.weight", shape)
                data = data if heads is None else in_pairs(data, shape, heads)
            file.write(data + bytes(-len(data) % GGUF_ALIGN))


def main():
    args = parse_arguments()
    os.makedirs(args.out, exist_ok=True)
    weights = Weights(args.seed)
    write_config(args)
    total = write_safetensors(args, weights)
    print(f"{args.out}: {total} weights in f16", file=sys.stderr)
    if args.gguf:
        write_gguf(args, weights)
        print(f"{args.gguf}: the same weights", file=sys.stderr)


if __name__ == "__main__":
    main()
