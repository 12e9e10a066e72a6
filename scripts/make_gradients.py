#!/usr/bin/env python3
"""Writes the gradients that torch computes for some of the golden models.

For each model tests/fixtures/gradients/NAME gets a copy of its config.json and a model.safetensors that
holds, in place of each weight, the gradient of the mean negative log-likelihood of the golden tokens. So
whoever reads the model's weights reads its gradients the same way.

    scripts/make_gradients.py [NAME ...]
"""

import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

FIXTURES = pathlib.Path(__file__).parent.parent / "tests/fixtures"
NAMES = ["llama", "gpt2", "qwen3", "gemma2", "mixtral"]


def gradients(golden):
    """The loss, and the gradient of each parameter by its name in the file."""
    model = AutoModelForCausalLM.from_pretrained(golden, dtype=torch.float32, attn_implementation="eager")
    tokens = load_file(golden / "expected.safetensors")["input_ids"].long().reshape(1, -1)
    logits = model(tokens).logits[0, :-1].float()
    loss = torch.nn.functional.cross_entropy(logits, tokens[0, 1:])
    loss.backward()
    return loss.item(), model


def main():
    for name in sys.argv[1:] or NAMES:
        golden, out = FIXTURES / "golden" / name, FIXTURES / "gradients" / name
        out.mkdir(parents=True, exist_ok=True)
        loss, model = gradients(golden)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.grad)
        # As the model is saved, names and shapes are those of its files.
        model.save_pretrained(out)
        for left in out.iterdir():
            if left.name not in ("model.safetensors", "config.json"):
                left.unlink()
        shutil.copy(golden / "config.json", out / "config.json")
        print(f"{name}: loss {loss:.6f}")


if __name__ == "__main__":
    main()
