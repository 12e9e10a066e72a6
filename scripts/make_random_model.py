#!/usr/bin/env python3
"""Writes a model with random weights of any shape that transformers knows: a HuggingFace directory in bfloat16.

    python3 scripts/make_random_model.py CONFIG.json OUT_DIR [--seed 1]

For measurements of speed where the same weights are wanted as a GGUF file too, which `qsf-convert OUT_DIR out.gguf` writes: how
fast a model runs depends on its shape, not on what it has learned. Matrices have a standard deviation of 1/sqrt(columns), which
keeps activations near 1 through all layers; vectors are as transformers makes them. There is no tokenizer; prompts are token
ids. Needs torch and transformers, and memory for the model.
"""

import argparse
import json

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with open(args.config, encoding="utf-8") as file:
        config = json.load(file)
    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.bfloat16)
    # Vectors keep what they are made with; of matrices there is one pool of numbers, as they take long to draw.
    with torch.device("cpu"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.bfloat16)
    pool = torch.randn(1 << 22, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.dim() < 2:
            continue
        cols, flat = parameter.shape[-1], parameter.data.view(-1)
        values = (pool * cols ** -0.5).to(torch.bfloat16)
        for start in range(0, flat.numel(), 1 << 20):
            count = min(1 << 20, flat.numel() - start)
            at = int(torch.randint(0, len(pool) - count + 1, (1,)))
            flat[start:start + count] = values[at:at + count]
    model.save_pretrained(args.out)
    print(f"{sum(parameter.numel() for parameter in model.parameters())} weights in {args.out}")


if __name__ == "__main__":
    main()
