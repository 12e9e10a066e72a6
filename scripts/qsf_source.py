"""Original models for read_qsf.py: safetensors of LLaMA or GPT-2, and how far stored values are from them."""
import json, os, struct
import numpy as np


class Safetensors:
    """All *.safetensors of a model folder, or one file: u64 length, JSON header, data. Arrays come as float32."""

    def __init__(self, path):
        folder, name = (path, "model.safetensors") if os.path.isdir(path) else os.path.split(path)
        index, files, self.where = os.path.join(path, "model.safetensors.index.json"), [name], {}
        if os.path.exists(index):
            with open(index) as f:
                files = sorted(set(json.load(f)["weight_map"].values()))
        for name in (os.path.join(folder, f) for f in files):
            with open(name, "rb") as f:
                size, = struct.unpack("<Q", f.read(8))
                for k, v in json.loads(f.read(size)).items():
                    if k != "__metadata__":
                        self.where[k] = name, 8 + size + v["data_offsets"][0], v["dtype"], v["shape"]

    def get(self, name):
        path, at, dtype, shape = self.where[name]
        a = np.fromfile(path, {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "I32": "<i4"}[dtype], int(np.prod(shape)), offset=at)
        a = (a.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else a.astype(np.float32)
        return a.reshape(shape)


LLAMA = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm",
         "final_norm": "norm", "head": "lm_head", "token_embedding": "embed_tokens"}
GPT2 = {"attn_q": "attn.c_attn", "attn_k": "attn.c_attn", "attn_v": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj", "attn_norm": "ln_1", "ffn_norm": "ln_2", "final_norm": "ln_f", "positions": "wpe",
        "head": "lm_head", "token_embedding": "wte"}


def original(source, layer, kind):
    """The original of a tensor, as [outputs, inputs] or [1, values]."""
    base, suffix = (kind[:-5], ".bias") if kind.endswith("_bias") else (kind, ".weight")
    gpt2 = any(k.endswith("h.0.attn.c_attn.weight") for k in source.where)
    name = (GPT2 if gpt2 else LLAMA)[base] + suffix
    if layer is not None:
        name = f"{'h' if gpt2 else 'layers'}.{layer}.{name}"
    name = next(p + name for p in ("", "transformer.", "model.") if p + name in source.where)
    a = source.get(name)
    if gpt2 and layer is not None:
        if a.ndim == 2:
            a = a.T  # GPT-2's Conv1D stores [inputs, outputs]
        if base in ("attn_q", "attn_k", "attn_v"):
            a = np.split(a, 3)[("attn_q", "attn_k", "attn_v").index(base)]
    return a if a.ndim == 2 else a.reshape(1, -1)


def measure(a, b):
    """(cosine, relative error, largest absolute difference) of original a and stored b, in f64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    d, na, nb = a - b, np.linalg.norm(a), np.linalg.norm(b)
    cosine = float((a * b).sum() / (na * nb)) if na and nb else float(na == nb)
    return cosine, float(np.linalg.norm(d) / na) if na else float(np.linalg.norm(d) > 0), float(np.abs(d).max())
