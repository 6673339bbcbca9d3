"""Golden recipes of EAGLE 3: one-layer draft models for models of many vendors."""

from tiny_models import HAND, LLAMA3
from tiny_parts import mlp, weights


def eagle(config: dict, layer: str = "midlayer") -> dict:
    names = weights(fc=[32, 96], norm=[32], lm_head=[96, 32], embed_tokens=[384, 32]) | {
        f"{layer}.{name}": shape for name, shape in (weights(hidden_norm=[32], input_layernorm=[32],
            post_attention_layernorm=[32], self_attn__q_proj=[32, 64], self_attn__k_proj=[16, 64],
            self_attn__v_proj=[16, 64], self_attn__o_proj=[32, 32]) | mlp()).items()}
    return names | {"d2t": "steps:2 96 I64", "t2d": "numbers:" + "x".join("1" for _ in range(384)) + " 384 I64"}


EAGLE = dict(HAND, num_hidden_layers=1, draft_vocab_size=96, model_type="llama", pretraining_tp=1)

CHECKPOINTS = {
    "eagle3": dict(hand=eagle, tokenizer="bpe", target="llama-llama3", config=dict(EAGLE,
        architectures=["LlamaForCausalLMEagle3"])),
    "eagle3-speculator": dict(hand=lambda config: {name: shape for name, shape in eagle(config,
        "layers.0").items() if name != "embed_tokens.weight"} | {"input_norm.weight": [96]}, tokenizer="bpe",
        target="llama", vocab_size=384, config=dict(architectures=["Eagle3Speculator"], draft_vocab_size=96,
        norm_before_residual=True, eagle_aux_hidden_state_layer_ids=[1, 3, 5], target_hidden_size=32,
        norm_before_fc=True, transformer_layer_config=dict(EAGLE, draft_vocab_size=None))),
    # No class of its own; factors of llama 3.
    "eagle3-llama": dict(hand=eagle, tokenizer="bpe", target="llama-llama3", config=dict(EAGLE,
        architectures=["LlamaForCausalLM"], rope_scaling=LLAMA3, rope_theta=500000.0)),
}

DRAFTS = {"eagle3-speculator": ("draft-eagle3", "mimo2")}
