"""Golden recipes of Granite, by IBM."""

from headers import RMS, Header, ssm
from tiny_models import HAND, MAMBA, OLD, TEXT, few, text_tensors, tiny, wrapper
from tiny_parts import NORMS, tensors, weights
from tiny_towers import SIGLIP, tower

HYBRID = dict(MAMBA, shared_intermediate_size=40, embedding_multiplier=12, attention_multiplier=0.125,
    logits_scaling=4, residual_multiplier=0.22)
EXPERTS = dict(num_local_experts=3, num_experts_per_tok=2)
NO_EXPERTS = dict(num_local_experts=0, num_experts_per_tok=0)
# The reference knows the names of kinds of layers that the Hub's files have, and not those of transformers 5.
KINDS_OF_HUB = dict(linear_attention="mamba", full_attention="attention")


def granite(kinds: str, experts: dict, old: bool = False, **more) -> dict:
    """`kinds` has a letter for each layer: M for a state space, A for attention."""
    types = [dict(M="linear_attention", A="full_attention")[kind] for kind in kinds]
    of_hub = dict(layer_types=[KINDS_OF_HUB[kind] for kind in types])
    spec = dict(model="granitemoehybrid", tokenizer="bpe", config=dict(
        HYBRID, **experts, num_hidden_layers=len(types), layer_types=types, **more))
    if old:
        return dict(spec, old=dict(OLD, rope_theta=10000, rope_scaling=None, **of_hub))
    return dict(spec, reference=dict(set=of_hub))


def without_counters(tensors: dict, config) -> dict:
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("num_batches_tracked")}


SWITCH = dict(HAND, num_hidden_layers=3, num_adapters=2, max_lora_rank=4, adapter_token_ids=[5, 6],
    adapter_substitute_token_ids=[7, 8], shared_intermediate_size=48, num_local_experts=0, num_experts_per_tok=2,
    attention_multiplier=0.125, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
    tie_word_embeddings=True, model_type="granite_switch", rope_theta=10000.0)


def granite_switch(config: dict) -> dict:
    a, b = lambda width: [2, 1, 4, width], lambda rows: [2, 1, rows, 4]
    names = {"self_attn.qkv_proj.base_layer.weight": [64, 32], "self_attn.o_proj.base_layer.weight": [32, 32],
        "shared_mlp.input_linear.base_layer.weight": [96, 32], "shared_mlp.output_linear.base_layer.weight": [32, 48],
        **{f"self_attn.qkv_proj.lora_A_slices.{i}": a(32) for i in range(3)},
        **{f"self_attn.qkv_proj.lora_B_slices.{i}": b(rows) for i, rows in enumerate((32, 16, 16))},
        "self_attn.o_proj.lora_A": a(32), "self_attn.o_proj.lora_B": b(32),
        **{f"shared_mlp.input_linear.lora_A_slices.{i}": a(32) for i in range(2)},
        **{f"shared_mlp.input_linear.lora_B_slices.{i}": b(48) for i in range(2)},
        "shared_mlp.output_linear.lora_A": a(48), "shared_mlp.output_linear.lora_B": b(32)}
    return tensors(2, weights(model__embed_tokens=[384, 32], model__norm=[32]), lambda bid: NORMS | names) | {
        "model.switch.adapter_token_ids": "numbers:5x6 2 I64"}


WINDOWED = dict(TEXT, num_hidden_layers=4, sliding_window=16, embedding_multiplier=12.0, logits_scaling=8.0,
    residual_multiplier=0.22, attention_multiplier=0.0078125)

CHECKPOINTS = {
    "granite": tiny(model="granite", tokenizer="bpe", config=dict(embedding_multiplier=12.0, logits_scaling=8.0,
        residual_multiplier=0.22, attention_multiplier=0.0078125)),
    "granite-docling": wrapper("granite_docling", "GraniteDoclingForConditionalGeneration", dict(embedding_multiplier=12.0,
        logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.125), vision_config=dict(hidden_size=16,
        intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4, out_hidden_size=32,
        deepstack_visual_indexes=[0]), more=dict(given_as=text_tensors, reference=dict(set=dict(
        architectures=["GraniteForCausalLM"], model_type="granite")))),
    "granite-old": tiny(model="granite", tokenizer="bpe", config=dict(attention_bias=True, tie_word_embeddings=True),
        old=dict(OLD, rope_theta=10000000.0, rope_scaling=None, embedding_multiplier=12, logits_scaling=16)),
    "granitemoe": dict(model="granitemoe", tokenizer="bpe", config=dict(few("num_local_experts"), intermediate_size=12,
        embedding_multiplier=12.0)),
    "granitemoe-old": dict(model="granitemoe", tokenizer="bpe", config=dict(few("num_local_experts"),
        intermediate_size=12, logits_scaling=6.0), old=dict(OLD, rope_theta=10000.0, rope_scaling=None)),
    "granitemoe-shared": dict(model="granitemoeshared", tokenizer="bpe", config=dict(few("num_local_experts"),
        intermediate_size=12, shared_intermediate_size=20, tie_word_embeddings=True)),
    "granitehybrid": granite("MAM", EXPERTS),
    "granitehybrid-old": granite("MA", NO_EXPERTS, old=True, tie_word_embeddings=True),
    # Models without state spaces are written under the names of older ones.
    "granite4-dense": granite("AA", NO_EXPERTS),
    "granite4-dense-old": granite("AA", NO_EXPERTS, old=True),
    "granite4-moe": granite("AA", EXPERTS),
    "granite-speech": wrapper("granite_speech", "GraniteSpeechForConditionalGeneration", dict(model_type="granite",
        architectures=["GraniteForCausalLM"]), encoder_config=dict(input_dim=8, num_layers=1, hidden_dim=16,
        feedforward_mult=2, num_heads=2, dim_head=8, output_dim=8, context_size=8, max_pos_emb=16, conv_kernel_size=3),
        projector_config=dict(model_type="blip_2_qformer", hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=24, encoder_hidden_size=16), has_lora_adapter=False, more=dict(extra=without_counters)),
    "granite-switch": dict(hand=granite_switch, tokenizer="bpe", config=dict(SWITCH,
        architectures=["GraniteSwitchForCausalLM"])),
    "granite_swa": dict(model="granite_swa", tokenizer="bpe", config=dict(WINDOWED, tie_word_embeddings=True)),
    "granite_swa-old": dict(model="granite_swa", tokenizer="bpe", config=dict(WINDOWED, tie_word_embeddings=False),
        drop=("layer_rope_theta",), old=dict(OLD, rope_theta=10000.0, no_rope_layers=[0, 1, 1, 1])),
    "granitemoe_swa": dict(model="granitemoe_swa", tokenizer="bpe", config=dict(WINDOWED, num_local_experts=3,
        num_experts_per_tok=2, shared_intermediate_size=40)),
}

WIDE = {
    "granite": {},
    "granitemoe": {},
    "granite4-dense": dict(mamba_d_head=128, shared_intermediate_size=512),
    "granite4-moe": dict(mamba_d_head=128, intermediate_size=256, shared_intermediate_size=256),
    "granite_swa": {},
    "granitemoe_swa": dict(intermediate_size=256, shared_intermediate_size=256),
}
# Without state spaces it is written as rotated, whatever its config says.
TOWER_TYPES = {"granite_docling"}
LOGITS = dict.fromkeys(["granite4-dense", "granite4-moe"], dict(config=dict(position_embedding_type="rope"))) | {
    "granite-switch": dict(by="reference")}


def granite_hybrid_header():
    """Granite 4 H Tiny: Mamba 2 in most layers, mixtures with a shared expert."""
    kv = [0, 0, 0, 0, 0, 4]
    h = Header("granitehybrid", 1536, 6, 100352, 512, **RMS, **ssm(3072, 128, 48, 1),
               **{"attention.head_count": 12, "attention.head_count_kv": kv, "expert_count": 64, "expert_used_count": 6,
                  "expert_shared_feed_forward_length": 1024, "rope.dimension_count": 128})
    for i in range(6):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 12, 4, 128)
        else:
            h.mamba2(i, 3072, 128, 1, 48)
        h.experts(i, 64, 512)
        h.mlp(i, 1024, "_shexp")
    return h.ends(output=False)


MEMORY = {"granite-hybrid": granite_hybrid_header}

# The encoder of sound, and the Q-former after it.
SPEECH = dict(input_dim=8, num_layers=2, hidden_dim=16, feedforward_mult=2, num_heads=2, dim_head=8, output_dim=12,
    context_size=8, max_pos_emb=16, conv_kernel_size=3)
QFORMER = dict(model_type="blip_2_qformer", hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=24, encoder_hidden_size=16)
SPEECH_TEXT = dict(model_type="granite", architectures=["GraniteForCausalLM"])

PROJECTORS = {
    "granite-speech": tower("granite_speech", "GraniteSpeechForConditionalGeneration", SPEECH_TEXT,
        dict(preprocessor=None, extra=without_counters, no_q8_0=True,
        near=["a.blk.*.conv_norm_var.*"]), encoder_config=SPEECH, projector_config=QFORMER, has_lora_adapter=False,
        window_size=4, downsample_rate=2),
    "granite-speech-plus": tower("granite_speech_plus", "GraniteSpeechPlusForConditionalGeneration", SPEECH_TEXT,
        dict(preprocessor=None, extra=without_counters, no_q8_0=True,
        near=["a.blk.*.conv_norm_var.*"]), encoder_config=dict(SPEECH, cat_hidden_layers=[1]),
        projector_config=dict(QFORMER, encoder_hidden_size=32), has_lora_adapter=False, window_size=4,
        downsample_rate=2),
    "granite4-vision": tower("granite4_vision", "Granite4VisionForConditionalGeneration",
        dict(model_type="granite4_vision_text", num_hidden_layers=6), dict(hub=[("model.vision_tower.", "model.vision_tower.vision_model.")]),
        vision_config=dict(SIGLIP, model_type="siglip_vision_model", hidden_size=64, num_attention_heads=1,
        num_hidden_layers=7),
        deepstack_layer_map=[[-2, 3], [0, 1]], spatial_target_layers=[0, 2, 4, 5], use_spatial_sampling=True,
        downsample_rate="2/4", image_grid_pinpoints=[[32, 64], [64, 32]]),
}
