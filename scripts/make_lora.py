#!/usr/bin/env python3
"""Makes adapters with random weights for models of tests/fixtures/golden, and what PEFT and transformers compute with them.

    python3 scripts/make_lora.py tests/fixtures/golden tests/fixtures/lora
    python3 scripts/make_lora.py tests/fixtures/golden tests/fixtures/lora --llama-cpp ~/llama.cpp

Needs torch, transformers, peft and safetensors. Each folder is an adapter as save_pretrained writes it, and
expected.safetensors as of scripts/make_golden.py, of the model with the adapter, in float32. With --llama-cpp also
adapter.gguf, by its convert_lora_to_gguf.py, for the architectures that it knows.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

GREEDY = 12
# What each adapter is like: ranks, scales and modules of each kind that PEFT has.
CASES = {
    "llama": dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                                     "down_proj", "lm_head"]),
    "mistral": dict(r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"],
                    rank_pattern={"layers.1.self_attn.q_proj": 3, "down_proj": 2},
                    alpha_pattern={"v_proj": 5, "layers.0.mlp.down_proj": 3}),
    "gpt2": dict(r=3, lora_alpha=6, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"]),
    "gpt_neox": dict(r=4, lora_alpha=4, target_modules="all-linear"),
    "phi3": dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
                 layers_to_transform=[1]),
    "gptj": dict(r=2, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "out_proj", "fc_in", "fc_out"]),
}
# Its converter leaves patterns and use_rslora out, and turns the pairs of GPT-2 round, which llama.cpp then refuses.
WITH_GGUF = {"llama", "phi3"}


def make(name, base, out, llama_cpp):
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **CASES[name]))
    generator = torch.Generator().manual_seed(11)
    for parameter, weight in model.named_parameters():
        if "lora_" in parameter:
            weight.data = torch.randn(weight.shape, generator=generator) * 0.15
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out, save_embedding_layers=False)
    (out / "README.md").unlink(missing_ok=True)

    # What was saved is what counts.
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    model = PeftModel.from_pretrained(model, out).eval()
    ids = load_file(base / "expected.safetensors")["input_ids"].long()
    with torch.no_grad():
        logits = model(ids[None]).logits[0]
        nll = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
        sequence = ids[None, :20]
        for _ in range(GREEDY):
            sequence = torch.cat([sequence, model(sequence).logits[:, -1].argmax(-1, keepdim=True)], 1)
    expected = {"input_ids": ids.int(), "logits_last8": logits[-8:].contiguous(), "nll": nll,
                "greedy_prompt20": sequence[0, 20:].int().contiguous()}
    save_file(expected, out / "expected.safetensors")
    if llama_cpp and name in WITH_GGUF:
        script = llama_cpp / "convert_lora_to_gguf.py"
        subprocess.run([sys.executable, script, out, "--base", base, "--outfile", out / "adapter.gguf", "--outtype",
                        "f32"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--llama-cpp", type=Path, help="folder with convert_lora_to_gguf.py")
    args = parser.parse_args()
    for name in CASES:
        make(name, args.models / name, args.out / name, args.llama_cpp)


if __name__ == "__main__":
    main()
