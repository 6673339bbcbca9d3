"""Golden recipes of GroveMoE, by inclusionAI."""

from tiny_models import FEW, hub, mixtures

CHECKPOINTS = {
    "grovemoe": dict(hand=mixtures(small=8), tokenizer="bpe", config=hub("GroveMoeForCausalLM", "grove_moe",
        **dict(FEW, num_experts=4), head_dim=8, norm_topk_prob=True, rms_norm_eps=1e-6, rope_theta=1000000.0,
        tie_word_embeddings=False)),
}


def rows(folder, tokens):
    """The attention of Qwen 3, and the mixture of GroveMoE by the authors' description: the smaller expert of a group has the inputs
    and weights of the group's experts."""
    import torch
    import transformers
    from logits_own import loaded, read
    config, tensors = read(folder)
    n_layer, n_used, n = config["num_hidden_layers"], config["num_experts_per_tok"], config["num_experts"]
    mixtures = {name: tensors.pop(name) for name in list(tensors) if ".mlp." in name}

    def mixture(layer):
        def run(h):
            part = lambda name: mixtures[f"model.layers.{layer}.mlp.{name}.weight"]
            mlp = lambda name, x: (torch.nn.functional.silu(x @ part(f"{name}.gate_proj").T) * (x @ part(f"{name}.up_proj").T)
                ) @ part(f"{name}.down_proj").T
            logits = h[0] @ part("gate").T
            out = torch.zeros_like(h)
            for t, row in enumerate(logits):
                chosen = row.sigmoid().topk(n_used).indices.tolist()
                weights = row.softmax(-1)[chosen]
                weights = weights / weights.sum()
                for e, weight in zip(chosen, weights):
                    x = h[0, t]
                    out[0, t] += weight * (mlp(f"experts.{e}", x) + 0.05 * mlp(f"chunk_experts.{e // 2}", x))
            return out
        return run

    known = {key: config[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim",
        "num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "max_position_embeddings")}
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**known, intermediate_size=1))
    for layer in model.model.layers:
        layer.mlp = torch.nn.Identity()
    model = loaded(model, {name: tensor for name, tensor in tensors.items() if not name.endswith("expert_bias")})
    for i, layer in enumerate(model.model.layers):
        layer.mlp.forward = mixture(i)
    return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy(), False, None


LOGITS = {"grovemoe": dict(run=rows)}
