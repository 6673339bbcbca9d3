"""Names and shapes for parts of decoders that are 32 wide. The golden.py of several families are composed of them."""


def tensors(layers: int, ends: dict, each, start: int = 0) -> dict:
    """`ends`, and for each layer the tensors that `each` returns for its number, under `model.layers.N.`."""
    return ends | {f"model.layers.{bid}.{name}": shape for bid in range(start, start + layers)
        for name, shape in each(bid).items()}


def weights(**shapes) -> dict:
    """Names with `.weight`; a double underscore stands for a dot."""
    return {name.replace("__", ".") + ".weight": shape for name, shape in shapes.items()}


ENDS = weights(model__embed_tokens=[384, 32], model__norm=[32], lm_head=[384, 32])
NORMS = weights(input_layernorm=[32], post_attention_layernorm=[32])


def mlp(name: str = "mlp", rows: int = 48, width: int = 32) -> dict:
    return {f"{name}.gate_proj.weight": [rows, width], f"{name}.up_proj.weight": [rows, width],
            f"{name}.down_proj.weight": [width, rows]}


def attention(queries: int = 32, keys: int = 16, norms: int = 0) -> dict:
    return weights(self_attn__q_proj=[queries, 32], self_attn__k_proj=[keys, 32], self_attn__v_proj=[keys, 32],
                   self_attn__o_proj=[32, queries],
                   **(dict(self_attn__q_norm=[norms], self_attn__k_norm=[norms]) if norms else {}))


def latent(heads: int = 4, rank: int = 16, nope: int = 12, rope: int = 8, values: int = 10, queries: int = 24) -> dict:
    return weights(self_attn__q_a_proj=[queries, 32], self_attn__q_a_layernorm=[queries],
        self_attn__q_b_proj=[heads * (nope + rope), queries], self_attn__kv_a_proj_with_mqa=[rank + rope, 32],
        self_attn__kv_a_layernorm=[rank], self_attn__kv_b_proj=[heads * (nope + values), rank],
        self_attn__o_proj=[32, heads * values])


def indexer(heads: int = 2, dim: int = 16, queries: int = 24) -> dict:
    return weights(self_attn__indexer__wq_b=[heads * dim, queries], self_attn__indexer__wk=[dim, 32],
        self_attn__indexer__weights_proj=[heads, 32], self_attn__indexer__k_norm=[dim]) | {
        "self_attn.indexer.k_norm.bias": [dim]}


def experts(n: int = 3, rows: int = 24, shared: int = 24) -> dict:
    return {"mlp.gate.weight": [n, 32], "mlp.gate.e_score_correction_bias": [n], **mlp("mlp.shared_experts", shared),
            **{name: shape for x in range(n) for name, shape in mlp(f"mlp.experts.{x}", rows).items()}}


def prediction() -> dict:
    return weights(eh_proj=[32, 64], enorm=[32], hnorm=[32], shared_head__norm=[32])


def kda(heads: int = 4, dim: int = 8) -> dict:
    """Kimi's delta attention."""
    inner = heads * dim
    return weights(**{f"self_attn__{x}_proj": [inner, 32] for x in "qkv"},
        **{f"self_attn__{x}_conv1d": [inner, 1, 4] for x in "qkv"}, self_attn__f_a_proj=[dim, 32],
        self_attn__f_b_proj=[inner, dim], self_attn__b_proj=[heads, 32], self_attn__g_a_proj=[dim, 32],
        self_attn__g_b_proj=[inner, dim], self_attn__o_norm=[dim], self_attn__o_proj=[32, inner]) | {
        "self_attn.A_log": f"logarithms 1x1x{heads}x1 F32", "self_attn.dt_bias": f"normal {inner} F32"}
