#!/usr/bin/env python3
"""Opens a directory of `qsf-convert --to compressed-tensors` by the programs that it is for.

    python -m venv --system-site-packages VENV    # of a python with torch, transformers and safetensors
    VENV/bin/pip install compressed-tensors==0.20.0
    VENV/bin/python scripts/check_compressed_tensors.py QSF_CONVERT DIR [TEXT]

1. compressed-tensors decompresses every matrix. The values must be those that qsf-convert reads (DIR --to hf --dtype f32), to the
   bit; of scales of 16 bits their nearest of 16 bits, since the package multiplies in the type of the scales.
2. Its own compressor makes the same bytes of these values, scales and zeros.
3. transformers opens the directory. Its logits must be those of the decompressed directory within 1e-3 (of f32 directories).
   Not of asymmetric ones: transformers 5.24 with compressed-tensors 0.20 expects zeros that are not packed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationConfig
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST = 1e-3


def tensors(folder):
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys()}
    return found


def check_values(stored, values, scheme):
    matrices = sorted(name.removesuffix(".weight_packed") for name in stored if name.endswith(".weight_packed"))
    for stem in matrices:
        ends = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point")
        state = {end: stored[f"{stem}.{end}"] for end in ends if f"{stem}.{end}" in stored}
        opened = PackedQuantizationCompressor.decompress(dict(state), scheme)
        ours = values[f"{stem}.weight"]
        if not torch.equal(opened["weight"], ours.to(state["weight_scale"].dtype)):
            sys.exit(f"{stem}: {(opened['weight'] - ours).abs().max()} apart")
        # A scale of 0 has no codes.
        if (state["weight_scale"] == 0).any():
            continue
        exact = {name: opened[name] for name in ("weight_zero_point",) if name in opened}
        exact |= {"weight": ours, "weight_scale": state["weight_scale"].float()}
        again = PackedQuantizationCompressor.compress(exact, scheme)
        for end in ("weight_packed", "weight_zero_point", "weight_shape"):
            if end in state and not torch.equal(again[end], state[end]):
                sys.exit(f"{stem}.{end} differs from what the package packs")
    return len(matrices)


def logits(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    with torch.no_grad():
        return model(ids).logits.float(), model.dtype


def main():
    convert, folder = sys.argv[1], Path(sys.argv[2])
    text = Path(sys.argv[3]).read_text()[:4000] if len(sys.argv) > 3 else "It was a dark and stormy night. " * 40
    config = json.loads((folder / "config.json").read_text())
    scheme = QuantizationConfig(**config["quantization_config"]).config_groups["group_0"]
    with tempfile.TemporaryDirectory() as made:
        plain = Path(made) / "plain"
        command = [convert, folder, plain, "--to", "hf", "--dtype", "f32", "--no-table", "-q"]
        subprocess.run(command, check=True)
        count = check_values(tensors(folder), tensors(plain), scheme)
        print(f"{count} matrices: compressed-tensors reads our values and packs our bytes")
        if not scheme.weights.symmetric:
            return
        ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids[:, :256]
        (ours, dtype), (theirs, _) = logits(folder, ids), logits(plain, ids)
        apart = (ours - theirs).abs().max().item()
        same = (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item()
        print(f"{ids.shape[1]} tokens: logits {apart:.2e} apart ({dtype}), {100 * same:.1f} % same top token")
        if dtype == torch.float32 and apart > MOST:
            sys.exit("too far")


if __name__ == "__main__":
    main()
