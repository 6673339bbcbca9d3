"""Golden recipes of SmallThinker, by PowerInfer."""

from logits_own import read
from tiny_models import hub, mixtures

CHECKPOINTS = {
    "smallthinker": dict(hand=mixtures("gate up down", "block_sparse_moe", "primary_router", norms=False,
        length="moe_ffn_hidden_size", count="moe_num_primary_experts"), tokenizer="bpe",
        config=hub("SmallThinkerForCausalLM", "smallthinker", head_dim=8, moe_ffn_hidden_size=24,
        moe_num_primary_experts=3, moe_num_active_primary_experts=2, moe_primary_router_apply_softmax=False,
        rms_norm_eps=1e-6, rope_theta=1500000.0, rope_layout=[0, 1], sliding_window_layout=[0, 1],
        sliding_window_size=16, tie_word_embeddings=False), remove=("intermediate_size",)),
}

WIDE = {"smallthinker": dict(head_dim=64, moe_ffn_hidden_size=256)}


def routed_before_attention(folder, tokens):
    """By hand: llama.cpp has a window of 4096 whatever the file says, and transformers has no class."""
    import torch
    from torch.nn.functional import rms_norm
    config, w = read(folder)
    h, k, d = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    n, eps = len(tokens), config["rms_norm_eps"]
    norm = lambda x, name: rms_norm(x, (x.shape[-1],), w[name + ".weight"], eps)
    angles = torch.outer(torch.arange(n), config["rope_theta"] ** (-torch.arange(0, d, 2) / d))
    cos, sin = (torch.cat([f(angles)] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
    rotated = lambda x: x * cos + torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1) * sin
    x = w["model.embed_tokens.weight"][tokens]
    behind = torch.arange(n)[:, None] - torch.arange(n)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        routed = x @ w[layer + "block_sparse_moe.primary_router.weight"].T
        y = norm(x, layer + "input_layernorm")
        q, key, v = (y @ w[f"{layer}self_attn.{part}_proj.weight"].T for part in "qkv")
        q, key, v = (part.view(n, -1, d) for part in (q, key, v))
        if config["rope_layout"][i]:
            q, key = rotated(q), rotated(key)
        key, v = (part.repeat_interleave(h // k, 1) for part in (key, v))
        window = config["sliding_window_size"] if config["sliding_window_layout"][i] else n
        scores = torch.einsum("ihd,jhd->hij", q, key) / d ** 0.5
        scores = scores.masked_fill((behind < 0) | (behind >= window), -torch.inf).softmax(-1)
        x = x + torch.einsum("hij,jhd->ihd", scores, v).reshape(n, -1) @ w[layer + "self_attn.o_proj.weight"].T
        y = norm(x, layer + "post_attention_layernorm")
        best = routed.sigmoid().topk(config["moe_num_active_primary_experts"])
        weights = best.values / best.values.sum(-1, keepdim=True)
        experts = []
        for e in range(config["moe_num_primary_experts"]):
            gate, up, down = (w[f"{layer}block_sparse_moe.experts.{e}.{part}.weight"] for part in ("gate", "up", "down"))
            experts.append(((y @ gate.T).relu() * (y @ up.T)) @ down.T)
        chosen = torch.stack(experts, 1).gather(1, best.indices[..., None].expand(-1, -1, x.shape[-1]))
        x = x + (weights[..., None] * chosen).sum(1)
    return (norm(x, "model.norm") @ w["lm_head.weight"].T).numpy(), False, None


LOGITS = {"smallthinker": dict(run=routed_before_attention)}
