#!/usr/bin/env python3
"""Runs llama.cpp's converter on the models of tests/fixtures/golden: files that we did not write.

    python3 scripts/convert_with_llama_cpp.py LLAMA_CPP_FOLDER [--out tests/fixtures/gguf] [NAME ...]

The models have no tokenizer, so none is written. Two values that the converter expects in places where transformers 5 no
longer writes them are put there. Needs what the converter needs (torch, transformers, gguf); the files in the repository
are those of the llama.cpp in llama-cpp-python 0.3.36 (vendor/llama.cpp) with transformers 5.23.
"""

import argparse
import json
import os
import runpy
import shutil
import sys
import tempfile

# Architectures that llama.cpp knows; one of those that differ only in what it does not write.
NAMES = ["bloom", "gemma2", "gemma3", "gpt2", "gpt_neox", "llama3", "llama_bias", "llama_yarn", "mixtral", "olmo2", "phi",
         "phi3_longrope_long", "qwen2", "qwen3", "smollm3"]


def subclasses(cls):
    yield cls
    for sub in cls.__subclasses__():
        yield from subclasses(sub)


def prepare(root):
    sys.path[:0] = [root, os.path.join(root, "gguf-py")]
    from conversion import base, bloom, gemma, gpt2, gptneox, llama, olmo, phi, qwen  # noqa: F401
    for cls in subclasses(base.TextModel):
        cls.set_vocab = lambda self: None

    def with_default(cls, key, value):
        keep = cls.set_gguf_parameters

        def set_parameters(self):
            self.hparams.setdefault(key, value(self))
            keep(self)
        cls.set_gguf_parameters = set_parameters

    with_default(gptneox.GPTNeoXModel, "rotary_pct", lambda self: self.rope_parameters["partial_rotary_factor"])
    with_default(gpt2.GPT2Model, "n_ctx", lambda self: self.hparams["n_positions"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("llama_cpp")
    parser.add_argument("--out", default="tests/fixtures/gguf")
    parser.add_argument("names", nargs="*", default=NAMES)
    args = parser.parse_args()
    golden, out = os.path.abspath("tests/fixtures/golden"), os.path.abspath(args.out)
    root = os.path.abspath(args.llama_cpp)
    os.makedirs(out, exist_ok=True)
    prepare(root)
    for name in args.names:
        with tempfile.TemporaryDirectory() as folder:
            # Named as the model: the converter writes the folder's name into the file.
            model = os.path.join(folder, name)
            os.mkdir(model)
            for file in ["config.json", "model.safetensors"]:
                shutil.copy(os.path.join(golden, name, file), model)
            with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
                vocab = {str(i): i for i in range(json.load(file)["vocab_size"])}
            # Gemma 3's converter cuts the embedding to the tokens that it finds here.
            with open(os.path.join(model, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump({"model": {"vocab": vocab}, "added_tokens": []}, file)
            sys.argv = ["", model, "--outtype", "bf16", "--outfile", os.path.join(out, f"{name}.gguf")]
            runpy.run_path(os.path.join(root, "convert_hf_to_gguf.py"), run_name="__main__")


if __name__ == "__main__":
    main()
