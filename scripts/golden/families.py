"""Tiny checkpoints of decoder families, for arch.py. Keys of a family are those of arch.py, and:

  stacked  write the experts as the classes of transformers 5 hold them, not as they save them
  model    model_type of transformers, whose classes make the checkpoint
  hand     for families that transformers does not have: from a config to the shape of each tensor by name
  rename   for these: from keys of the config that `hand` is given to those that config.json has
  remove   for these: keys of that config that config.json does not have
  given    keys of an older config.json that the reference insists on, for its run alone
  special  tokens that a byte-level tokenizer gets beside its own
  tokenizer_config  what tokenizer_config.json has beside or instead
"""

SMALL = dict(vocab_size=384, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
OLD = dict(torch_dtype="bfloat16", transformers_version="4.43.0")
# Widths that differ from each other, so that a shape says which is which.
TINY = dict(hidden_size=16, intermediate_size=24)
FACTORS = dict(short_factor=[1.0, 1.25], long_factor=[1.0, 4.5])
LLAMA3 = dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=128)
QWEN2_TOKENIZER = dict(tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>", pad_token="<|endoftext|>",
    bos_token=None, unk_token=None)
# How sentence-transformers says that the last token's vector is the text's.
POOLING = {"modules.json": [dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer"),
                            dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling")],
           "1_Pooling/config.json": dict(word_embedding_dimension=16, pooling_mode_cls_token=False,
               pooling_mode_lasttoken=True)}
GLM_TOKENS = ["<|endoftext|>", "<|user|>"]


def layers(config: dict, names: dict) -> dict:
    """The tensors of every layer; `{}` stands for its number."""
    return {name.format(i): shape for i in range(config["num_hidden_layers"]) for name, shape in names.items()}


def sizes(config: dict) -> tuple[int, int, int, int, int]:
    """Vocabulary, width, width of the feed-forward part, of queries, of keys."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim", width // heads)
    return config["vocab_size"], width, config["intermediate_size"], heads * head, config.get("num_key_value_heads",
        heads) * head


def internlm2(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    return {
        "model.tok_embeddings.weight": [v, h],
        **layers(config, {
            "model.layers.{}.attention.wqkv.weight": [q + 2 * k, h], "model.layers.{}.attention.wo.weight": [h, q],
            "model.layers.{}.feed_forward.w1.weight": [f, h], "model.layers.{}.feed_forward.w2.weight": [h, f],
            "model.layers.{}.feed_forward.w3.weight": [f, h],
            "model.layers.{}.attention_norm.weight": [h], "model.layers.{}.ffn_norm.weight": [h]}),
        "model.norm.weight": [h], "output.weight": [v, h],
    }


def llama_like(config: dict, fused: str = "", start: str = "model.", bias: bool = False,
    fused_mlp: bool = False) -> dict:
    """`fused` is the name of the matrix of queries, keys and values, where they are one."""
    v, h, f, q, k = sizes(config)
    names = {"self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [k, h], "self_attn.v_proj.weight": [k, h]}
    if fused:
        names = {f"self_attn.{fused}.weight": [q + 2 * k, h]}
    names |= {"self_attn.o_proj.weight": [h, q], "mlp.down_proj.weight": [h, f], "input_layernorm.weight": [h],
              "post_attention_layernorm.weight": [h]}
    names |= {"mlp.up_gate_proj.weight": [2 * f, h]} if fused_mlp else {"mlp.gate_proj.weight": [f, h],
        "mlp.up_proj.weight": [f, h]}
    if bias:
        names |= {"input_layernorm.bias": [h], "post_attention_layernorm.bias": [h]}
    ends = {start + "norm.bias": [h]} if bias else {}
    return {start + "embed_tokens.weight": [v, h],
            **layers(config, {start + "layers.{}." + name: shape for name, shape in names.items()}),
            start + "norm.weight": [h], **ends, "lm_head.weight": [v, h]}


def gemma3_images(config: dict) -> dict:
    text = config["text_config"]
    v, h, f, q, k = sizes(text)
    layer = {"self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [k, h], "self_attn.v_proj.weight": [k, h],
             "self_attn.o_proj.weight": [h, q], "self_attn.q_norm.weight": [text["head_dim"]],
                 "self_attn.k_norm.weight": [text["head_dim"]],
             "mlp.gate_proj.weight": [f, h], "mlp.up_proj.weight": [f, h], "mlp.down_proj.weight": [h, f]} | {
        f"{x}_layernorm.weight": [h] for x in ("input", "post_attention", "pre_feedforward", "post_feedforward")}
    return {
        "language_model.model.embed_tokens.weight": [v, h], "language_model.model.norm.weight": [h],
        **layers(text, {"language_model.model.layers.{}." + name: shape for name, shape in layer.items()}),
        "multi_modal_projector.mm_soft_emb_norm.weight": [8],
        "multi_modal_projector.mm_input_projection_weight": [8, h],
        "vision_tower.vision_model.embeddings.position_embedding.weight": [4, 8],
        "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": [8, 8]}


def chatglm(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    return {
        "transformer.embedding.word_embeddings.weight": [v, h],
        "transformer.rotary_pos_emb.inv_freq": [2],
        **layers(config, {
            "transformer.encoder.layers.{}.input_layernorm.weight": [h],
            "transformer.encoder.layers.{}.self_attention.query_key_value.weight": [q + 2 * k, h],
            "transformer.encoder.layers.{}.self_attention.query_key_value.bias": [q + 2 * k],
            "transformer.encoder.layers.{}.self_attention.dense.weight": [h, q],
            "transformer.encoder.layers.{}.post_attention_layernorm.weight": [h],
            "transformer.encoder.layers.{}.mlp.dense_h_to_4h.weight": [2 * f, h],
            "transformer.encoder.layers.{}.mlp.dense_4h_to_h.weight": [h, f]}),
        "transformer.encoder.final_layernorm.weight": [h], "transformer.output_layer.weight": [v, h],
    }


def codeshell(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    both = {"ln_1": [h], "attn.c_attn": [q + 2 * k, h], "attn.c_proj": [h, q], "ln_2": [h], "mlp.c_fc": [4 * h, h],
        "mlp.c_proj": [h, 4 * h]}
    return {
        "transformer.wte.weight": [v, h],
        **layers(config, {f"transformer.h.{{}}.{name}.weight": shape for name, shape in both.items()}
                 | {f"transformer.h.{{}}.{name}.bias": shape[:1] for name, shape in both.items()}
                 | {"transformer.h.{}.attn.rotary_emb.inv_freq": [2]}),
        "transformer.ln_f.weight": [h], "transformer.ln_f.bias": [h], "lm_head.weight": [v, h],
    }


def hub(architecture: str, model_type: str, **more) -> dict:
    """A config.json as the Hub has it, of a family whose code comes with the checkpoint."""
    return {**SMALL, "hidden_size": 16, "intermediate_size": 24, "architectures": [architecture],
        "model_type": model_type,
            "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, **more}


FAMILIES = {
    "qwen2": dict(model="qwen2", tokenizer="bpe"),
    "qwen2-tied-old": dict(model="qwen2", tokenizer="bpe", special=["<|endoftext|>"], tokenizer_config=QWEN2_TOKENIZER,
        config=dict(tie_word_embeddings=True), drop=("layer_types",),
                           old=dict(OLD, rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768)),
    "qwen3": dict(model="qwen3", tokenizer="bpe", config=dict(head_dim=8, tie_word_embeddings=True)),
    "qwen2-embedding-old": dict(model="qwen2", tokenizer="bpe", special=["<|endoftext|>"],
        tokenizer_config=QWEN2_TOKENIZER, files=POOLING, **{"class": "Qwen2Model"},
                                drop=("layer_types",), old=dict(OLD, rope_theta=1000000.0, use_sliding_window=False,
                                    sliding_window=131072)),
    "qwen3-embedding": dict(model="qwen3", tokenizer="bpe", config=dict(head_dim=8, tie_word_embeddings=True),
        files=POOLING),
    "qwen3-yarn-old": dict(model="qwen3", tokenizer="bpe", config=dict(head_dim=8), drop=("layer_types",), old=dict(
        OLD, rope_theta=1000000, sliding_window=None,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768))),
    "gemma": dict(model="gemma", config=dict(head_dim=8)),
    "gemma-old": dict(model="gemma", config=dict(head_dim=8, num_key_value_heads=1), drop=("tie_word_embeddings",),
        old=dict(
        OLD, rope_theta=10000.0, rope_scaling=None, hidden_act="gelu", hidden_activation=None)),
    "gemma2": dict(model="gemma2", config=dict(head_dim=8, query_pre_attn_scalar=8, sliding_window=64)),
    "gemma2-old": dict(model="gemma2", config=dict(head_dim=8), drop=("layer_types",), old=dict(
        OLD, rope_theta=10000.0, cache_implementation="hybrid", sliding_window_size=4096)),
    "gemma3": dict(model="gemma3_text", config=dict(head_dim=8, sliding_window=64)),
    "gemma3-old": dict(model="gemma3_text", config=dict(head_dim=8), drop=("layer_types",), old=dict(
        OLD, rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=6,
        rope_scaling=dict(rope_type="linear", factor=8.0))),
    "gemma3-images": dict(hand=gemma3_images, config=dict(
        architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3", torch_dtype="bfloat16",
            image_token_index=380,
        eos_token_id=[1, 2], vision_config=dict(hidden_size=8, model_type="siglip_vision_model"),
        text_config=dict(hidden_size=16, intermediate_size=24, model_type="gemma3_text", num_hidden_layers=2,
            head_dim=8,
                         num_attention_heads=4, num_key_value_heads=2,
                             rope_scaling=dict(factor=8.0, rope_type="linear"),
                         sliding_window=1024, vocab_size=384))),
    "phi3": dict(model="phi3", config=dict(original_max_position_embeddings=512)),
    "phi3-longrope": dict(model="phi3", config=dict(
        max_position_embeddings=4096, original_max_position_embeddings=256, sliding_window=128,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, **FACTORS))),
    "phi3-longrope-old": dict(model="phi3", tokenizer="bpe", tokenizer_config=dict(tokenizer_class="GPT2Tokenizer"),
                              config=dict(max_position_embeddings=4096, original_max_position_embeddings=256),
                              old=dict(OLD, rope_theta=250000.0, rope_scaling=dict(type="longrope", **FACTORS))),
    "phi3-su-old": dict(model="phi3", config=dict(max_position_embeddings=4096, original_max_position_embeddings=256),
                        old=dict(OLD, rope_theta=10000.0, rope_scaling=dict(type="su", **FACTORS))),
    "phi2": dict(model="phi", tokenizer="bpe", config=dict(num_key_value_heads=4)),
    "phi2-old": dict(model="phi", tokenizer="bpe", config=dict(num_key_value_heads=4), old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None)),
    "olmo": dict(model="olmo", tokenizer="bpe", config=dict(clip_qkv=8.0)),
    "olmo-old": dict(model="olmo", tokenizer="bpe", config=dict(num_key_value_heads=4, tie_word_embeddings=True),
                     old=dict(OLD, rope_theta=10000.0, rope_scaling=None, clip_qkv=None)),
    "olmo2": dict(model="olmo2", tokenizer="bpe", config=dict(num_key_value_heads=4)),
    "olmo2-old": dict(model="olmo2", tokenizer="bpe", config=dict(attention_bias=False),
        old=dict(OLD, rope_theta=500000, rope_scaling=None)),
    "olmo3-old": dict(model="olmo3", tokenizer="bpe", drop=("layer_types",), config=dict(num_hidden_layers=4),
        old=dict(
        OLD, rope_theta=500000, sliding_window=4096, rope_scaling=dict(
            rope_type="yarn", factor=8.0, original_max_position_embeddings=8192, beta_fast=32, beta_slow=1,
                attention_factor=1.2079441541679836))),
    "olmo3": dict(model="olmo3", tokenizer="bpe", config=dict(num_hidden_layers=4, sliding_window=64)),
    "granite": dict(model="granite", tokenizer="bpe", config=dict(
        embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.0078125)),
    "granite-old": dict(model="granite", tokenizer="bpe", config=dict(attention_bias=True, tie_word_embeddings=True),
        old=dict(
        OLD, rope_theta=10000000.0, rope_scaling=None, embedding_multiplier=12, logits_scaling=16)),
    "seed_oss": dict(model="seed_oss", tokenizer="bpe", config=dict(num_key_value_heads=2, head_dim=16)),
    "seed_oss-old": dict(model="seed_oss", tokenizer="bpe", config=dict(head_dim=16),
        old=dict(OLD, rope_theta=10000000.0, rope_scaling=dict(rope_type="default"))),
    "smollm3": dict(model="smollm3", tokenizer="bpe"),
    "smollm3-old": dict(model="smollm3", tokenizer="bpe", drop=("layer_types", "no_rope_layers"), old=dict(
        OLD, rope_theta=5000000.0, rope_scaling=None, sliding_window=None)),
    "stablelm": dict(model="stablelm", tokenizer="bpe", config=dict(use_qkv_bias=True, num_attention_heads=2,
        num_key_value_heads=1)),
    "stablelm-old": dict(model="stablelm", tokenizer="bpe", config=dict(use_parallel_residual=True), old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000)),
    "stablelm-qk-norms": dict(model="stablelm", tokenizer="bpe",
        config=dict(qk_layernorm=True, use_parallel_residual=True, num_attention_heads=12,
                                                                            num_key_value_heads=3, hidden_size=48),
                                                                                old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000)),
    "starcoder2": dict(model="starcoder2", tokenizer="bpe", config=dict(sliding_window=128)),
    "starcoder2-old": dict(model="starcoder2", tokenizer="bpe", config=dict(tie_word_embeddings=False),
                           old=dict(OLD, rope_theta=999999.4420358813, norm_type="layer_norm")),
    "cohere": dict(model="cohere", tokenizer="bpe"),
    "cohere-old": dict(model="cohere", tokenizer="bpe", config=dict(use_qk_norm=True, num_key_value_heads=4),
        drop=("tie_word_embeddings",),
                       old=dict(OLD, rope_theta=75000000.0, model_max_length=131072, logit_scale=0.8333333333333334)),
    "cohere2": dict(model="cohere2", tokenizer="bpe", config=dict(num_hidden_layers=4, sliding_window=64,
        layer_norm_eps=1e-4), given=dict(rotary_pct=1.0)),
    "cohere2-old": dict(model="cohere2", tokenizer="bpe", drop=("layer_types",), old=dict(
        OLD, rope_theta=50000, rotary_pct=1.0, sliding_window=64, sliding_window_pattern=4,
            order_of_interleaved_layers="local_attn_first")),
    "glm": dict(model="glm", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8)),
    "glm-old": dict(model="glm", tokenizer="bpe", special=GLM_TOKENS,
        config=dict(head_dim=8, attention_bias=False, tie_word_embeddings=True), old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000.0)),
    "glm4": dict(model="glm4", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8)),
    "glm4-old": dict(model="glm4", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8, attention_bias=False),
        old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000.0)),
    "exaone4": dict(model="exaone4", tokenizer="bpe", config=dict(sliding_window=64, num_hidden_layers=4)),
    "exaone4-old": dict(model="exaone4", tokenizer="bpe", config=dict(tie_word_embeddings=True, head_dim=8),
        drop=("layer_types",), old=dict(
        OLD, rope_theta=1000000, rope_scaling=LLAMA3, sliding_window=None, sliding_window_pattern=None,
            layer_types=["full_attention"] * 2)),
    "exaone4-pattern-old": dict(model="exaone4", tokenizer="bpe", config=dict(num_hidden_layers=4, head_dim=8),
        old=dict(
        OLD, rope_theta=1000000, rope_scaling=LLAMA3, sliding_window=4096, sliding_window_pattern="LLLG")),
    "nemotron": dict(model="nemotron"),
    "nemotron-old": dict(model="nemotron", config=dict(head_dim=8), old=dict(
        OLD, partial_rotary_factor=0.5, rope_theta=10000, rope_scaling=None)),
    "ernie4_5": dict(model="ernie4_5", config=dict(head_dim=8), tokenizer_config=dict(add_prefix_space=False)),
    "ernie4_5-old": dict(model="ernie4_5", config=dict(head_dim=8, tie_word_embeddings=False, use_bias=True), old=dict(
        OLD, rope_theta=500000.0, compression_ratio=1.0, rope_scaling=None)),
    "ernie4_5-fused": dict(hand=lambda config: llama_like(config, "qkv_proj", "ernie.", fused_mlp=True),
        config=hub("Ernie4_5_ForCausalLM", "ernie4_5", rope_theta=500000.0, head_dim=8, use_bias=False)),
    "arcee": dict(model="arcee", tokenizer="bpe"),
    "arcee-old": dict(model="arcee", tokenizer="bpe", config=dict(head_dim=8), old=dict(
        OLD, rope_theta=10000.0, rope_scaling=dict(rope_type="yarn", factor=20.0,
            original_max_position_embeddings=4096,
                                                   beta_fast=32.0, beta_slow=1.0, mscale=1.0))),
    "internlm2": dict(hand=internlm2, config=hub("InternLM2ForCausalLM", "internlm2", rope_theta=1000000,
                                                   rope_scaling=dict(type="dynamic", factor=2.0), bias=False)),
    "baichuan": dict(hand=lambda config: llama_like(config, "W_pack"),
                     remove=("num_key_value_heads", "max_position_embeddings"),
                     config=hub("BaichuanForCausalLM", "baichuan", num_key_value_heads=4, model_max_length=4096)),
    "chatglm": dict(hand=chatglm, tokenizer="bpe", special=GLM_TOKENS,
                    rename=dict(num_key_value_heads="multi_query_group_num", num_hidden_layers="num_layers",
                        intermediate_size="ffn_hidden_size",
                                rms_norm_eps="layernorm_epsilon", max_position_embeddings="seq_length"),
                    config=hub("ChatGLMModel", "chatglm", multi_query_attention=True, rms_norm_eps=1.5625e-07,
                        padded_vocab_size=288,
                               rope_ratio=500, add_qkv_bias=True)),
    "minicpm-longrope": dict(hand=llama_like, config=hub(
        "MiniCPMForCausalLM", "minicpm", scale_emb=12, dim_model_base=256, scale_depth=1.4, tie_word_embeddings=False,
            rope_theta=10000.0,
        rope_scaling=dict(rope_type="longrope", original_max_position_embeddings=65536, **FACTORS))),
    "codeshell": dict(hand=codeshell, tokenizer="bpe",
                      rename=dict(hidden_size="n_embd", num_attention_heads="n_head", num_hidden_layers="n_layer",
                          rms_norm_eps="layer_norm_epsilon",
                                  num_key_value_heads="num_query_groups", max_position_embeddings="n_positions"),
                      remove=("intermediate_size",), config=hub(
                          "CodeShellForCausalLM", "codeshell", activation_function="gelu_pytorch_tanh",
                              attention_softmax_in_fp32=True,
                          multi_query=True, n_inner=None, position_embedding_type="rope", group_query_attention=True)),
    "starcoder": dict(model="gpt_bigcode", tokenizer="bpe", bare=True, config=dict(
        vocab_size=288, n_embd=16, n_layer=2, n_head=4, n_positions=512, bos_token_id=1, eos_token_id=2)),
    "starcoder-old": dict(model="gpt_bigcode", tokenizer="bpe", bare=True, drop=("multi_query", "tie_word_embeddings"),
        config=dict(
        vocab_size=288, n_embd=24, n_layer=2, n_head=2, n_positions=512, bos_token_id=1, eos_token_id=2, n_inner=96),
            old=dict(
            OLD, attention_softmax_in_fp32=True, multi_query=True, scale_attn_weights=True, inference_runner=0)),
    "persimmon": dict(model="persimmon", expect="persimmon", config=dict(tie_word_embeddings=False)),
    "persimmon-old": dict(model="persimmon", expect="persimmon", drop=("qk_layernorm",),
        old=dict(OLD, rope_theta=25000.0, partial_rotary_factor=0.5, rope_scaling=None)),
    "orion": dict(hand=lambda config: llama_like(config, bias=True),
        config=hub("OrionForCausalLM", "orion", model_max_length=4096, rope_theta=10000.0)),
    "minicpm": dict(hand=llama_like, config=hub("MiniCPMForCausalLM", "minicpm", scale_emb=12, dim_model_base=256,
        scale_depth=1.4)),
}

# Where a family does not state widths of its own.
for spec in FAMILIES.values():
    vocab = 288 if spec.get("tokenizer") == "bpe" else 384
    if not spec.get("bare"):
        spec["config"] = {**({} if "hand" in spec else TINY), "vocab_size": vocab, **spec.get("config", {})}
    if "hand" in spec and "text_config" not in spec["config"]:
        spec["config"]["vocab_size"] = vocab
