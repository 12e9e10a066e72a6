#!/usr/bin/env python3
"""Runs llama.cpp's converter on the models of tests/fixtures/golden: files that we did not write.

    python3 scripts/convert_with_llama_cpp.py LLAMA_CPP_FOLDER [--out tests/fixtures/gguf] [NAME ...]

The models have no tokenizer, so none is written. Two values that the converter expects in places where transformers 5 no
longer writes them are put there. Needs what the converter needs (torch, transformers, gguf); the files in the repository
are those of the llama.cpp in llama-cpp-python 0.3.36 (vendor/llama.cpp) with transformers 5.23.
"""

import argparse
import importlib
import json
import os
import re
import runpy
import shutil
import sys
import tempfile

# Architectures that llama.cpp knows; one of those that differ only in what it does not write.
NAMES = ["apertus", "arcee", "bamba", "bloom", "cohere", "cohere2", "deepseek_v2", "deepseek_v2_groups", "deepseek_v3", "dots1",
         "ernie4_5", "ernie4_5_moe", "exaone4", "exaone4_full", "falcon", "falcon_groups", "falcon_h1_norm", "falcon_mamba", "gemma", "gemma2",
         "gemma3", "gemma3n", "gemma4", "gemma4_experts", "gemma4_keys_are_values", "glm", "glm4", "glm4_moe",
         "glm4_moe_lite", "glm4_moe_plain", "gpt2", "gpt_bigcode", "gpt_neox", "gpt_oss", "gpt_oss_mxfp4", "granite",
         "granitemoe", "granitemoehybrid", "granitemoeshared", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "llama3",
         "llama4_text", "llama_bias", "llama_yarn", "mamba", "mamba2", "mimo_v2_flash", "minicpm3", "minimax_m2",
         "ministral3", "mistral4", "mixtral", "mpt", "nemotron_h", "nemotron_h_moe", "olmo", "olmo2", "olmo3", "olmoe",
         "phi", "phi3_longrope_long", "phimoe", "qwen2", "qwen2_moe_experts", "qwen3", "qwen3_5", "qwen3_5_moe",
         "qwen3_next_experts", "seed_oss", "smollm3", "stablelm", "stablelm_parallel", "starcoder2"]


def subclasses(cls):
    yield cls
    for sub in cls.__subclasses__():
        yield from subclasses(sub)


def prepare(root):
    sys.path[:0] = [root, os.path.join(root, "gguf-py")]
    for file in sorted(os.listdir(os.path.join(root, "conversion"))):
        if file.endswith(".py") and file != "__init__.py":
            importlib.import_module(f"conversion.{file[:-3]}")
    from conversion import base, gpt2, gptneox, stablelm
    for cls in subclasses(base.TextModel):
        cls.set_vocab = lambda self: None
    of_class = base.ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format):
        # The class of transformers adds experts to models without.
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        return config if config["model_type"] == "nemotron_h" else of_class(folder, is_mistral_format)
    base.ModelBase.load_hparams = staticmethod(load_hparams)

    def with_default(cls, key, value):
        keep = cls.set_gguf_parameters

        def set_parameters(self):
            self.hparams.setdefault(key, value(self))
            keep(self)
        cls.set_gguf_parameters = set_parameters

    with_default(gptneox.GPTNeoXModel, "rotary_pct", lambda self: self.rope_parameters["partial_rotary_factor"])
    with_default(stablelm.StableLMModel, "partial_rotary_factor",
                 lambda self: self.rope_parameters["partial_rotary_factor"])
    for cls in subclasses(base.TextModel):
        if cls.__name__ == "MiniMaxM2Model":
            with_default(cls, "rotary_dim", lambda self: int(
                self.hparams["head_dim"] * self.rope_parameters.get("partial_rotary_factor", 1.0)))
        if cls.__name__ == "MimoV2Model":
            with_part_of_heads(cls)
        if cls.__name__ == "Cohere2Model":
            with_default(cls, "rotary_pct", lambda self: 1.0)
    with_default(gpt2.GPT2Model, "n_ctx", lambda self: self.hparams["n_positions"])


def with_part_of_heads(cls):
    keep = cls.set_gguf_parameters

    def set_parameters(self):
        self.rope_parameters["partial_rotary_factor"] = self.rope_parameters["full_attention"]["partial_rotary_factor"]
        keep(self)
    cls.set_gguf_parameters = set_parameters


def under_known_names(config):
    """The fields that the converter looks for, as the files of the hub have them."""
    kind = config["model_type"]
    if kind == "granitemoehybrid":
        config["layer_types"] = ["attention" if kind == "full_attention" else "mamba" for kind in config["layer_types"]]
    if kind == "nemotron_h":
        letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
        kinds = config.pop("layers_block_type", None) or config.pop("layer_types")
        config["hybrid_override_pattern"] = "".join(letters[kind] for kind in kinds)
        config["num_hidden_layers"] = len(kinds)
        config["mamba_d_head"] = config["mamba_head_dim"]
        if "moe" not in kinds:
            for key in ["num_experts_per_tok", "n_routed_experts", "n_group", "topk_group"]:
                config.pop(key, None)
    if kind == "kimi_linear":
        attends = [layer == "full_attention" for layer in config["layer_types"]]
        config["linear_attn_config"] = {
            "full_attn_layers": [i + 1 for i, full in enumerate(attends) if full],
            "kda_layers": [i + 1 for i, full in enumerate(attends) if not full],
            "head_dim": config["linear_head_dim"], "num_heads": config["linear_num_heads"],
            "short_conv_kernel_size": config["linear_conv_kernel_dim"]}
        config["first_k_dense_replace"] = (config["mlp_layer_types"] + ["sparse"]).index("sparse")
        config["moe_router_activation_func"] = "sigmoid"
    if kind == "mimo_v2_flash":
        for of_windows, of_all in [("swa_head_dim", "head_dim"), ("swa_num_attention_heads", "num_attention_heads"),
                                   ("swa_v_head_dim", "v_head_dim")]:
            config[of_windows] = config[of_all]
        config["swa_num_key_value_heads"] = 2 * config["num_key_value_heads"]
        config["hybrid_layer_pattern"] = [int(layer == "sliding_attention") for layer in config["layer_types"]]
        # It does not count the position of the query.
        config["sliding_window"] -= 1
        config["topk_method"], config["scoring_func"] = "noaux_tc", "sigmoid"
    if kind == "bamba":
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        config["attn_rotary_emb"] = int(head_dim * config["rope_parameters"]["partial_rotary_factor"])
    if kind == "glm":
        # As the files that came before those of transformers.
        config["layernorm_epsilon"], config["seq_length"] = config["rms_norm_eps"], config["max_position_embeddings"]
        config["attention_dim"] = config["head_dim"]
    if kind == "falcon" and not config["new_decoder_architecture"]:
        # In these the field says nothing.
        config["num_kv_heads"] = 1 if config["multi_query"] else config["num_attention_heads"]
    config["architectures"] = [CLASSES.get(kind, config["architectures"][0])]


# Its names of classes that transformers has renamed.
CLASSES = {"mistral4": "Ministral3ForCausalLM", "phimoe": "PhiMoEForCausalLM", "mpt": "MPTForCausalLM"}
# Feed-forwards without experts, which transformers saves under another name than the hub has.
KIMI_DENSE = (r"\.block_sparse_moe\.(gate|up|down)_proj\.", r".mlp.\1_proj.")


def rename_tensors(path, pattern, replacement):
    from safetensors.torch import load_file, save_file
    tensors = {re.sub(pattern, replacement, name): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def convert(root, source, out, outtype="bf16"):
    """Writes the model in the folder `source`, named as the model is, to the file `out`; after `prepare`."""
    name = os.path.basename(source)
    with tempfile.TemporaryDirectory() as folder:
        # Named as the model: the converter writes the folder's name into the file.
        model = os.path.join(folder, name)
        os.mkdir(model)
        for file in ["config.json", "model.safetensors"]:
            shutil.copy(os.path.join(source, file), model)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        vocab = {str(i): i for i in range(config["vocab_size"])}
        # The models have no layers that predict further tokens, whatever their configurations say.
        config.update({key: 0 for key in ["mtp_num_hidden_layers", "num_nextn_predict_layers"] if key in config})
        under_known_names(config)
        if config["model_type"] == "kimi_linear":
            rename_tensors(os.path.join(model, "model.safetensors"), *KIMI_DENSE)
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        # Gemma 3's converter cuts the embedding to the tokens that it finds here.
        with open(os.path.join(model, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump({"model": {"vocab": vocab}, "added_tokens": []}, file)
        sys.argv = ["", model, "--outtype", outtype, "--outfile", out]
        if name.startswith(("qwen3_", "mimo_")):
            sys.argv.append("--no-mtp")
        runpy.run_path(os.path.join(root, "convert_hf_to_gguf.py"), run_name="__main__")


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
        convert(root, os.path.join(golden, name), os.path.join(out, f"{name}.gguf"))


if __name__ == "__main__":
    main()
