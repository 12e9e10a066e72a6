#!/usr/bin/env python3
"""Makes packed matrices and tiny models as MLX, GPTQ tools, AutoAWQ and compressed-tensors store them, and the values that they stand for.

    python3 scripts/make_packed_vectors.py tests/fixtures/packed            # what the repository has
    python3 scripts/make_packed_vectors.py /tmp/packed --seed 7 --scale 4   # others, larger

Needs torch, transformers, safetensors and mlx (made with torch 2.x, transformers 5.x, mlx 0.32 on a CPU). MLX packs and
expands its matrices itself; what it expands in float32 is expected. The other matrices are packed here, bit by bit
from the description of their layouts, out of codes, zeros and scales from which the expected values follow.

vectors.safetensors: for each case NAME the tensors of one layer as the tool names them ("NAME/x.qweight" and so on), and
"NAME/expected", [out, in]. mlx, gptq, awq: model directories with expected.safetensors as scripts/make_golden.py writes
it, computed by transformers on the expanded weights in float32.
"""

import argparse
import json
import os

import mlx.core as mx
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

VOCAB, TOKENS, GREEDY = 24, 28, 8
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def bitstream(codes, bits):
    """Codes along the last axis as 32-bit words: the first in the lowest bits, going on in the next word."""
    all_bits = (codes[..., None].astype(np.uint32) >> np.arange(bits, dtype=np.uint32)) & 1
    words = all_bits.reshape(*codes.shape[:-1], -1, 32)
    return (words << np.arange(32, dtype=np.uint32)).sum(-1, dtype=np.uint32)


def int32(words):
    return torch.from_numpy(np.ascontiguousarray(words).view(np.int32))


def from_mlx(array):
    if array.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(array.astype(mx.float32))).to(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def mlx_layer(weight, bits, group, dtype, mode="affine"):
    """Tensors, and the values that MLX expands them to."""
    array = mx.array(weight).astype(dtype)
    if mode == "mxfp4":
        codes, scales = mx.quantize(array, group_size=group, bits=bits, mode=mode)
        expected = mx.dequantize(codes, scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        return {"weight": from_mlx(codes), "scales": from_mlx(scales)}, from_mlx(expected)
    codes, scales, biases = mx.quantize(array, group_size=group, bits=bits)
    wide = [values.astype(mx.float32) for values in (scales, biases)]
    expected = mx.dequantize(codes, *wide, group_size=group, bits=bits)
    tensors = {"weight": from_mlx(codes), "scales": from_mlx(scales), "biases": from_mlx(biases)}
    return tensors, from_mlx(expected)


def rounded(weight, bits, groups_of, scale_dtype=np.float16):
    """Codes [in, out], zeros and scales [groups, out] of `weight`, [out, in]; column i is of group groups_of[i]."""
    highest = 2**bits - 1
    columns = weight.T
    groups = groups_of.max() + 1
    low = np.stack([np.minimum(columns[groups_of == g].min(0), 0) for g in range(groups)])
    high = np.stack([np.maximum(columns[groups_of == g].max(0), 0) for g in range(groups)])
    scales = ((high - low) / highest).astype(scale_dtype)
    zeros = np.clip(np.round(-low / scales.astype(np.float32)), 1, highest).astype(np.uint32)
    codes = np.round(columns / scales.astype(np.float32)[groups_of]) + zeros[groups_of]
    return np.clip(codes, 0, highest).astype(np.uint32), zeros, scales


def expand(codes, zeros, scales, groups_of):
    """scale * (code - zero) in float32, [out, in]."""
    steps = codes.astype(np.float32) - zeros.astype(np.float32)[groups_of]
    return torch.from_numpy(np.ascontiguousarray((scales.astype(np.float32)[groups_of] * steps).T))


def gptq_layer(codes, zeros, scales, bits, groups_of=None, less_one="codes"):
    """less_one: zeros stored less 1 as "codes" each, as whole "words" (GPTQModel borrows from the next code), or not."""
    if less_one == "codes":
        zeros = (zeros - 1) & (2**bits - 1)
    qzeros = bitstream(zeros, bits)
    if less_one == "words":
        qzeros = qzeros - np.uint32((2**32 - 1) // (2**bits - 1))
    tensors = {
        "qweight": int32(bitstream(codes.T, bits).T), "qzeros": int32(qzeros), "scales": torch.from_numpy(scales),
    }
    if groups_of is not None:
        tensors["g_idx"] = torch.from_numpy(groups_of.astype(np.int32))
    return tensors


def awq_layer(codes, zeros, scales):
    def packed(values):
        eights = values.reshape(values.shape[0], -1, 8)[..., AWQ_ORDER]
        return int32(bitstream(eights.reshape(values.shape), 4))

    return {"qweight": packed(codes), "qzeros": packed(zeros), "scales": torch.from_numpy(scales)}


def compressed_layer(codes, zeros, scales, bits, with_zeros, groups_of=None):
    tensors = {
        "weight_packed": int32(bitstream(codes.T, bits)), "weight_scale": torch.from_numpy(scales.T.copy()),
        "weight_shape": torch.tensor(codes.T.shape),
    }
    if with_zeros:
        whole_words = np.pad(zeros, ((0, 0), (0, -zeros.shape[1] % 32)))
        words = -(-zeros.shape[1] * bits // 32)
        tensors["weight_zero_point"] = int32(bitstream(whole_words, bits)[:, :words].T)
    if groups_of is not None:
        tensors["weight_g_idx"] = torch.from_numpy(groups_of.astype(np.int32))
    return tensors


def vectors(rng, scale):
    all_tensors = {}

    def add(name, tensors, expected):
        for part, tensor in tensors.items():
            all_tensors[f"{name}/x.{part}"] = tensor.contiguous()
        short = expected.to(torch.float16)
        all_tensors[f"{name}/expected"] = (short if torch.equal(short.float(), expected) else expected).contiguous()

    def random_scales(count, outputs, bits):
        # Few digits, so that in the small file the expected values are floats of 16 bits.
        if scale == 1:
            return (rng.integers(1, 2 ** (10 - bits), (count, outputs)) / 1024).astype(np.float16)
        return rng.uniform(0.001, 0.1, (count, outputs)).astype(np.float16)

    dtypes = [("f16", mx.float16), ("bf16", mx.bfloat16), ("f32", mx.float32)]
    for i, bits in enumerate([2, 3, 4, 5, 6, 8]):
        for j, group in enumerate([32, 64, 128]):
            # The repository has each width and each group size, not each pair of them.
            if scale == 1 and i % 3 != j:
                continue
            dtype, kind = dtypes[(i // 3 + j) % 3]
            weight = rng.standard_normal((2 * scale, max(group, 64) * scale)).astype(np.float32)
            add(f"mlx-{bits}-{group}-{dtype}", *mlx_layer(weight, bits, group, kind))
    weight = rng.standard_normal((2 * scale, 64 * scale)).astype(np.float32)
    add("mlx-mxfp4", *mlx_layer(weight, 4, 32, mx.float32, "mxfp4"))

    inputs, group = 32 * scale, 16
    runs = np.arange(inputs) // group
    mixed = rng.permutation(runs)
    for bits in [2, 3, 4, 8]:
        for less_one in ["codes", None] if bits == 4 else ["codes"]:
            order = mixed if less_one == "codes" and bits in (3, 4) else runs
            # Fewer outputs than 32 of 3 bits fill no whole words.
            count, outputs = inputs // group, (32 if bits == 3 else 16) * scale
            codes = rng.integers(0, 2**bits, (inputs, outputs), dtype=np.uint32)
            zeros = rng.integers(1 if less_one else 0, 2**bits, (count, outputs), dtype=np.uint32)
            scales = random_scales(count, outputs, bits)
            name = f"gptq-{bits}-{'v1' if less_one else 'v2'}-{'mixed' if order is mixed else 'runs'}"
            tensors = gptq_layer(codes, zeros, scales, bits, None if bits == 8 else order, less_one)
            add(name, tensors, expand(codes, zeros, scales, order))
    outputs = 16 * scale
    codes = rng.integers(0, 16, (inputs, outputs), dtype=np.uint32)
    zeros = rng.integers(0, 16, (1, outputs), dtype=np.uint32)
    scales = random_scales(1, outputs, 4)
    one = np.zeros(inputs, dtype=np.int64)
    add("gptq-4-v1-borrowed", gptq_layer(codes, zeros, scales, 4, None, "words"), expand(codes, zeros, scales, one))
    zeros = rng.integers(0, 16, (inputs // group, outputs), dtype=np.uint32)
    scales = random_scales(*zeros.shape, 4)
    add("awq-4", awq_layer(codes, zeros, scales), expand(codes, zeros, scales, runs))
    # Of 3 bits, 16 outputs are a word and a half.
    for bits, with_zeros in [(4, False), (3, True), (8, True)]:
        codes = rng.integers(0, 2**bits, (inputs, outputs), dtype=np.uint32)
        zeros = np.full((inputs // group, outputs), 2 ** (bits - 1), dtype=np.uint32)
        if with_zeros:
            zeros = rng.integers(0, 2**bits, zeros.shape, dtype=np.uint32)
        scales = random_scales(*zeros.shape, bits)
        order = mixed if bits == 8 else runs
        tensors = compressed_layer(codes, zeros, scales, bits, with_zeros, order if bits == 8 else None)
        add(f"ct-{bits}{'-zeros' if with_zeros else ''}", tensors, expand(codes, zeros, scales, order))
    return all_tensors


def pack_model(kind, model, rng):
    """The tensors of a checkpoint, and what config.json says of them; the model gets the values that they stand for."""
    tensors, layers = {}, {}
    for name, weight in model.named_parameters():
        stem = name.removesuffix(".weight")
        is_matrix = weight.dim() == 2
        values = weight.detach().numpy()
        if not is_matrix or (kind != "mlx" and "embed" in name):
            tensors[name] = weight.detach().to(torch.float16)
            expected = tensors[name].float()
        elif kind == "mlx":
            special = {"down_proj": (3, 32), "q_proj": (8, 32), "o_proj": (6, 32)}
            bits, group = special.get(stem.split(".")[-1], (4, 32))
            if (bits, group) != (4, 32):
                layers[stem] = {"group_size": group, "bits": bits}
            packed, expected = mlx_layer(values, bits, group, mx.bfloat16)
            tensors.update({f"{stem}.{part}": tensor for part, tensor in packed.items()})
        else:
            inputs = values.shape[1]
            groups_of = np.arange(inputs) // (16 if kind == "gptq" else 32)
            if kind == "gptq":
                groups_of = rng.permutation(groups_of)
            codes, zeros, scales = rounded(values, 4, groups_of)
            packed = gptq_layer(codes, zeros, scales, 4, groups_of) if kind == "gptq" else awq_layer(codes, zeros, scales)
            if kind == "gptq":
                # AutoGPTQ gave every layer a bias, also where the model has none.
                packed["bias"] = torch.zeros(values.shape[0], dtype=torch.float16)
            tensors.update({f"{stem}.{part}": tensor for part, tensor in packed.items()})
            expected = expand(codes, zeros, scales, groups_of)
        with torch.no_grad():
            weight.copy_(expected)
    settings = {
        "mlx": {"group_size": 32, "bits": 4, "mode": "affine", **layers},
        "gptq": {
            "quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": True, "sym": False,
            "checkpoint_format": "gptq", "pack_dtype": "int32",
        },
        "awq": {
            "quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True,
            "modules_to_not_convert": None,
        },
    }[kind]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}, settings


def make_model(kind, folder, seed, scale):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=32 * scale, intermediate_size=32 * scale, num_hidden_layers=1,
        num_attention_heads=2 * scale, num_key_value_heads=scale, head_dim=16, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=True)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            values = torch.randn(weight.shape)
            weight.copy_(values * 2 / weight.shape[-1] ** 0.5 if weight.dim() > 1 else 1 + values * 0.3)
    tensors, settings = pack_model(kind, model, rng)
    model.tie_weights()
    ids = torch.randint(0, VOCAB, (TOKENS,))
    with torch.no_grad():
        logits = model(ids[None]).logits[0].float()
        out = ids[:20]
        for _ in range(GREEDY):
            out = torch.cat([out, model(out[None]).logits[0, -1].argmax()[None]])
    nll = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "mlx" if kind == "mlx" else "pt"})
    save_file(
        {
            "input_ids": ids.to(torch.int32), "logits_last8": logits[-8:].contiguous(), "nll": nll,
            "greedy_prompt20": out[20:].to(torch.int32),
        },
        os.path.join(folder, "expected.safetensors"))
    fields = {key: value for key, value in config.to_diff_dict().items() if value is not None}
    fields.update(model_type="llama", attention_bias=False, mlp_bias=False, tie_word_embeddings=True)
    fields["quantization_config"] = settings
    if kind == "mlx":
        fields["quantization"] = settings
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(fields, file, indent=1, sort_keys=True)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1, help="factor on all widths")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    save_file(vectors(rng, args.scale), os.path.join(args.out, "vectors.safetensors"))
    for i, kind in enumerate(["mlx", "gptq", "awq"]):
        make_model(kind, os.path.join(args.out, kind), args.seed + i, args.scale)


if __name__ == "__main__":
    main()
