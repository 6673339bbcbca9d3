"""Golden recipes of CodeShell, by WisdomShell."""

from tiny_models import layers, narrow_hub, sizes, tiny


def codeshell(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    both = {"ln_1": [h], "attn.c_attn": [q + 2 * k, h], "attn.c_proj": [h, q], "ln_2": [h], "mlp.c_fc": [4 * h, h],
        "mlp.c_proj": [h, 4 * h]}
    return {
        "transformer.wte.weight": [v, h],
        **layers(config, {f"transformer.h.{{}}.{name}.weight": shape for name, shape in both.items()}
                 | {f"transformer.h.{{}}.{name}.bias": shape[:1] for name, shape in both.items()}
                 | {"transformer.h.{}.attn.rotary_emb.inv_freq": [2]}),
        "transformer.ln_f.weight": [h], "transformer.ln_f.bias": [h], "lm_head.weight": [v, h],
    }


CHECKPOINTS = {
    "codeshell": tiny(hand=codeshell, tokenizer="bpe", rename=dict(hidden_size="n_embd", num_attention_heads="n_head",
        num_hidden_layers="n_layer", rms_norm_eps="layer_norm_epsilon", num_key_value_heads="num_query_groups",
        max_position_embeddings="n_positions"), remove=("intermediate_size",),
        config=narrow_hub("CodeShellForCausalLM", "codeshell", activation_function="gelu_pytorch_tanh",
        attention_softmax_in_fp32=True, multi_query=True, n_inner=None, position_embedding_type="rope",
        group_query_attention=True)),
}

LOGITS = {"codeshell": dict(by="reference")}
