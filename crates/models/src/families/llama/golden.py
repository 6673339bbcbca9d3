"""Golden recipes of Llama, by Meta, and the many models with its classes; images in Llama 4."""

from unittest import mock

from headers import RMS, Header, heads
from logits_own import LLAMA, loaded, read, text_of
from recipes import dense, ends
from tiny_models import LLAMA3, NARROW, OLD, TEXT, llama_like, plain, text_tensors, with_lm_head, wrapper
from tiny_towers import SHALLOW_PIXTRAL, SHALLOW_SIGLIP, SHALLOW_WHISPER, tower, with_pillow

LLAMA31 = dict(LLAMA3, factor=8.0)
LLAMA4 = dict(NARROW, intermediate_size=12, intermediate_size_mlp=20, num_local_experts=3, num_experts_per_tok=1,
    head_dim=4, interleave_moe_layer_step=2)


def with_images(tensors: dict, config) -> dict:
    """The text part inside a model that sees."""
    import torch
    more = {"vision_model.model.layers.0.mlp.fc1.weight": torch.ones([8, 8], dtype=torch.bfloat16),
            "multi_modal_projector.linear_1.weight": torch.ones([16, 8], dtype=torch.bfloat16)}
    return {"language_model." + name: tensor for name, tensor in tensors.items()} | more


def sarashina(config: dict) -> dict:
    text = {f"llm.{name}": shape for name, shape in llama_like(config["text_config"]).items()}
    return text | {"norm.weight": [16], "norm.bias": [16], "visual.blocks.0.attn.proj.weight": [16, 16]}


def with_inv_freq(tensors: dict, config) -> dict:
    import torch
    return tensors | {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.arange(8, dtype=torch.float32)
                      for layer in range(config.num_hidden_layers)}


# The reference lacks the class, but supports the model as this one.
LLAMA_CLASS = dict(set=dict(architectures=["LlamaForCausalLM"], model_type="llama"))


def unpermuted(_) -> list:
    """Rows of queries and keys as they are: the model rotates neighbors."""
    from conversion.llama import LlamaModel
    return [mock.patch.object(LlamaModel, "undo_permute", False)]


CHECKPOINTS = {
    "cwm": dict(model="cwm", tokenizer="bpe", config=dict(head_dim=8, sliding_window=64), reference=LLAMA_CLASS),
    "ministral": dict(model="ministral", tokenizer="bpe", config=dict(head_dim=8, sliding_window=64),
        reference=LLAMA_CLASS),
    "emu3": dict(model="emu3_text_model", **{"class": "Emu3ForCausalLM"}, tokenizer="bpe", config=dict(head_dim=8),
        reference=LLAMA_CLASS),
    "emu3-images": wrapper("emu3", "Emu3ForConditionalGeneration", dict(head_dim=8), vocabulary_map={"<image>": 5},
        vq_config=dict(codebook_size=8, embed_dim=4, latent_channels=4, base_channels=32, channel_multiplier=[1, 1],
        num_res_blocks=1, hidden_size=32, attn_resolutions=[1]), more=dict(reference=LLAMA_CLASS, given_as=text_tensors)),
    "helium": dict(model="helium", config=dict(head_dim=8), reference=LLAMA_CLASS, patches=unpermuted),
    "llama": plain(whole=True, config=dict(hidden_size=256, intermediate_size=512)),
    "llama-llama3": plain(tokenizer="bpe", config=dict(rope_parameters=dict(rope_theta=500000.0, **LLAMA31),
        max_position_embeddings=1024, head_dim=32)),
    "llama-llama3-old": plain(tokenizer="bpe", old=dict(rope_theta=500000.0, rope_scaling=LLAMA31,
        torch_dtype="bfloat16", transformers_version="4.43.0", max_position_embeddings=2048)),
    "llama-linear": plain(config=dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama-linear-old": plain(old=dict(rope_theta=20000, rope_scaling=dict(type="linear", factor=2),
        torch_dtype="float16", _name_or_path="some-org/Tiny-Model-0.1M-chat")),
    "llama-dynamic": plain(config=dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0))),
    "llama-yarn": plain(config=dict(max_position_embeddings=2048, rope_parameters=dict(rope_type="yarn",
        rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=512, beta_fast=32.0, beta_slow=1.0,
        attention_factor=0.7))),
    "llama-yarn-old": plain(old=dict(rope_theta=10000.0, rope_scaling=dict(type="yarn", factor=16.0, finetuned=True),
        torch_dtype="bfloat16")),
    "llama-bias": plain(config=dict(attention_bias=True, mlp_bias=True)),
    "llama-head-dim": plain(config=dict(head_dim=24)),
    "llama-mha": plain(config=dict(num_key_value_heads=4)),
    "llama-tied": plain(tokenizer="bpe", config=dict(tie_word_embeddings=True)),
    "llama-tied-both": plain(config=dict(tie_word_embeddings=True), extra=with_lm_head),
    "llama-inv-freq": plain(extra=with_inv_freq, old=dict(torch_dtype="float32")),
    "llama-defaults": plain(drop=("rope_parameters", "num_key_value_heads", "head_dim", "rms_norm_eps",
        "max_position_embeddings", "model_type", "tie_word_embeddings"), config=dict(num_key_value_heads=4),
        old=dict(model_type="llama")),
    "llama-sharded": plain(max_shard_size="60KB"),
    "llama-card": plain(card="""---
language:
- en
- no
- "de"
license: other
license_name: tiny-licence
license_link: https://example.org/LICENCE
library_name: transformers
pipeline_tag: text-generation
tags:
- tiny
- noise
model_name: Tiny Card Model
model_creator: Somebody
version: v1.2
base_model:
- some-org/Tiny-Llama-7B-v1.0
- https://huggingface.co/Other-Org/big-model-chat
- https://example.org/elsewhere/model
datasets:
- some-org/pretty-data-v2
- https://huggingface.co/datasets/org/data
- wikitext
---

# Tiny

Noise.
""", generation=dict(temperature=0.6, top_p=0.9, top_k=40, repetition_penalty=1.1, min_p=0.05)),
    "llama-2-7b-chat-v0.3-noise": plain(
        card="---\nlicense: [mit, apache-2.0]\nlanguage: fr\ntags: one\nbase_model: lone-model\n"
             "datasets: []\n---\n"),
    "llama4": dict(model="llama4_text", tokenizer="bpe", config=LLAMA4),
    "llama4-deep": dict(model="llama4_text", tokenizer="bpe", config=dict(LLAMA4, num_hidden_layers=4)),
    "llama4-old": dict(model="llama4_text", tokenizer="bpe", extra=with_images, config=LLAMA4,
        drop=("layer_types", "no_rope_layers", "moe_layers"), old=dict(OLD, for_llm_only=True, rope_theta=500000.0,
        rope_scaling=dict(LLAMA3, high_freq_factor=1.5)),
        images=dict(architectures=["Llama4ForConditionalGeneration"], model_type="llama4",
        vision_config=dict(model_type="llama4_vision_model", hidden_size=8))),
    "pixtral": wrapper("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8),
        vision_config=SHALLOW_PIXTRAL, vision_feature_layer=-1),
    "smolvlm": wrapper("smolvlm", "SmolVLMForConditionalGeneration", dict(model_type="llama",
        architectures=["VLlama3ForCausalLM"]), vision_config=SHALLOW_SIGLIP, scale_factor=2),
    "voxtral": wrapper("voxtral", "VoxtralForConditionalGeneration", dict(model_type="llama", head_dim=8),
        audio_config=SHALLOW_WHISPER),
    "llama-embed": dict(model="llama", **{"class": "LlamaModel"}, tokenizer="bpe",
        more=dict(architectures=["LlamaBidirectionalModel"], model_type="llama_bidirec", pooling="avg")),
    "janus": wrapper("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8),
        vision_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4,
        projection_dim=32, num_image_tokens=16), vq_config=dict(embed_dim=4, num_embeddings=8, latent_channels=4,
        base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, projection_dim=32, num_hidden_layers=1,
        image_token_embed_dim=32)),
    "sarashina2-vision": dict(hand=sarashina, config=dict(architectures=["Sarashina2VisionForCausalLM"],
        model_type="sarashina2_vision", torch_dtype="bfloat16", vision_config=dict(depth=1, embed_dim=16),
        text_config=dict(TEXT, architectures=["LlamaForCausalLM"], model_type="llama", head_dim=8, rms_norm_eps=1e-5,
        rope_theta=10000.0))),
}

LLAMA4_VISION = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, image_size=16,
    patch_size=4, vision_output_dim=32, projector_input_dim=32, projector_output_dim=32)

PROJECTORS = {
    # Under the reference's name, llama.cpp applies this norm after attention and computes wrong results.
    "llama4": tower("llama4", "Llama4ForConditionalGeneration", dict(head_dim=8, num_local_experts=2,
        intermediate_size_mlp=48),
        dict(names={"vision_model.model.layers.{bid}.post_attention_layernorm": "v.blk.{bid}.ln2"}),
        vision_config=LLAMA4_VISION),
}

WIDE = {"llama4": dict(intermediate_size=256, intermediate_size_mlp=512, head_dim=64), "llama-embed": {}}


def embed_rows(folder, tokens):
    """Llama whose tokens see each other in both directions."""
    import torch
    import transformers
    config, tensors = read(folder)
    model = transformers.LlamaModel(transformers.LlamaConfig(**config | dict(model_type="llama"), attn_implementation="eager"))
    everything = torch.zeros(1, 1, len(tokens), len(tokens))
    rows = loaded(model, tensors)(torch.tensor([tokens]), attention_mask=everything).last_hidden_state[0]
    return rows.numpy(), True, None


TOWER_TYPES = {"emu3"}
LOGITS = {
    "janus": dict(spelled=text_of(*LLAMA, "model.language_model.")),
    "llama-embed": dict(run=embed_rows),
    "sarashina2-vision": dict(spelled=text_of(*LLAMA, "llm.")),
    "emu3": dict(spelled=text_of(*LLAMA, "model.")),
    "smolvlm": dict(spelled=text_of(*LLAMA, "model.text_model.")),
    "voxtral": dict(spelled=text_of(*LLAMA, "language_model.")),
}
RECORDS = {"llama": None}


def llama_header():
    """Llama 3 8B: plain grouped attention."""
    h = Header("llama", 4096, 4, 128256, 14336, **RMS, **heads(32, 8), **{"rope.dimension_count": 128})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        h.attention(i, 32, 8, 128)
        h.mlp(i)
    return h.ends()


def llama4_header():
    """Llama 4 Scout, fewer layers: chunks of 8192 in three of four layers, a shared expert."""
    h = Header("llama4", 5120, 4, 202048, 16384, **RMS, **heads(40, 8, 128),
               **{"expert_count": 16, "expert_used_count": 1, "expert_feed_forward_length": 8192,
                  "interleave_moe_layer_step": 1, "rope.dimension_count": 128, "rope.freq_base": 500000.0})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        h.attention(i, 40, 8, 128)
        h.experts(i, 16, 8192)
        h.mlp(i, 8192, "_shexp")
    return h.ends()


MEMORY = {"llama": llama_header, "llama4": llama4_header}
SNAPSHOTS = {
    "meta-llama-3.1-70b-instruct": (
        "llama", dict(n_embd=8192, n_ff=28672, n_vocab=128256, n_layer=80, n_head=64, n_head_kv=8),
        ends(8192, 128256) + dense(8192, 28672, 8192, 1024, list(range(80))) + [(None, "rope_freqs.weight", (64,))]),
}
ADAPTERS = {
    "llama": dict(base="llama-head-dim",
        targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "llama-extracted": dict(base="llama-mha", targets=["q_proj", "k_proj", "down_proj", "lm_head"], embedding=True,
        norms=True, dtype="float32"),
}


def llama4_look(model, image, processor):
    from transformers.models.llama4.image_processing_llama4 import Llama4ImageProcessor
    from transformers.models.llama4.processing_llama4 import Llama4Processor
    made = with_pillow(Llama4ImageProcessor)(size=dict(height=16, width=16), **processor)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"].float())
    tiles = model.multi_modal_projector(model.get_image_features(**inputs, return_dict=True).last_hidden_state)
    owner = type("Owner", (), {})
    text = Llama4Processor._prompt_split_image(owner, made["aspect_ratios"][0].tolist(), 1)
    # The first and the last one are the family's marks.
    *before, after = text.removeprefix("<|image_start|>").removesuffix("<|image_end|>").split("<|patch|>")
    return tiles.flatten(0, 1), [], inputs, ([(text, len(tile)) for text, tile in zip(before, tiles, strict=True)], after)


VISION = {
    "llama4": dict(tower("llama4", "Llama4ForConditionalGeneration", dict(head_dim=8, num_local_experts=2,
        intermediate_size_mlp=48, num_hidden_layers=4), vision_config=LLAMA4_VISION), look=llama4_look),
}
