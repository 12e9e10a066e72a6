#!/usr/bin/env python3
"""Writes what transformers says of attention in models of tests/fixtures/golden.

    python3 scripts/make_attention.py tests/fixtures/golden tests/fixtures/attention
    python3 scripts/make_attention.py models out --models demo-1m gpt2-17m --ids 464,1263

Needs torch, transformers and safetensors. Each file has input_ids, and layers.N.weights of each layer with attention:
heads x tokens x positions, by its plain ("eager") attention in float32. Layers that see all positions have their keys as
layers.N.keys, key/value heads x positions x values, as its cache keeps them.
"""

import argparse
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

TOKENS = 20
# Sinks and windows; latents; chunks; groups; windows with caps; ALiBi; layers without attention.
CASES = ["gpt_oss", "deepseek_v3", "llama4_text", "llama", "gemma2", "bloom", "qwen3_next", "gpt2"]
# Of these the cache has keys as attention reads them.
WITH_KEYS = {"llama", "gpt2", "gemma2", "demo-1m", "gpt2-17m", "llama-53m"}


def layers_with_attention(config):
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [i for i, kind in enumerate(kinds) if "linear" not in kind and "mamba" not in kind], kinds


def make(name, base, out, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        result = model(ids[None], output_attentions=True, use_cache=True)
    layers, kinds = layers_with_attention(model.config)
    weights = [weights for weights in result.attentions if weights is not None]
    assert len(weights) == len(layers), f"{name}: {len(weights)} of {len(layers)} layers"
    tensors = {"input_ids": ids.int()}
    for layer, values in zip(layers, weights):
        tensors[f"layers.{layer}.weights"] = values[0].contiguous()
        if name in WITH_KEYS and kinds[layer] == "full_attention":
            tensors[f"layers.{layer}.keys"] = result.past_key_values.layers[layer].keys[0].contiguous()
    save_file(tensors, out / f"{name}.safetensors")
    print(name, *(f"{key} {list(value.shape)}" for key, value in sorted(tensors.items())))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", type=Path)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--models", dest="names", nargs="+", default=CASES)
    arguments.add_argument("--ids", help="the tokens, for models without expected.safetensors")
    args = arguments.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        base = args.models / name
        if args.ids:
            ids = torch.tensor([int(token) for token in args.ids.split(",")])
        else:
            ids = load_file(base / "expected.safetensors")["input_ids"].long()[:TOKENS]
        make(name, base, args.out, ids)


if __name__ == "__main__":
    main()
