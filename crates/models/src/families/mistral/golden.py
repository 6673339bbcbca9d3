"""Golden recipes of Mistral models with their own classes. Older models use classes of the llama family."""

from tiny_models import LATENT, WIDE_LATENT, YARN, plain, wrapper
from tiny_towers import SHALLOW_PIXTRAL

CHECKPOINTS = {
    "mistral": plain(model="mistral", config=dict(sliding_window=128)),
    "mistral-old": plain(model="mistral", drop=("head_dim", "num_key_value_heads"), config=dict(num_attention_heads=8,
        num_key_value_heads=8, hidden_size=64), old=dict(rope_theta=1000000.0, torch_dtype="bfloat16",
        sliding_window=None, _name_or_path="Mistral-Tiny-Instruct-v0.2")),
    "mixtral": plain(model="mixtral", whole=True, config=dict(num_local_experts=4, num_experts_per_tok=2)),
    "mixtral-old": plain(model="mixtral", old=dict(rope_theta=100000.0, torch_dtype="bfloat16"),
        config=dict(num_local_experts=3, num_experts_per_tok=1)),
    "mistral3": wrapper("mistral3", "Mistral3ForConditionalGeneration", dict(model_type="mistral", head_dim=8,
        sliding_window=None), vision_config=SHALLOW_PIXTRAL),
    "ministral3": wrapper("mistral3", "Mistral3ForConditionalGeneration", dict(model_type="ministral3", head_dim=8,
        rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=1000000.0, factor=16.0,
        original_max_position_embeddings=64, max_position_embeddings=512, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.1)), vision_config=SHALLOW_PIXTRAL),
    "ministral3-text": dict(model="ministral3", tokenizer="bpe", config=dict(head_dim=16,
        rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=1000000.0, factor=8.0,
        original_max_position_embeddings=64, max_position_embeddings=512, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=0.5, llama_4_scaling_beta=0.25))),
    "mistral4": wrapper("mistral3", "Mistral3ForConditionalGeneration", dict(LATENT, model_type="mistral4",
        first_k_dense_replace=1, rope_parameters=dict(YARN, llama_4_scaling_beta=0.1)), vision_config=SHALLOW_PIXTRAL),
}

CHECKPOINTS |= {
    "mistral3-old": CHECKPOINTS["mistral3"] | dict(old_text=dict(rope_theta=1000000000.0, rope_scaling=None)),
}

WIDE = {"mistral4": dict(WIDE_LATENT, q_lora_rank=256)}
RECORDS = {"mistral": None, "mixtral": None}
TOWER_TYPES = {"mistral3"}
ADAPTERS = {"mixtral": dict(base="mixtral-old", targets=["q_proj", "w1", "w2", "w3", "block_sparse_moe.gate"])}
