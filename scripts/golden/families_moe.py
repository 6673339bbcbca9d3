"""Tiny checkpoints of mixtures of experts, for arch.py. Keys are those of families.py."""

from families import FACTORS, LLAMA3, OLD

YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)

# Widths that differ from each other, so that a shape says which is which; 12 experts, so that 10 comes after 9.
TINY = dict(vocab_size=288, hidden_size=16, intermediate_size=24)


LATENT = dict(moe_intermediate_size=12, first_k_dense_replace=1, kv_lora_rank=6, qk_nope_head_dim=8,
    qk_rope_head_dim=4, v_head_dim=5,
              num_key_value_heads=4)
# Rows of blocks need a multiple of 32.
GPT_OSS = dict(TINY, hidden_size=32, intermediate_size=64, num_local_experts=3, num_experts_per_tok=2, head_dim=8,
    sliding_window=64)
MXFP4 = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
    "model.embed_tokens", "lm_head"])
DBRX = dict(d_model=16, n_heads=4, n_layers=2, max_seq_len=512, vocab_size=288,
    attn_config=dict(kv_n_heads=2, clip_qkv=8.0, rope_theta=500000.0),
            ffn_config=dict(ffn_hidden_size=12, moe_num_experts=4, moe_top_k=2))
LLAMA4 = dict(TINY, intermediate_size=12, intermediate_size_mlp=20, num_local_experts=3, num_experts_per_tok=1,
    head_dim=4, interleave_moe_layer_step=2)
NEXT = dict(moe_intermediate_size=12, shared_expert_intermediate_size=20, head_dim=8, linear_num_key_heads=2,
    linear_num_value_heads=4,
            linear_key_head_dim=4, linear_value_head_dim=6, layer_types=["linear_attention", "full_attention"])


GLM_SPECIAL = ["<|endoftext|>", "[MASK]", "[gMASK]", "<|user|>", "<|observation|>"]
PHI_ROPE = dict(rope_type="longrope", rope_theta=10000.0, short_mscale=1.25, long_mscale=1.5,
    original_max_position_embeddings=256, **FACTORS)
# A config.json as the Hub has it, of families whose code comes with the checkpoint.
HAND = dict(TINY, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    bos_token_id=1, eos_token_id=2,
            pad_token_id=0, torch_dtype="bfloat16", rms_norm_eps=1e-6, moe_intermediate_size=12, num_experts_per_tok=2,
                tie_word_embeddings=False)


def by_layer(i: int, attention: dict, mixture: bool, shared: int) -> dict:
    """The tensors of a layer, dense or a mixture of four experts of 12 rows."""
    names = {"input_layernorm": [16], "post_attention_layernorm": [16], **attention}
    parts = {"mlp": 24}
    if mixture:
        names["mlp.gate"] = [4, 16]
        parts = {f"mlp.experts.{x}": 12 for x in range(4)} | {"mlp.shared_experts": shared}
    for part, rows in parts.items():
        names |= {f"{part}.gate_proj": [rows, 16], f"{part}.up_proj": [rows, 16], f"{part}.down_proj": [16, rows]}
    return {f"model.layers.{i}.{name}.weight": shape for name, shape in names.items()}


def deepseek() -> dict:
    attention = {f"self_attn.{x}_proj": [8 if x in "kv" else 16, 16] for x in "qkvo"}
    return {"model.embed_tokens.weight": [288, 16], **by_layer(0, attention, False, 24),
        **by_layer(1, attention, True, 24),
            "model.norm.weight": [16], "lm_head.weight": [288, 16]}


def bailing_first() -> dict:
    attention = {"attention.query_key_value": [32, 16], "attention.dense": [16, 16]}
    return {"model.word_embeddings.weight": [288, 16], **by_layer(0, attention, True, 24),
        **by_layer(1, attention, True, 24),
            "model.norm.weight": [16], "lm_head.weight": [288, 16]}


def bailing() -> dict:
    attention = {"attention.query_key_value": [32, 16], "attention.dense": [16, 16], "attention.query_layernorm": [4],
        "attention.key_layernorm": [4]}
    last = {f"model.layers.2.{name}.weight": shape for name, shape in {
        "eh_proj": [16, 32], "enorm": [16], "hnorm": [16], "final_layernorm": [16]}.items()}
    bias = {f"model.layers.{i}.mlp.gate.expert_bias": [4] for i in (1, 2)}
    return {"model.word_embeddings.weight": [288, 16], **by_layer(0, attention, False, 12),
        **by_layer(1, attention, True, 12),
            **by_layer(2, attention, True, 12), **last, **bias, "model.norm.weight": [16], "lm_head.weight": [288, 16]}


def few(n_experts: str = "num_experts", **more) -> dict:
    """What a config of a few small experts says."""
    return dict(TINY, num_experts_per_tok=2, **{n_experts: 4}, **more)


MOE = {
    "qwen2moe": dict(model="qwen2_moe", tokenizer="bpe", config=few(moe_intermediate_size=12,
        shared_expert_intermediate_size=20)),
    "qwen2moe-old": dict(model="qwen2_moe", tokenizer="bpe", drop=("layer_types",), config=dict(
        few(moe_intermediate_size=4, shared_expert_intermediate_size=8), num_experts=12), old=dict(
            OLD, rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768)),
    "qwen2moe-stacked": dict(model="qwen2_moe", tokenizer="bpe", stacked=True, config=few(
        moe_intermediate_size=12, shared_expert_intermediate_size=20, tie_word_embeddings=True)),
    "qwen3moe": dict(model="qwen3_moe", tokenizer="bpe", config=few(moe_intermediate_size=12, head_dim=8)),
    "qwen3moe-old": dict(model="qwen3_moe", tokenizer="bpe", config=few(moe_intermediate_size=12, head_dim=8),
        old=dict(
        OLD, rope_theta=1000000.0, rope_scaling=None, sliding_window=None)),
    "qwen3moe-stacked": dict(model="qwen3_moe", tokenizer="bpe", stacked=True,
        config=few(moe_intermediate_size=12, head_dim=8)),
    "olmoe": dict(model="olmoe", tokenizer="bpe", config=dict(few(), num_key_value_heads=4, intermediate_size=12)),
    "olmoe-old": dict(model="olmoe", tokenizer="bpe", config=dict(few(), intermediate_size=12, clip_qkv=8.0), old=dict(
        OLD, rope_theta=10000.0, rope_scaling=None)),
    "granitemoe": dict(model="granitemoe", tokenizer="bpe", config=dict(few("num_local_experts"), intermediate_size=12,
        embedding_multiplier=12.0)),
    "granitemoe-old": dict(model="granitemoe", tokenizer="bpe",
        config=dict(few("num_local_experts"), intermediate_size=12, logits_scaling=6.0), old=dict(
        OLD, rope_theta=10000.0, rope_scaling=None)),
    "deepseek2": dict(model="deepseek_v2", tokenizer="bpe", config=dict(
        few("n_routed_experts", q_lora_rank=None, **LATENT), n_shared_experts=1, rope_parameters=YARN)),
    "deepseek2-old": dict(model="deepseek_v2", tokenizer="bpe", config=dict(
        few("n_routed_experts", q_lora_rank=10, **LATENT), n_shared_experts=2, n_group=2, topk_group=1,
            tie_word_embeddings=True), extra="lm_head",
        drop=("head_dim", "first_k_dense_replace"), old=dict(OLD, rope_theta=10000, scoring_func="softmax",
            topk_method="group_limited_greedy", moe_layer_freq=1,
            first_k_dense_replace=1, aux_loss_alpha=0.001, seq_aux=True, ep_size=1, routed_scaling_factor=16.0,
                rope_scaling=dict(
                type="yarn", factor=40, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, mscale=0.707,
                    mscale_all_dim=0.707))),
    "deepseek3": dict(model="deepseek_v3", tokenizer="bpe", config=dict(
        few("n_routed_experts", q_lora_rank=10, **LATENT), n_shared_experts=1, n_group=2, topk_group=1)),
    "deepseek3-old": dict(model="deepseek_v3", tokenizer="bpe", extra="nextn", config=dict(
        few("n_routed_experts", q_lora_rank=10, **LATENT), n_shared_experts=1, n_group=2, topk_group=1),
            drop=("num_mtp_layers", "head_dim"), old=dict(
            OLD, rope_theta=10000, scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1,
                num_nextn_predict_layers=1, ep_size=1,
            rope_scaling=dict(type="yarn", factor=40, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1,
                mscale=1.0, mscale_all_dim=1.0))),
    "gpt-oss": dict(model="gpt_oss", tokenizer="bpe", config=dict(few("num_local_experts"), intermediate_size=12,
        head_dim=4, sliding_window=64)),
    "gpt-oss-mxfp4": dict(model="gpt_oss", tokenizer="bpe", extra="mxfp4", config=dict(GPT_OSS),
        more=dict(quantization_config=MXFP4)),
    "gpt-oss-mxfp4-old": dict(model="gpt_oss", tokenizer="bpe", extra="mxfp4", config=dict(GPT_OSS), old=dict(
        OLD, rope_theta=150000, initial_context_length=4096, experts_per_token=4, swiglu_limit=7.0,
            quantization_config=MXFP4, rope_scaling=dict(
            rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0,
                truncate=False))),
    "dbrx": dict(model="dbrx", tokenizer="bpe", bare=True, config=dict(DBRX,
        attn_config=dict(kv_n_heads=2, clip_qkv=8.0, rope_theta=500000.0))),
    "dbrx-old": dict(model="dbrx", tokenizer="bpe", bare=True, config=dict(DBRX),
        drop=("rope_parameters", "dtype", "num_key_value_heads"), more=dict(
        torch_dtype="bfloat16", attn_config=dict(clip_qkv=8, kv_n_heads=2, model_type="", rope_theta=500000),
        ffn_config=dict(ffn_act_fn=dict(name="silu"), ffn_hidden_size=12, model_type="", moe_jitter_eps=0.01,
            moe_num_experts=4, moe_top_k=2))),
    "llama4": dict(model="llama4_text", tokenizer="bpe", config=dict(LLAMA4)),
    "llama4-deep": dict(model="llama4_text", tokenizer="bpe", config=dict(LLAMA4, num_hidden_layers=4)),
    "llama4-old": dict(model="llama4_text", tokenizer="bpe", extra="images", config=dict(LLAMA4),
        drop=("layer_types", "no_rope_layers", "moe_layers"), old=dict(
        OLD, for_llm_only=True, rope_theta=500000.0, rope_scaling=dict(LLAMA3, rope_type="llama3",
            high_freq_factor=1.5)), images=dict(
            architectures=["Llama4ForConditionalGeneration"], model_type="llama4",
                vision_config=dict(model_type="llama4_vision_model", hidden_size=8))),
    "qwen3next": dict(model="qwen3_next", tokenizer="bpe", config=few(**NEXT)),
    "qwen3next-old": dict(model="qwen3_next", tokenizer="bpe", extra="mtp", config=few(**NEXT), drop=("layer_types",),
        old=dict(
        OLD, rope_theta=10000000, rope_scaling=None, partial_rotary_factor=0.25, full_attention_interval=2)),
    "deepseek": dict(hand=lambda config: deepseek(), tokenizer="bpe",
        config=dict(HAND, architectures=["DeepseekForCausalLM"], model_type="deepseek", n_routed_experts=4,
        n_shared_experts=2, first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
            rope_theta=10000.0)),
    "dots1": dict(model="dots1", tokenizer="bpe", config=few(
        "n_routed_experts", moe_intermediate_size=12, n_shared_experts=2, first_k_dense_replace=1,
            routed_scaling_factor=2.5, norm_topk_prob=True)),
    "dots1-old": dict(model="dots1", tokenizer="bpe", drop=("layer_types", "num_local_experts"), config=few(
        "n_routed_experts", moe_intermediate_size=12, n_shared_experts=2, first_k_dense_replace=1), old=dict(
            OLD, rope_theta=10000000, rope_scaling=None, n_routed_experts=4, scoring_func="sigmoid",
                sliding_window=None, moe_layer_freq=1)),
    "glm4moe": dict(model="glm4_moe", tokenizer="bpe", special=GLM_SPECIAL, config=few(
        "n_routed_experts", moe_intermediate_size=12, n_shared_experts=1, head_dim=8, attention_bias=True)),
    "glm4moe-old": dict(model="glm4_moe", tokenizer="bpe", special=GLM_SPECIAL, extra="nextn",
        drop=("num_mtp_layers",), config=few(
        "n_routed_experts", moe_intermediate_size=12, n_shared_experts=1, head_dim=8, use_qk_norm=True), old=dict(
            OLD, rope_theta=1000000, rope_scaling=None, partial_rotary_factor=0.5, num_nextn_predict_layers=1)),
    "ernie4_5-moe": dict(model="ernie4_5_moe", tokenizer_config=dict(add_prefix_space=False), config=dict(
        few("moe_num_experts", moe_intermediate_size=12, moe_num_shared_experts=2), vocab_size=384)),
    "ernie4_5-moe-old": dict(model="ernie4_5_moe", extra="ernie", tokenizer_config=dict(add_prefix_space=False),
        drop=("moe_layer_end_index",), config=dict(
        few("moe_num_experts", moe_intermediate_size=12, moe_num_shared_experts=2), vocab_size=384), old=dict(
            OLD, rope_theta=500000.0, moe_layer_end_index=1, moe_use_aux_free=True, num_nextn_predict_layers=1)),
    "minimax-m2": dict(model="minimax_m2", tokenizer="bpe", config=few("num_local_experts", head_dim=8),
        more=dict(rotary_dim=4)),
    "minimax-m2-old": dict(model="minimax_m2", tokenizer="bpe", config=few("num_local_experts", head_dim=8), old=dict(
        OLD, rope_theta=5000000, rotary_dim=4, scoring_func="sigmoid", use_qk_norm=True, use_routing_bias=True,
            shared_intermediate_size=0)),
    "phimoe": dict(model="phimoe", config=dict(few("num_local_experts"), vocab_size=384, attention_bias=True,
        lm_head_bias=True,
        max_position_embeddings=4096, rope_parameters=PHI_ROPE), more=dict(architectures=["PhiMoEForCausalLM"])),
    "phimoe-old": dict(model="phimoe", config=dict(few("num_local_experts"), vocab_size=384,
        max_position_embeddings=4096,
        rope_parameters=PHI_ROPE), old=dict(OLD, rope_theta=10000.0, original_max_position_embeddings=256,
            rope_scaling=dict(
            {key: value for key, value in PHI_ROPE.items() if key not in ("rope_theta", "rope_type")},
                type="longrope")), more=dict(architectures=["PhiMoEForCausalLM"])),
    "bailingmoe": dict(hand=lambda config: bailing_first(), tokenizer="bpe",
        config=dict(HAND, architectures=["BailingMoeForCausalLM"], model_type="bailing_moe", num_experts=4,
        num_shared_experts=2, first_k_dense_replace=0, norm_topk_prob=True, rope_theta=600000, norm_head=False,
            norm_softmax=False)),
    "bailingmoe2": dict(hand=lambda config: bailing(), tokenizer="bpe",
        config=dict(HAND, architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe", num_experts=4,
        num_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5,
            score_function="sigmoid", n_group=2, topk_group=1,
        partial_rotary_factor=0.5, rope_theta=600000, num_nextn_predict_layers=1, head_dim=4, use_qk_norm=True)),
    "granitemoe-shared": dict(model="granitemoeshared", tokenizer="bpe", config=dict(
        few("num_local_experts"), intermediate_size=12, shared_intermediate_size=20, tie_word_embeddings=True)),
}


def with_nextn(tensors: dict, config) -> dict:
    """A layer after the last, as published checkpoints have for predicting the token after the next."""
    import torch
    last = config.num_hidden_layers
    more = {name.replace(f"layers.{last - 1}.", f"layers.{last}."): tensor.clone()
            for name, tensor in tensors.items() if f"layers.{last - 1}." in name}
    more |= {f"model.layers.{last}.{name}.weight": torch.ones(shape, dtype=torch.bfloat16) for name, shape in {
        "eh_proj": [16, 32], "enorm": [16], "hnorm": [16], "shared_head.norm": [16], "embed_tokens": [4, 16]}.items()}
    return tensors | more


def with_mtp(tensors: dict, config) -> dict:
    """The same with the names of Qwen."""
    import torch
    last = config.num_hidden_layers - 1
    more = {name.replace(f"model.layers.{last}.", "mtp.layers.0."): tensor.flip(0).clone()
            for name, tensor in tensors.items() if f"model.layers.{last}." in name}
    more |= {f"mtp.{name}.weight": torch.randn(shape).to(torch.bfloat16) for name, shape in {
        "fc": [16, 32], "pre_fc_norm_embedding": [16], "pre_fc_norm_hidden": [16], "norm": [16]}.items()}
    return tensors | more


def with_blocks(tensors: dict, config) -> dict:
    """Experts in MXFP4: random codes, scales around one."""
    import torch
    done = {}
    for name, tensor in tensors.items():
        if name.endswith(("experts.down_proj", "experts.gate_up_proj")):
            experts, columns, rows = tensor.shape
            done[name + "_blocks"] = torch.randint(0, 256, [experts, rows, columns // 32, 16], dtype=torch.uint8)
            done[name + "_scales"] = torch.randint(120, 130, [experts, rows, columns // 32], dtype=torch.uint8)
        else:
            done[name] = tensor
    return done


def with_images(tensors: dict, config) -> dict:
    """The text part inside a model that sees."""
    import torch
    more = {"vision_model.model.layers.0.mlp.fc1.weight": torch.ones([8, 8], dtype=torch.bfloat16),
            "multi_modal_projector.linear_1.weight": torch.ones([16, 8], dtype=torch.bfloat16)}
    return {"language_model." + name: tensor for name, tensor in tensors.items()} | more


def with_ernie(tensors: dict, config) -> dict:
    """Baidu's own names, and multi-token prediction."""
    import torch
    more = {"model.mtp_emb_norm.0.weight": torch.ones([16], dtype=torch.bfloat16),
            "model.mtp_block.0.mlp.up_proj.weight": torch.ones([24, 16], dtype=torch.bfloat16)}
    return {name.replace("model.", "ernie.", 1): tensor for name, tensor in tensors.items()} | more


def with_turned_experts(tensors: dict, config) -> dict:
    """Stacked experts with rows and columns exchanged."""
    return {name: tensor.transpose(1, 2).contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}


EXTRA = dict(ernie=with_ernie, nextn=with_nextn, mtp=with_mtp, mxfp4=with_blocks, images=with_images,
             turned_experts=with_turned_experts)
