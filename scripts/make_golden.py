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
import json
import os
import shutil
import zlib

import torch
import transformers
from safetensors.torch import load_file, save_file

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


def latent(scale, **changes):
    """Attention by way of latents: widths that fill no block, values of another width than keys."""
    fields = dict(
        num_key_value_heads=4, head_dim="absent", q_lora_rank=24 * scale, kv_lora_rank=20 * scale,
        qk_nope_head_dim=14 * scale, qk_rope_head_dim=6 * scale, v_head_dim=10 * scale, num_hidden_layers=3,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20 * scale, n_shared_experts=2,
        first_k_dense_replace=1)
    fields.update(changes)
    return base(scale, **fields)


def delta_net(scale):
    """Gated delta nets around a layer of attention."""
    return dict(
        linear_num_key_heads=2, linear_key_head_dim=10 * scale, linear_num_value_heads=4,
        linear_value_head_dim=7 * scale, linear_conv_kernel_dim=4, head_dim=16 * scale,
        layer_types=["linear_attention", "full_attention", "linear_attention"], num_hidden_layers=3)


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
    yield "deepseek_v2", t.DeepseekV2Config, latent(
        scale, q_lora_rank=None, topk_method="greedy", routed_scaling_factor=1.5, rms_norm_eps=1e-5), True
    yield "deepseek_v2_groups", t.DeepseekV2Config, latent(
        scale, topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=4.0), True
    yield "deepseek_v3", t.DeepseekV3Config, latent(
        scale, n_group=4, topk_group=2, n_shared_experts=1, rope_parameters=rope(
            "yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=1.0,
            beta_fast=32, beta_slow=1)), True
    yield "glm4_moe_lite", t.Glm4MoeLiteConfig, latent(
        scale, first_k_dense_replace="absent", n_shared_experts=1, v_head_dim=26 * scale,
        mlp_layer_types=["dense", "sparse", "sparse"]), True
    yield "mistral4", t.Mistral4Config, latent(
        scale, n_shared_experts=1, n_group=2, topk_group=1, rope_parameters=rope(
            "yarn", factor=8.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0,
            beta_fast=32.0, beta_slow=1.0, llama_4_scaling_beta=0.3)), True
    yield "minicpm3", t.MiniCPM3Config, {name: value for name, value in latent(
        scale, scale_emb=3, scale_depth=1.2, dim_model_base=20 * scale, tie_word_embeddings=True).items()
        if "expert" not in name and name not in ("moe_intermediate_size", "first_k_dense_replace")}, True
    gemma4 = dict(
        num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=10 * scale,
        global_head_dim=16 * scale, sliding_window=6, hidden_size_per_layer_input=0, vocab_size_per_layer_input=VOCAB,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)
    yield "gemma4", t.Gemma4TextConfig, base(scale, **{
        **gemma4, "hidden_size_per_layer_input": 12 * scale, "num_kv_shared_layers": 3, "use_double_wide_mlp": True,
        "final_logit_softcapping": 9.0}), True
    yield "gemma4_keys_are_values", t.Gemma4TextConfig, base(scale, **{
        **gemma4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}), True
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
    delta = delta_net(scale)
    yield "qwen3_5", t.Qwen3_5TextConfig, base(scale, tie_word_embeddings=False, **delta), True
    experts = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20 * scale, shared_expert_intermediate_size=12 * scale)
    yield "qwen3_next", t.Qwen3NextConfig, base(scale, mlp_only_layers=[1], **{**delta, **experts}), True
    yield "qwen3_5_moe", t.Qwen3_5MoeTextConfig, base(scale, intermediate_size="absent", **{**delta, **experts}), True


def later_cases(scale):
    """More of them. Their seeds follow from their names, so that a new one changes no other."""
    t = transformers
    moe = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20 * scale)
    yield "gemma", t.GemmaConfig, base(scale), True
    yield "qwen2_moe", t.Qwen2MoeConfig, base(
        scale, head_dim="absent", num_hidden_layers=3, shared_expert_intermediate_size=28 * scale,
        mlp_only_layers=[1], **moe), True
    # Experts in all layers, which is what llama.cpp's converter takes.
    yield "qwen2_moe_experts", t.Qwen2MoeConfig, base(
        scale, head_dim="absent", shared_expert_intermediate_size=28 * scale, **moe), True
    yield "qwen3_next_experts", t.Qwen3NextConfig, base(scale, **{
        **delta_net(scale), "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 20 * scale,
        "shared_expert_intermediate_size": 12 * scale}), True
    older = dict(vocab_size=VOCAB, bos_token_id=0, eos_token_id=1)
    yield "gptj", t.GPTJConfig, dict(
        n_embd=36 * scale, n_head=3, n_layer=2, n_positions=64, n_inner=50 * scale, rotary_dim=6 * scale, **older), True
    yield "mpt", t.MptConfig, dict(d_model=36 * scale, n_heads=3, n_layers=2, max_seq_len=64, attn_config=dict(
        clip_qkv=1.5, softmax_scale=0.2), **older), True
    yield "gpt_bigcode", t.GPTBigCodeConfig, dict(
        n_embd=36 * scale, n_head=3, n_layer=2, n_positions=64, n_inner=50 * scale, **older), True
    hybrid = dict(
        num_attention_heads=5, head_dim="absent", mamba_n_heads=4, mamba_d_head=20 * scale, mamba_n_groups=1,
        mamba_d_state=12 * scale, mamba_expand=2, num_hidden_layers=3, embedding_multiplier=1.5, logits_scaling=1.25,
        residual_multiplier=0.625, attention_multiplier=0.3, shared_intermediate_size=28 * scale,
        layer_types=["linear_attention", "full_attention", "linear_attention"])
    yield "granitemoehybrid", t.GraniteMoeHybridConfig, base(
        scale, num_local_experts=5, num_experts_per_tok=2, **hybrid), True
    yield "granitemoehybrid_dense", t.GraniteMoeHybridConfig, base(
        scale, num_local_experts=0, tie_word_embeddings=True, position_embedding_type="rope", **hybrid), True
    beside = dict(
        num_hidden_layers=3, mamba_d_ssm=60 * scale, mamba_n_heads=4, mamba_d_head=15 * scale,
        mamba_d_state=12 * scale, mamba_chunk_size=16)
    yield "falcon_h1", t.FalconH1Config, base(
        scale, mamba_n_groups=2, embedding_multiplier=1.5, lm_head_multiplier=0.8, mlp_multipliers=[0.7, 1.3],
        key_multiplier=0.6, attention_in_multiplier=1.1, attention_out_multiplier=0.9, ssm_in_multiplier=1.25,
        ssm_multipliers=[0.8, 0.9, 1.1, 1.2, 0.7], ssm_out_multiplier=0.75, **beside), True
    # Without factors, which the files of llama.cpp's converter have in their weights.
    yield "falcon_h1_norm", t.FalconH1Config, base(
        scale, mamba_n_groups=1, mamba_rms_norm=True, mamba_norm_before_gate=False, attention_bias=True,
        mlp_bias=True, **beside), True
    altup = dict(
        num_hidden_layers=6, num_key_value_heads=2, hidden_size_per_layer_input=12 * scale,
        vocab_size_per_layer_input=VOCAB - 7, num_kv_shared_layers=3, sliding_window=6, laurel_rank=9 * scale,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)
    yield "gemma3n", t.Gemma3nTextConfig, base(scale, **{
        **altup, "activation_sparsity_pattern": [0.95, 0.5, 0.0, 0.0, 0.2, 0.0],
        # As many as GGUF files have.
        "vocab_size_per_layer_input": VOCAB}), True
    # Three streams, gates as they are, no sharing, a scaled rotation.
    yield "gemma3n_plain", t.Gemma3nTextConfig, base(scale, **{
        **altup, "num_kv_shared_layers": 0, "altup_num_inputs": 3, "final_logit_softcapping": 9.0,
        "rope_parameters": dict(
            full_attention=rope("linear", 50000.0, factor=2.0), sliding_attention=rope("default", 900.0))}), True
    mimo = dict(
        num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2, v_head_dim=7 * scale, sliding_window=6,
        n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20 * scale)
    yield "mimo_v2_flash", t.MiMoV2FlashConfig, base(
        scale, layer_types=["full_attention", "sliding_attention", "sliding_attention"], **mimo), True
    yield "mimo_v2_flash_windows", t.MiMoV2FlashConfig, base(
        scale, layer_types=["sliding_attention"] * 3, mlp_layer_types=["sparse", "dense", "sparse"], attention_bias=True,
        attention_value_scale=1.0, routed_scaling_factor=2.5, norm_topk_prob=False, **mimo), True
    kimi = dict(
        num_hidden_layers=4, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=20 * scale, qk_nope_head_dim=14 * scale,
        qk_rope_head_dim=6 * scale, v_head_dim=10 * scale, num_experts=7, num_experts_per_token=3, num_shared_experts=1,
        moe_intermediate_size=20 * scale, linear_head_dim=9 * scale, linear_num_heads=3, head_dim="absent")
    yield "kimi_linear", t.KimiLinearConfig, base(scale, **{
        **kimi, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}), True
    yield "kimi_linear_ranks", t.KimiLinearConfig, base(scale, **{
        **kimi, "q_lora_rank": 24 * scale, "num_shared_experts": 2, "moe_renormalize": False, "linear_conv_kernel_dim": 3,
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
        "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]}), True
    # Without rotation, as released, and with.
    separate = dict(
        num_attention_heads=5, head_dim="absent", num_hidden_layers=3, linear_num_key_heads=2,
        linear_key_head_dim=14 * scale, linear_num_value_heads=4, linear_value_head_dim=9 * scale,
        layer_types=["linear_attention", "full_attention", "linear_attention"])
    yield "olmo_hybrid", t.OlmoHybridConfig, base(
        scale, rope_parameters=dict(rope_type="default", rope_theta=None), **separate), True
    yield "olmo_hybrid_rope", t.OlmoHybridConfig, base(
        scale, rope_parameters=rope("default"), linear_allow_neg_eigval=False, **separate), True
    selective = dict(
        vocab_size=VOCAB, hidden_size=40 * scale, num_hidden_layers=2, bos_token_id=0, eos_token_id=1,
        pad_token_id=None, state_size=12, time_step_rank=7 * scale)
    yield "mamba", t.MambaConfig, selective, True
    yield "falcon_mamba", t.FalconMambaConfig, dict(
        selective, state_size=20, tie_word_embeddings=False, mixer_rms_eps=1e-4), True
    yield "jamba", t.JambaConfig, base(
        scale, num_attention_heads=5, head_dim="absent", num_hidden_layers=4, attn_layer_period=3, attn_layer_offset=1,
        num_experts=5, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=12,
        mamba_dt_rank=7 * scale), True
    yield "olmo", t.OlmoConfig, base(scale, head_dim="absent", clip_qkv=1.5), True
    yield "olmo3", t.Olmo3Config, base(
        scale, head_dim="absent", num_hidden_layers=4, sliding_window=6, num_key_value_heads=2,
        max_position_embeddings=256, rope_parameters={
            "full_attention": rope("yarn", factor=4.0, original_max_position_embeddings=64),
            "sliding_attention": rope("default")}), True
    yield "olmoe", t.OlmoeConfig, base(
        scale, head_dim="absent", num_experts=6, num_experts_per_tok=3, num_key_value_heads=4, clip_qkv=2.0), True
    factors = dict(embedding_multiplier=1.5, logits_scaling=1.25, residual_multiplier=0.625, attention_multiplier=0.3)
    yield "granite", t.GraniteConfig, base(
        scale, head_dim="absent", tie_word_embeddings=True, mlp_bias=True, attention_bias=True, **factors), True
    yield "granitemoe", t.GraniteMoeConfig, base(
        scale, head_dim="absent", num_local_experts=5, num_experts_per_tok=2, **factors), True
    yield "granitemoeshared", t.GraniteMoeSharedConfig, base(
        scale, head_dim="absent", num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=24 * scale,
        tie_word_embeddings=True, **factors), True
    yield "glm", t.GlmConfig, base(scale, partial_rotary_factor=0.5, attention_bias=True), True
    yield "glm4", t.Glm4Config, base(
        scale, num_key_value_heads=2, attention_bias=True, rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    routed = dict(
        n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20 * scale, n_group=3, topk_group=2,
        norm_topk_prob=True, routed_scaling_factor=1.5, first_k_dense_replace=1, num_hidden_layers=3)
    yield "glm4_moe", t.Glm4MoeConfig, base(
        scale, n_shared_experts=2, use_qk_norm=True, attention_bias=True, **routed), True
    yield "glm4_moe_plain", t.Glm4MoeConfig, base(
        scale, n_shared_experts=1, use_qk_norm=False, num_key_value_heads=2, **{**routed, "n_group": 1, "topk_group": 1}), True
    yield "cohere", t.CohereConfig, square(scale, logit_scale=0.25, use_qk_norm=True), True
    yield "cohere2", t.Cohere2Config, square(
        scale, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=6,
        num_key_value_heads=1, logit_scale=0.25), True
    yield "ernie4_5", t.Ernie4_5Config, base(scale, use_bias=True, tie_word_embeddings=True), True
    yield "ernie4_5_moe", t.Ernie4_5_MoeConfig, base(
        scale, head_dim="absent", num_hidden_layers=3, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2,
        moe_intermediate_size=20 * scale, moe_layer_start_index=1, num_key_value_heads=2), True
    yield "seed_oss", t.SeedOssConfig, base(scale, attention_bias=True, attention_out_bias=False), True
    yield "exaone4", t.Exaone4Config, base(
        scale, num_hidden_layers=4, sliding_window=6, sliding_window_pattern=2, num_key_value_heads=2), True
    yield "exaone4_full", t.Exaone4Config, base(
        scale, sliding_window=None, layer_types=["full_attention"] * 2), True
    yield "starcoder2", t.Starcoder2Config, base(scale, head_dim="absent", sliding_window=9), True
    yield "stablelm", t.StableLmConfig, square(
        scale, use_qkv_bias=True, num_key_value_heads=3, rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    yield "stablelm_parallel", t.StableLmConfig, square(
        scale, use_parallel_residual=True, num_key_value_heads=1,
        rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    yield "ministral", t.MinistralConfig, base(
        scale, num_hidden_layers=3, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        sliding_window=6), True
    yield "ministral3", t.Ministral3Config, base(scale, num_key_value_heads=2, rope_parameters=rope(
        "yarn", 1000000.0, factor=8.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
        mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)), True
    yield "gpt_oss", t.GptOssConfig, base(
        scale, num_hidden_layers=3, num_local_experts=5, num_experts_per_tok=2, sliding_window=6, swiglu_limit=1.5,
        num_key_value_heads=2, rope_parameters=rope(
            "yarn", 150000.0, factor=8.0, original_max_position_embeddings=16, truncate=False)), True
    yield "gpt_oss_mxfp4", t.GptOssConfig, base(
        scale, hidden_size=64 * scale, intermediate_size=32 * scale, num_local_experts=4, num_experts_per_tok=3,
        sliding_window=7, rope_parameters=rope("default", 150000.0)), True
    yield "arcee", t.ArceeConfig, base(scale), True
    yield "nemotron", t.NemotronConfig, base(scale, rope_parameters=rope("default", partial_rotary_factor=0.5)), True
    yield "helium", t.HeliumConfig, base(scale, head_dim=10 * scale, num_key_value_heads=2), True
    yield "hunyuan_v1_dense", t.HunYuanDenseV1Config, base(scale, num_key_value_heads=2, rope_parameters=rope(
        "dynamic", factor=1.0, alpha=50.0)), True
    yield "hunyuan_v1_moe", t.HunYuanMoEV1Config, base(
        scale, num_key_value_heads=2, num_experts=5, moe_topk=2), True
    yield "dots1", t.Dots1Config, base(
        scale, n_shared_experts=2, num_key_value_heads=2, **routed), True
    yield "solar_open", t.SolarOpenConfig, base(
        scale, n_shared_experts=1, num_key_value_heads=2, **{**routed, "first_k_dense_replace": "absent"}), True
    yield "apertus", t.ApertusConfig, base(scale, head_dim="absent"), True
    mamba2 = dict(n_groups=2, conv_kernel=4, expand=2, chunk_size=16)
    yield "mamba2", t.Mamba2Config, dict(
        vocab_size=VOCAB, hidden_size=40 * scale, num_hidden_layers=3, num_heads=4, head_dim=20 * scale,
        state_size=12 * scale, bos_token_id=0, eos_token_id=1, pad_token_id=None, **mamba2), True
    nemotron = dict(
        intermediate_size=56 * scale, num_attention_heads=4, num_key_value_heads=2, head_dim=14 * scale,
        mamba_num_heads=6, mamba_head_dim=10 * scale, ssm_state_size=12 * scale, **mamba2)
    yield "nemotron_h", t.NemotronHConfig, base(
        scale, num_hidden_layers="absent", layers_block_type=[
            "linear_attention", "mlp", "full_attention", "linear_attention", "linear_attention", "mlp"], **nemotron), True
    yield "nemotron_h_moe", t.NemotronHConfig, base(
        scale, num_hidden_layers="absent", layers_block_type=[
            "linear_attention", "moe", "full_attention", "moe", "mlp"], n_routed_experts=6, num_experts_per_tok=3,
        moe_intermediate_size=20 * scale, moe_shared_expert_intermediate_size=28 * scale, n_group=3, topk_group=2,
        routed_scaling_factor=1.5, **nemotron), True
    llama4 = dict(
        num_hidden_layers=4, num_local_experts=6, num_experts_per_tok=2, intermediate_size=20 * scale,
        intermediate_size_mlp=56 * scale, interleave_moe_layer_step=2, no_rope_layer_interval=2, floor_scale=7,
        attention_chunk_size=6)
    yield "llama4_text", t.Llama4TextConfig, base(scale, **llama4), True
    yield "llama4_text_plain", t.Llama4TextConfig, base(scale, **{
        **llama4, "use_qk_norm": False, "attn_temperature_tuning": False, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1, "num_key_value_heads": 2, "attention_bias": True}), True
    falcon = dict(
        vocab_size=VOCAB, hidden_size=48 * scale, num_hidden_layers=2, num_attention_heads=6, bos_token_id=0, eos_token_id=1)
    yield "falcon", t.FalconConfig, falcon, True
    yield "falcon_groups", t.FalconConfig, dict(
        falcon, new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=100 * scale, tie_word_embeddings=False), True
    yield "falcon_one_norm", t.FalconConfig, dict(
        falcon, new_decoder_architecture=True, num_kv_heads=3, num_ln_in_parallel_attn=1, bias=True), True
    yield "falcon_alibi", t.FalconConfig, dict(
        falcon, alibi=True, multi_query=False, parallel_attn=False, bias=True), True
    yield "bitnet", t.BitNetConfig, base(
        scale, head_dim="absent", tie_word_embeddings=True, rope_parameters=rope("default", 500000.0)), True
    yield "bitnet_packed", t.BitNetConfig, base(
        scale, head_dim="absent", num_key_value_heads=2, tie_word_embeddings=False), True
    yield "phimoe", t.PhimoeConfig, base(
        scale, head_dim="absent", num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.3, attention_bias=True,
        lm_head_bias=True, rope_parameters=rope(
            "longrope", short_factor=[1.0 + 0.1 * i for i in range(5 * scale)],
            long_factor=[1.5 + 0.7 * i for i in range(5 * scale)], short_mscale=1.2, long_mscale=1.2,
            original_max_position_embeddings=64)), True
    yield "codegen", t.CodeGenConfig, dict(
        n_embd=48 * scale, n_head=6, n_layer=2, n_positions=64, n_inner=50 * scale, rotary_dim=6 * scale, **older), True
    yield "internlm3", t.InternLM3Config, base(
        scale, qkv_bias=True, bias=True, rope_parameters=rope("dynamic", 50000.0, factor=6.0)), True
    yield "hyperclovax", t.HyperCLOVAXConfig, base(
        scale, embedding_multiplier=1.5, logits_scaling=0.8, residual_multiplier=0.625, attention_multiplier=0.3,
        num_key_value_heads=2), True
    yield "hyperclovax_pre", t.HyperCLOVAXConfig, base(scale, use_post_norm=False, tie_word_embeddings=True), True
    yield "gemma4_experts", t.Gemma4TextConfig, base(
        scale, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=10 * scale,
        global_head_dim=16 * scale, sliding_window=6, hidden_size_per_layer_input=0, vocab_size_per_layer_input=VOCAB,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, enable_moe_block=True, num_experts=7,
        top_k_experts=3, moe_intermediate_size=20 * scale), True
    yield "minimax_m2", t.MiniMaxM2Config, base(
        scale, num_local_experts=5, num_experts_per_tok=2, num_key_value_heads=2,
        rope_parameters=rope("default", partial_rotary_factor=0.5)), True


def randomize(model, generator):
    """Weights large enough that every part of the model shows in its logits; values as bf16 holds them."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() > 1:
                values *= 2.0 / weight.shape[-1] ** 0.5
                if "embed" in name or "wte" in name:
                    values = values / values.std() * 0.8
                # Two of its outputs are multiplied with each other, and a third with both.
                if name.endswith("mixer.x_proj.weight"):
                    values = values / 2
            elif name.endswith("bias"):
                values *= 0.3
            elif name.endswith("sinks"):
                pass
            else:
                values = values * 0.3 + weight.mean().round()
            weight.copy_(values.to(torch.bfloat16).float())
        for name, weight in model.named_buffers():
            if "correction_bias" in name or name.endswith("layer_scalar"):
                values = torch.randn(weight.shape, generator=generator) * 0.1 + weight.mean().round()
                weight.copy_(values.to(torch.bfloat16).float())
            elif name.endswith("expert_bias"):
                weight.copy_((torch.randn(weight.shape, generator=generator) * 0.3).to(torch.bfloat16).float())


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_mxfp4(model):
    """Rounds experts to MXFP4, as the hub has those of gpt-oss; the tensors that hold them, by name."""
    packed = {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                continue
            groups = weight.transpose(1, 2).unflatten(2, (-1, 32))  # experts, outputs, groups, inputs of a group
            exponent = torch.ceil(torch.log2(groups.abs().amax(-1, keepdim=True) / 6))
            scaled = groups / 2.0 ** exponent
            code = (scaled.abs()[..., None] - E2M1).abs().argmin(-1)
            weight.copy_((E2M1[code] * scaled.sign() * 2.0 ** exponent).flatten(2).transpose(1, 2))
            code = (code + 8 * (scaled < 0)).to(torch.uint8)
            packed[name + "_blocks"] = code[..., 0::2] | code[..., 1::2] << 4
            packed[name + "_scales"] = (exponent.squeeze(-1) + 127).to(torch.uint8)
    return packed


def to_ternary(model):
    """Rounds matrices of layers to three values, as the hub has those of BitNet; the tensors that hold them, by name."""
    packed = {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("_proj.weight"):
                continue
            scale = weight.abs().mean().to(torch.bfloat16).float()
            codes = (weight / scale).round().clamp(-1, 1)
            weight.copy_(codes * scale)
            rows = (codes + 1).to(torch.uint8).unflatten(0, (4, -1))
            packed[name] = rows[0] | rows[1] << 2 | rows[2] << 4 | rows[3] << 6
            packed[name + "_scale"] = scale[None].to(torch.bfloat16)
    return packed


MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline",
          "modules_to_not_convert": ["lm_head"]}


def save_packed(folder, packed, config_of_it):
    """Puts the packed experts in place of the others, and says so in the configuration."""
    path = os.path.join(folder, "model.safetensors")
    plain = {name: tensor for name, tensor in load_file(path).items() if name + "_blocks" not in packed and name not in packed}
    save_file({**plain, **{name: tensor.contiguous() for name, tensor in packed.items()}}, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["quantization_config"] = config_of_it
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def greedy(model, ids):
    out = ids[:20].clone()
    for _ in range(GREEDY):
        out = torch.cat([out, model(out[None]).logits[0, -1].argmax()[None]])
    return out[20:]


def make(folder, config_class, fields, with_greedy, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_class(**fields)
    # Falcon's eager attention adds ALiBi twice, its default once, as the model was trained.
    attention = "sdpa" if folder.endswith("falcon_alibi") else "eager"
    config._attn_implementation = attention
    # Not every text part of a larger model has an entry among the automatic classes.
    model_class = getattr(transformers, config_class.__name__.replace("Config", "ForCausalLM"), None)
    known = config_class in transformers.AutoModelForCausalLM._model_mapping
    from_config = transformers.AutoModelForCausalLM.from_config if known else model_class._from_config
    model = from_config(config, attn_implementation=attention).float().eval()
    randomize(model, generator)
    packed = to_mxfp4(model) if folder.endswith("_mxfp4") else to_ternary(model) if folder.endswith("bitnet_packed") else {}
    model.tie_weights()
    ids = torch.randint(0, VOCAB, (TOKENS,), generator=generator)
    with torch.no_grad():
        logits = model(ids[None]).logits[0].float()
        nll = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
        continued = greedy(model, ids) if with_greedy else torch.zeros(0, dtype=torch.long)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    if packed:
        save_packed(folder, packed, MXFP4 if folder.endswith("_mxfp4") else BITNET)
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
    all_cases = [(case, i) for i, case in enumerate(cases(args.scale))]
    all_cases += [(case, 100 + zlib.crc32(case[0].encode()) % 900) for case in later_cases(args.scale)]
    for (name, config_class, fields, with_greedy), number in all_cases:
        if not args.only or name in args.only.split(","):
            make(os.path.join(args.out, name), config_class, fields, with_greedy, args.seed * 1000 + number)
            print(name, flush=True)


if __name__ == "__main__":
    main()
