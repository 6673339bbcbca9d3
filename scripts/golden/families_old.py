"""Checkpoints of other rows with config.json as the Hub has it, for arch.py: flat rotary keys beside `rope_scaling`, heads
of full attention under names of their own, keys of the text part beside those of the others. Further keys:

  old_text   as `old`, of `text_config`
"""

from families import OLD
from families_encoders import ENCODERS
from families_houses import ALPHA, HOUSES
from families_hybrids import HYBRIDS
from families_wrappers import TEXT, WRAPPERS

ROPE_OF_IMAGES = dict(rope_type="default", mrope_section=[2, 1, 1])
INTERLEAVED = dict(torch_dtype="bfloat16", rope_theta=5000000, rope_scaling=dict(ROPE_OF_IMAGES, mrope_interleaved=True))
# The Hub's PaddleOCR-VL and HunyuanOCR have the text part flat.
FLAT = dict(OLD, **TEXT, hidden_act="silu", rms_norm_eps=1e-05)

OLD_SPELLINGS = {
    "chameleon-old": HYBRIDS["chameleon"] | dict(old=dict(OLD, rope_theta=10000.0, rope_scaling=None)),
    "eurobert-old": HYBRIDS["eurobert"] | dict(old=dict(OLD, rope_theta=250000, rope_scaling=None)),
    "gemma-embedding-old": WRAPPERS["gemma-embedding"] | dict(old=dict(OLD, rope_theta=1000000.0,
        rope_local_base_freq=10000.0, rope_scaling=None, _sliding_window_pattern=6)),
    "gemma4-old": WRAPPERS["gemma4"] | dict(drop=("per_layer_config",), more=dict(global_head_dim=16,
        num_global_key_value_heads=None)),
    "gemma4-moe-old": WRAPPERS["gemma4-moe"] | dict(drop=("per_layer_config",), more=dict(global_head_dim=16,
        num_global_key_value_heads=1)),
    "hunyuan-vl-old": HOUSES["hunyuan-vl"] | dict(drop=("text_config",), old=dict(FLAT, head_dim=8, eod_token_id=3,
        tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=dict(ALPHA, type="xdrope", xdrope_section=[1, 1, 1, 1]))),
    "jais2-old": HOUSES["jais2"] | dict(old=dict(OLD, rope_theta=500000, rope_scaling=None)),
    "lfm2moe-old": WRAPPERS["lfm2moe"] | dict(old=dict(OLD, rope_theta=1000000.0)),
    "mistral3-old": WRAPPERS["mistral3"] | dict(old_text=dict(rope_theta=1000000000.0, rope_scaling=None)),
    "modern-bert-old": ENCODERS["modern-bert"] | dict(drop=("layer_types",), old=dict(OLD, global_rope_theta=160000.0,
        local_rope_theta=10000.0)),
    "paddleocr-old": HYBRIDS["paddleocr"] | dict(drop=("text_config",), old=dict(FLAT, head_dim=8, rope_theta=500000,
        rope_scaling=dict(ROPE_OF_IMAGES, type="default"))),
    "qwen3vl-old": WRAPPERS["qwen3vl"] | dict(old_text=INTERLEAVED),
}
