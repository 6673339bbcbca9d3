"""Golden recipes of K2-Horizon, by IFM, which is newer than the pinned reference."""

from tiny_models import hub, layers, sizes


def k2_horizon(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    n_experts, n_values, width = config["num_experts"], config["mova_num_experts"], config["moe_intermediate_size"]
    dense = {"mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f], "self_attn.v_proj": [k, h]}
    mixture = {"mlp.gate": [n_experts, h], **{f"mlp.experts.{xid}.{name}": shape for xid in range(n_experts)
        for name, shape in dict(gate_proj=[width, h], up_proj=[width, h], down_proj=[h, width]).items()}}
    shared = width * config["num_shared_experts"]
    mixture |= {"mlp.shared_experts.gate_proj": [shared, h], "mlp.shared_experts.up_proj": [shared, h],
        "mlp.shared_experts.down_proj": [h, shared]}
    values = {"self_attn.v_router": [n_values, h], **{f"self_attn.v_experts.{xid}": [k, h] for xid in range(n_values)}}
    found = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}
    for layer in range(config["num_hidden_layers"]):
        is_mixture = n_experts > 0 and layer not in config["mlp_only_layers"]
        names = {"input_layernorm": [h], "post_attention_layernorm": [h], "self_attn.q_proj": [q, h],
            "self_attn.k_proj": [k, h], "self_attn.o_proj": [h, q]}
        if config["query_key_norm"]:
            names |= {"self_attn.q_norm": [q], "self_attn.k_norm": [k]}
        if config["attention_gate_func"]:
            names["self_attn.gate_proj"] = [q, h]
        names |= mixture | (values if n_values else {"self_attn.v_proj": [k, h]}) if is_mixture else dense
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in names.items()}
        if is_mixture:
            found[f"model.layers.{layer}.mlp.gate.bias"] = [n_experts]
            if n_values:
                found[f"model.layers.{layer}.self_attn.v_router.bias"] = [n_values]
    return found


K2_HORIZON = dict(head_dim=8, layernorm_num_groups=2, query_key_norm=True, attention_gate_func="softplus", hidden_act="silu",
    rms_norm_eps=1e-6, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=1,
    mlp_only_layers=[0], decoder_sparse_step=1, moe_gate_bias=True, router_score_func="sigmoid", router_scaling_factor=2.5,
    norm_topk_prob=True, mova_num_experts=3, mova_num_experts_per_tok=2, attention_bias=False, rope_head_dim=8,
    rope_parameters=dict(rope_type="default", rope_theta=1000000.0), tie_word_embeddings=False)

CHECKPOINTS = {
    "k2-horizon": dict(ahead=True, hand=k2_horizon, tokenizer="bpe",
        config=hub("K2HorizonForCausalLM", "k2_horizon", **K2_HORIZON)),
    "k2-horizon-dense": dict(ahead=True, hand=k2_horizon, tokenizer="bpe",
        config=hub("K2HorizonForCausalLM", "k2_horizon", **(K2_HORIZON | dict(num_experts=0, num_experts_per_tok=0,
        mova_num_experts=0, mova_num_experts_per_tok=0, layernorm_num_groups=1, attention_gate_func=None,
        query_key_norm=False, mlp_only_layers=[], router_scaling_factor=None, rope_head_dim=None)))),
}

LOGITS = {"k2-horizon": dict(by="reference"), "k2-horizon-dense": dict(by="reference")}
