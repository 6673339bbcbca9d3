"""Golden recipes of Trinity (AFMoE), by Arcee."""

from tiny_models import FEW, OLD, TEXT, WIDE_EXPERTS

AFMOE = dict(TEXT, **FEW, head_dim=8, num_hidden_layers=4, num_dense_layers=1, num_shared_experts=1, sliding_window=16,
    global_attn_every_n_layers=2, route_scale=2.5)

CHECKPOINTS = {
    "afmoe": dict(model="afmoe", tokenizer="bpe", config=AFMOE),
    "afmoe-old": dict(model="afmoe", tokenizer="bpe", drop=("layer_types",), config=AFMOE, old=dict(OLD,
        rope_theta=10000, rope_scaling=None, score_func="sigmoid", route_norm=True, n_group=1, topk_group=1,
        num_expert_groups=1, num_limited_groups=1, mup_enabled=True, load_balance_coeff=5e-05, use_grouped_mm=True)),
}

WIDE = {"afmoe": WIDE_EXPERTS}
LOGITS = {"afmoe": dict(config=dict(mup_enabled=True))}
