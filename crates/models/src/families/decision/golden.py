"""Golden recipes of decision models, which are newer than the pinned reference."""

from tiny_models import AS_IT_IS, QWEN35, ROPE35, wrapper
from tiny_towers import QWEN35_VISION, SIGLIP, scorer, tower, with_biases

HEAD = dict(width=16, layers=2, routing_layers=1, heads=2, feedforward=24)
TEXT_PART = dict(QWEN35, rope_parameters=ROPE35)


def attention(name: str) -> dict:
    """`nn.MultiheadAttention` of the width of the head."""
    return with_biases({f"{name}.out_proj": [16, 16]}) | {f"{name}.in_proj_weight": [48, 16], f"{name}.in_proj_bias": [48]}


def joint_head() -> dict:
    """The head of Clef: scales in F32, one so large that it is limited, everything else in BF16."""
    shapes = with_biases({"hidden_norm": [32], "option_summary_norm": [16], "field_norm": [16], "option_norm": [16],
        "residual_scorer.0": [16, 64], "residual_scorer.3": [1, 16]})
    shapes |= {f"{name}_projection.weight": [16, 32] for name in (
        "memory", "question", "option_question", "global", "option_context", "option_lexical")}
    shapes |= {"type_embedding.weight": [3, 16], "prior_logit_scale": "normal - F32", "joint_logit_scale": "divisor - F32",
        "residual_gate": "normal - F32"}
    for i in range(HEAD["routing_layers"]):
        layer = f"evidence_layers.{i}."
        shapes |= attention(layer + "attention") | with_biases({layer + "query_norm": [16], layer + "memory_norm": [16],
            layer + "feedforward_norm": [16], layer + "feedforward.0": [24, 16], layer + "feedforward.3": [16, 24]})
    for i in range(HEAD["layers"]):
        layer = f"layers.{i}."
        shapes |= attention(layer + "self_attn") | attention(layer + "multihead_attn") | with_biases({
            **{f"{layer}norm{n}": [16] for n in (1, 2, 3)}, layer + "linear1": [24, 16], layer + "linear2": [16, 24]})
    return shapes


CLEF = dict(ahead=True, **AS_IT_IS, files={"joint_head_config.json": HEAD}, parts={"joint_head.safetensors": joint_head()})
PPLX = dict(ahead=True, **AS_IT_IS, files={"decision_config.json": dict(temperature=1.75, token_ids=[70, 9, 380, 11])},
    parts={"readout.safetensors": {"weight": [4, 32]}})
# The reference knows the model by this file, which it does not run.
OPENJEV = dict(ahead=True, **AS_IT_IS, files={"helper/shim.py": "raise SystemExit\n"})
# The text part names another class, but the class of the program decides.
D1 = dict(ahead=True, more=dict(auto_map=dict(AutoModel="modeling_d1.D1Model")))
D1_TEXT = dict(model_type="lfm2", layer_types=["conv", "full_attention"], num_hidden_layers=2, block_multiple_of=8,
    architectures=["Lfm2ForCausalLM"])
LFM2_VISION = dict(SIGLIP, patch_size=16, num_patches=16, vision_use_head=False)

CHECKPOINTS = {name: wrapper("qwen3_5", class_name, TEXT_PART, more, vision_config=dict(QWEN35_VISION, depth=3))
    for name, class_name, more in (("clef", "Qwen3_5ForConditionalGeneration", CLEF),
    ("pplx-decider", "Qwen3_5Model", PPLX), ("openjev", "Qwen3_5ForConditionalGeneration", OPENJEV))}

PROJECTORS = {"pplx-decider": tower("qwen3_5", "Qwen3_5Model", dict(head_dim=8), dict(PPLX,
    preprocessor=dict(size=dict(shortest_edge=65536, longest_edge=16777216))), vision_config=QWEN35_VISION)} | {
    name: tower("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(head_dim=8), more, vision_config=QWEN35_VISION)
    for name, more in (("clef", CLEF), ("openjev", OPENJEV))}

CHECKPOINTS["d1"] = wrapper("lfm2_vl", "Lfm2VlForConditionalGeneration", D1_TEXT, D1, projector_hidden_size=24,
    vision_config=dict(LFM2_VISION, num_hidden_layers=1))
PROJECTORS["d1"] = tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(D1_TEXT, num_hidden_layers=1,
    layer_types=["full_attention"]), dict(D1, hub=[("vision_tower.vision_model.", "vision_tower."), ("vision_tower.",
    "vision_tower.vision_model.")]), vision_config=LFM2_VISION, projector_hidden_size=24)


def laya(head: dict, layers: int, more: dict):
    """ModernBERT and a head that scores options, with tensors of the training."""
    def with_head(tensors: dict, config) -> dict:
        import torch
        added = scorer(layers=layers) | {"act_head.0.weight": [4, 32], "act_head.0.bias": [4], "temperature": [3]}
        return {f"encoder.{name}": tensor for name, tensor in tensors.items()} | {
            name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in added.items()}
    return dict(dict(ahead=True, model="modernbert", bare=True, extra=with_head, tokenizer_folder="tokenizer",
        files={name: dict(values, head_layers=layers) for name, values in head.items()}, config=dict(vocab_size=384,
        hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64,
        global_attn_every_n_layers=3, local_attention=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2)), **{"class": "ModernBertModel"}, **more)


MARKS = ("[CLS]", "[SEP]", "[MASK]")
CHECKPOINTS["laya"] = laya({"rl_agent_config.json": dict(head_max_len=128, temperature=[1.25, 1.5, 0.875],
    temperature_by_options={"choice:3-5": 1.75, "choice:11+": 2})}, 2, dict(tokenizer="bpe", special=MARKS,
    tokenizer_config=dict(zip(("cls_token", "sep_token", "mask_token"), MARKS))))
CHECKPOINTS["julia"] = laya({"julia_config.json": dict(architecture="JuliaDecisionModel")}, 1, dict(tokenizer="mmbert"))
