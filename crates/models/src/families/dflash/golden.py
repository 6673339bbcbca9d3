"""Golden recipes of DFlash and DSpark: draft models that predict blocks of tokens, for models of several vendors."""

from tiny_models import HAND
from tiny_parts import NORMS, attention, mlp, weights

QWEN3_DRAFT = dict(HAND, head_dim=8, model_type="qwen3", rope_theta=1000000.0, num_hidden_layers=2)


def dflash(config: dict, more: dict = {}, start: str = "") -> dict:
    names = weights(**{f"{start}norm": [32]}, **{f"{start}hidden_norm": [32]}, **{f"{start}fc": [32, 64]})
    return names | {f"{start}layers.{bid}.{name}": shape for bid in range(2)
        for name, shape in (NORMS | attention(norms=8) | mlp()).items()} | more


def dflash2(config: dict) -> dict:
    conv = {f"layers.{bid}.{part}_conv.{name}": shape for bid in range(2) for part in ("attention", "mlp")
        for name, shape in (("base_kernel", [4, 8]), ("kernel_projection.weight", [32, 32]))}
    return dflash(config, conv | {"embed_tokens.weight": [384, 32], "candidate_selector.predecessor_codebook": [384, 4],
        "candidate_selector.successor_codebook": [384, 4], "candidate_selector.hidden_projection.weight": [4, 32],
        "layers.0.self_attn.attention_sink_bias": [4], "layers.1.self_attn.attention_sink_bias": [4]})


def gemma4_dspark(config: dict) -> dict:
    norms = {f"{name}.weight": [32] for name in ("input_layernorm", "post_attention_layernorm",
        "pre_feedforward_layernorm", "post_feedforward_layernorm")}
    each = norms | mlp() | {"layer_scalar": [1]} | weights(self_attn__q_proj=[64, 32], self_attn__k_proj=[16, 32],
        self_attn__o_proj=[32, 64], self_attn__q_norm=[16], self_attn__k_norm=[16])
    return weights(norm=[32], hidden_norm=[32], fc=[32, 64], embed_tokens=[384, 32], lm_head="=embed_tokens.weight 384x32", confidence_proj=[1, 36]) | MARKOV | {
        "confidence_proj.bias": [1]} | {f"layers.{bid}.{name}": shape for bid in range(2) for name, shape in each.items()}


MARKOV = weights(markov_head__markov_w1=[384, 4], markov_head__markov_w2=[384, 4])
CONFIDENCE = {"confidence_head.proj.weight": [1, 36], "confidence_head.proj.bias": [1]}
DRAFT = dict(tokenizer="bpe", target="qwen3")

CHECKPOINTS = {
    "dflash": dict(DRAFT, hand=dflash, config=dict(QWEN3_DRAFT, architectures=["DFlashDraftModel"], block_size=8,
        dflash_config=dict(mask_token_id=7, target_layer_ids=[0, 1]))),
    "dflash-target-sections": dict(hand=dflash2, tokenizer="bpe", target="qwen3vl", config=dict(QWEN3_DRAFT,
        architectures=["DFlash2DraftModel"], is_causal=False, use_sliding_window=True, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], rope_scaling=dict(rope_type="default",
        partial_rotary_factor=0.5), dflash_config=dict(block_size=4, mask_token_id=5, target_layer_ids=[1],
        attention_value_scale=0.5, conv_kernel_size=4, conv_group_size=8, selector_rank=4, selector_top_k=8,
        output_multiplier=0.5, final_logit_softcapping=30.0, input_embedding_scale=2.0))),
    # With a target of the draft's embedding length, so that it can be run.
    "dflash2": dict(hand=lambda config: {name: [2, 4, 32] if name.endswith("base_kernel") else shape
        for name, shape in dflash2(config).items()} | {"lm_head.weight": [384, 32]}, tokenizer="bpe", target="mimo2", config=dict(QWEN3_DRAFT,
        architectures=["DFlash2DraftModel"], is_causal=False, use_sliding_window=True, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], dflash_config=dict(block_size=4, mask_token_id=5,
        target_layer_ids=[0, 3], conv_kernel_size=4, conv_group_size=8, selector_rank=4, selector_top_k=5,
        output_multiplier=0.5, final_logit_softcapping=30.0, input_embedding_scale=2.0))),
    "dspark": dict(DRAFT, hand=lambda config: dflash(config, MARKOV | CONFIDENCE | {"lm_head.weight": [384, 32]}),
        config=dict(QWEN3_DRAFT, architectures=["Qwen3DSparkModel"], block_size=4, mask_token_id=6,
        target_layer_ids=[0, 1])),
    "dspark-speculator": dict(DRAFT, vocab_size=384, hand=lambda config: dflash(config,
        weights(markov_head__markov_w1=[96, 4], markov_head__markov_w2=[96, 4],
        lm_head=[96, 32]) | {"d2t": "steps:3 96 I64",
        "t2d": "numbers:" + "x".join("0" for _ in range(384)) + " 384 I64"}),
        config=dict(architectures=["DSparkSpeculator"], draft_vocab_size=96, aux_hidden_state_layer_ids=[1, 2],
        mask_token_id=9, transformer_layer_config=QWEN3_DRAFT)),
    # An output of its own, with the values of the embedding.
    "gemma4-dspark": dict(ahead=True, hand=gemma4_dspark, tokenizer="llama_bpe", target="gemma4", raw_config=True,
        config=dict(HAND, architectures=["Gemma4DSparkModel"], model_type="gemma4_text", head_dim=8,
        global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True, layer_types=["full_attention"] * 2,
        mask_token_id=4, target_layer_ids=[1, 3], block_size=7, tie_word_embeddings=True,
        hidden_activation="gelu_pytorch_tanh", rope_parameters=dict(full_attention=dict(rope_type="proportional",
        rope_theta=1000000.0, partial_rotary_factor=0.25)))),
    "dflash-of-gemma": dict(ahead=True, hand=dflash, tokenizer="llama_bpe", target="gemma4", config=dict(QWEN3_DRAFT,
        architectures=["DFlashDraftModel"], block_size=8, dflash_config=dict(mask_token_id=7, target_layer_ids=[0, 1]))),
    "muse-glimmer-assistant": dict(model="muse_glimmer_assistant", **{"class": "MuseGlimmerAssistantModel"}, bare=True,
        tokenizer="bpe", target="muse-glimmer", special=["<|eot|>"], vocab_size=384, config=dict(hidden_size=32,
        intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        max_position_embeddings=512, sliding_window=16, bos_token_id=1, eos_token_id=2, pad_token_id=0, block_size=4,
        mask_token_id=8, target_layer_ids=[1, 3])),
}

DRAFTS = {name: (kind, "mimo2") for name, kind in {"dflash": "draft-dflash", "dflash2": "draft-dflash", "dspark": "draft-dspark",
    "gemma4-dspark": "draft-dspark", "muse-glimmer-assistant": "draft-dflash"}.items()}
