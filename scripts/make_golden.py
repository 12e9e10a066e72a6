#!/usr/bin/env python3
"""Makes tiny models of every supported architecture with random weights, and what transformers computes with them.

    python3 scripts/make_golden.py tests/fixtures/golden            # what the repository has
    python3 scripts/make_golden.py /tmp/golden --seed 7 --scale 2   # others, larger

Needs torch, transformers and safetensors (made with torch 2.x, transformers 5.x). Each folder is a model directory as
save_pretrained writes it, in bf16, and expected.safetensors: input_ids, logits_last8 (the last 8 positions), nll (every
token but the first) and greedy_prompt20 (greedy continuation of the first 20 tokens), all by transformers in float32 with
its plain ("eager") attention. Shapes are awkward on purpose: widths that are no multiple of 32, head_dim other than
hidden / heads, one key/value head.
"""

import argparse
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file

VOCAB, TOKENS, GREEDY = 80, 40, 12


def base(scale, **changes):
    """Fields that most configurations share."""
    fields = dict(
        vocab_size=VOCAB, hidden_size=40 * scale, intermediate_size=56 * scale, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=1, head_dim=12 * scale, max_position_embeddings=128,
        bos_token_id=0, eos_token_id=1, pad_token_id=None,
    )
    fields.update(changes)
    return {name: value for name, value in fields.items() if value != "absent"}


def square(scale, **changes):
    """Where heads times head_dim must be the hidden width."""
    fields = dict(hidden_size=36 * scale, num_attention_heads=3, head_dim="absent", num_key_value_heads="absent")
    fields.update(changes)
    return base(scale, **fields)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def cases(scale):
    """Folder, configuration class, fields, whether greedy continuation is defined (it is not where it changes rotation)."""
    t = transformers
    half = 6 * scale
    yield "llama", t.LlamaConfig, base(scale, rope_parameters=rope("default", 5000.0)), True
    yield "llama_bias", t.LlamaConfig, base(scale, attention_bias=True, mlp_bias=True, num_key_value_heads=2), True
    yield "llama_linear", t.LlamaConfig, base(scale, rope_parameters=rope("linear", factor=3.0)), True
    yield "llama_dynamic", t.LlamaConfig, base(
        scale, max_position_embeddings=16, rope_parameters=rope("dynamic", factor=4.0)), False
    yield "llama_yarn", t.LlamaConfig, base(scale, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=32)), True
    yield "llama3", t.LlamaConfig, base(scale, tie_word_embeddings=True, rope_parameters=rope(
        "llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), True
    yield "mistral", t.MistralConfig, base(scale, sliding_window=7), True
    yield "mixtral", t.MixtralConfig, base(
        scale, num_local_experts=5, num_experts_per_tok=2, sliding_window=None), True
    yield "phi", t.PhiConfig, square(scale, rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    yield "phi3", t.Phi3Config, square(
        scale, num_key_value_heads=1, sliding_window=9, original_max_position_embeddings=128), True
    for name, original in [("phi3_longrope_short", 64), ("phi3_longrope_long", 16)]:
        yield name, t.Phi3Config, square(
            scale, num_key_value_heads=3, original_max_position_embeddings=original,
            rope_parameters=rope(
                "longrope", short_factor=[1.0 + 0.1 * i for i in range(half)],
                long_factor=[1.5 + 0.7 * i for i in range(half)],
                original_max_position_embeddings=original)), True
    yield "qwen2", t.Qwen2Config, base(scale, head_dim="absent", tie_word_embeddings=False), True
    yield "qwen2_window", t.Qwen2Config, base(
        scale, head_dim="absent", use_sliding_window=True, sliding_window=6, max_window_layers=1), True
    yield "qwen3", t.Qwen3Config, base(scale, tie_word_embeddings=True), True
    yield "qwen3_moe", t.Qwen3MoeConfig, base(
        scale, num_hidden_layers=3, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20 * scale,
        norm_topk_prob=False, mlp_only_layers=[1], decoder_sparse_step=1), True
    yield "gemma2", t.Gemma2Config, base(
        scale, num_hidden_layers=3, query_pre_attn_scalar=17, sliding_window=6, num_key_value_heads=2), True
    yield "gemma3", t.Gemma3TextConfig, base(
        scale, num_hidden_layers=4, query_pre_attn_scalar=10, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "full_attention": rope("linear", 1000000.0, factor=8.0),
            "sliding_attention": rope("default", 10000.0)}), True
    yield "smollm3", t.SmolLM3Config, base(
        scale, head_dim="absent", num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0], num_key_value_heads=2), True
    yield "olmo2", t.Olmo2Config, base(scale, head_dim="absent"), True
    yield "gpt_neox", t.GPTNeoXConfig, square(
        scale, hidden_act="gelu", use_parallel_residual=True,
        rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    yield "gpt_neox_sequential", t.GPTNeoXConfig, square(
        scale, use_parallel_residual=False, attention_bias=False,
        rope_parameters=rope("default", partial_rotary_factor=1.0)), True
    yield "opt", t.OPTConfig, dict(
        vocab_size=VOCAB, hidden_size=36 * scale, ffn_dim=52 * scale, num_hidden_layers=2, num_attention_heads=3,
        max_position_embeddings=64, word_embed_proj_dim=36 * scale, pad_token_id=1, bos_token_id=0, eos_token_id=2), True
    yield "bloom", t.BloomConfig, dict(
        vocab_size=VOCAB, hidden_size=36 * scale, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=1), True
    yield "gpt2", t.GPT2Config, dict(
        vocab_size=VOCAB, n_embd=36 * scale, n_layer=2, n_head=3, n_positions=64, n_inner=50 * scale,
        bos_token_id=0, eos_token_id=1), True
    conv = dict(
        num_key_value_heads=2, head_dim="absent", norm_eps=1e-5, conv_L_cache=3, num_hidden_layers=3,
        layer_types=["conv", "full_attention", "conv"], rope_parameters=rope("default", 1000000.0))
    yield "lfm2", t.Lfm2Config, base(
        scale, intermediate_size=90 * scale, block_multiple_of=8, block_ffn_dim_multiplier=1.1, **conv), True
    yield "lfm2_bias", t.Lfm2Config, base(
        scale, conv_bias=True, block_auto_adjust_ff_dim=False, tie_word_embeddings=False, **conv), True
    yield "lfm2_moe", t.Lfm2MoeConfig, base(
        scale, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20 * scale, num_dense_layers=1,
        routed_scaling_factor=1.5, **conv), True
    mamba = dict(
        mamba_n_heads=4, mamba_d_head=20 * scale, mamba_n_groups=2, mamba_d_state=12 * scale, mamba_expand=2,
        num_hidden_layers=3)
    yield "bamba", t.BambaConfig, base(
        scale, num_attention_heads=5, head_dim="absent", attn_layer_indices=[1], **mamba), True
    delta = dict(
        linear_num_key_heads=2, linear_key_head_dim=10 * scale, linear_num_value_heads=4,
        linear_value_head_dim=7 * scale, linear_conv_kernel_dim=4, head_dim=16 * scale,
        layer_types=["linear_attention", "full_attention", "linear_attention"], num_hidden_layers=3)
    yield "qwen3_5", t.Qwen3_5TextConfig, base(scale, tie_word_embeddings=False, **delta), True
    experts = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20 * scale, shared_expert_intermediate_size=12 * scale)
    yield "qwen3_next", t.Qwen3NextConfig, base(scale, mlp_only_layers=[1], **{**delta, **experts}), True
    yield "qwen3_5_moe", t.Qwen3_5MoeTextConfig, base(scale, intermediate_size="absent", **{**delta, **experts}), True


def randomize(model, generator):
    """Weights large enough that every part of the model shows in its logits; values as bf16 holds them."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() > 1:
                values *= 2.0 / weight.shape[-1] ** 0.5
                if "embed" in name or "wte" in name:
                    values = values / values.std() * 0.8
            elif name.endswith("bias"):
                values *= 0.3
            else:
                values = values * 0.3 + weight.mean().round()
            weight.copy_(values.to(torch.bfloat16).float())
        for name, buffer in model.named_buffers():
            if name.endswith("expert_bias"):
                buffer.copy_((torch.randn(buffer.shape, generator=generator) * 0.3).to(torch.bfloat16).float())


def greedy(model, ids):
    out = ids[:20].clone()
    for _ in range(GREEDY):
        out = torch.cat([out, model(out[None]).logits[0, -1].argmax()[None]])
    return out[20:]


def make(folder, config_class, fields, with_greedy, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_class(**fields)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    randomize(model, generator)
    model.tie_weights()
    ids = torch.randint(0, VOCAB, (TOKENS,), generator=generator)
    with torch.no_grad():
        logits = model(ids[None]).logits[0].float()
        nll = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
        continued = greedy(model, ids) if with_greedy else torch.zeros(0, dtype=torch.long)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    expected = {
        "input_ids": ids.to(torch.int32), "logits_last8": logits[-8:].contiguous(), "nll": nll,
        "greedy_prompt20": continued.to(torch.int32),
    }
    save_file(expected, os.path.join(folder, "expected.safetensors"))
    # It repeats what config.json says.
    path = os.path.join(folder, "generation_config.json")
    if os.path.exists(path):
        os.remove(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1, help="factor on all widths")
    parser.add_argument("--only", help="comma-separated folders")
    args = parser.parse_args()
    for i, (name, config_class, fields, with_greedy) in enumerate(cases(args.scale)):
        if not args.only or name in args.only.split(","):
            make(os.path.join(args.out, name), config_class, fields, with_greedy, args.seed * 1000 + i)
            print(name, flush=True)


if __name__ == "__main__":
    main()
