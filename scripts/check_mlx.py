#!/usr/bin/env python3
"""Opens directories of `qsf-convert --to mlx` by the program that they are for.

    python -m venv VENV
    VENV/bin/pip install 'mlx[cpu]' mlx-lm torch transformers safetensors
    VENV/bin/python scripts/check_mlx.py QSF_CONVERT DIR...

1. MLX dequantizes every matrix. The values must be those that qsf-convert reads (DIR --to hf --dtype f32), to the bit with scales
   of f32; else within a rounding of the type of the scales.
2. mlx-lm opens the directory. Its logits must be those of transformers on the dequantized directory, within 2e-3 of their spread
   where the directory is of f32.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.utils import load_model
from safetensors import safe_open
from transformers import AutoModelForCausalLM

MOST = 2e-3


def tensors(folder):
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        found |= mx.load(str(file))
    return found


def floats_of(folder):
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "np") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys()}
    return found


def plain_of(floats, stem):
    """A matrix of the dequantized directory, by the name that MLX has for it."""
    if f"{stem}.weight" in floats:
        return floats[f"{stem}.weight"]
    before, _, matrix = stem.partition(".switch_mlp.")
    old = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}[matrix]
    experts = []
    while True:
        names = [f"{before}.experts.{len(experts)}.{name}.weight" for name in (matrix, old)]
        found = [floats[name] for name in names if name in floats]
        if not found:
            return np.stack(experts)
        experts.append(found[0])


def check_values(folder, plain):
    stored, floats = tensors(folder), floats_of(plain)
    general = json.loads((folder / "config.json").read_text())["quantization"]
    stems = sorted(name.removesuffix(".scales") for name in stored if name.endswith(".scales"))
    for stem in stems:
        ty = general.get(stem, general)
        scales = stored[f"{stem}.scales"]
        opened = mx.dequantize(
            stored[f"{stem}.weight"], scales, stored[f"{stem}.biases"], group_size=ty["group_size"], bits=ty["bits"]
        )
        opened, ours = np.array(opened.astype(mx.float32)), plain_of(floats, stem)
        apart = np.abs(opened - ours).max() / max(np.abs(ours).max(), 1e-30)
        # MLX multiplies and adds in the type of the scales; in f32 a compiler may fuse the two.
        most = {mx.float32: 3e-7, mx.float16: 2e-3, mx.bfloat16: 2e-2}[scales.dtype]
        if apart > most:
            sys.exit(f"{folder}: {stem}: {apart} apart")
    return len(stems), scales.dtype


def main():
    convert = sys.argv[1]
    worst = 0
    for folder in map(Path, sys.argv[2:]):
        with tempfile.TemporaryDirectory() as made:
            plain = Path(made) / "plain"
            command = [convert, folder, plain, "--to", "hf", "--dtype", "f32", "--no-table", "-q"]
            subprocess.run([*command, "--skip-tokenizer-check"], check=True)
            count, dtype = check_values(folder, plain)
            config = json.loads((folder / "config.json").read_text())
            ids = [(7 * i * i + 3 * i + 1) % config["vocab_size"] for i in range(48)]
            model, _ = load_model(folder)
            ours = np.array(model(mx.array([ids])).astype(mx.float32))[0]
            source = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, attn_implementation="eager").eval()
            with torch.no_grad():
                theirs = source(torch.tensor([ids])).logits[0].numpy()
            apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
            same = (ours.argmax(-1) == theirs.argmax(-1)).mean()
            print(f"{folder}: {count} matrices, {dtype}: logits {apart:.1e} apart, {100 * same:.0f} % same top token")
            if dtype == mx.float32 and not apart < MOST:
                print(f"{folder}: TOO FAR")
                worst = 1
    sys.exit(worst)


if __name__ == "__main__":
    main()
