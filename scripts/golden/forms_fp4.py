"""Checkpoints in NVFP4 for forms.py: the layouts of ModelOpt and of compressed-tensors."""

WIDTH, INNER, KEYS, VOCAB = 64, 128, 32, 384
BASE = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16", rms_norm_eps=1e-5,
            tie_word_embeddings=False, hidden_act="silu")
LLAMA = dict(BASE, architectures=["LlamaForCausalLM"], model_type="llama", intermediate_size=INNER, rope_theta=500000.0,
             rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=128))
QWEN = dict(BASE, architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", intermediate_size=INNER, head_dim=16,
            moe_intermediate_size=WIDTH, num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1,
            mlp_only_layers=[], rope_theta=10000.0)
ATTENTION = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KEYS, WIDTH), "self_attn.v_proj": (KEYS, WIDTH),
             "self_attn.o_proj": (WIDTH, WIDTH)}
MLP = {"mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}


def plain(modules: dict) -> dict:
    """Embedding, output and norms, and these matrices, in bf16."""
    tensors = {"model.embed_tokens.weight": f"normal {VOCAB}x{WIDTH}", "lm_head.weight": f"normal {VOCAB}x{WIDTH}",
               "model.norm.weight": f"near-one {WIDTH}"}
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors |= {f"{at}{norm}_layernorm.weight": f"near-one {WIDTH}" for norm in ("input", "post_attention")}
        tensors |= {f"{at}{name}.weight": f"normal {rows}x{columns}" for name, (rows, columns) in modules.items()}
    return tensors


def modelopt(name: str, rows: int, columns: int, scale: str = "positive - F32", inputs: str = "positive - F32") -> dict:
    """The tensors of a matrix as ModelOpt writes them; scales that are none are not there."""
    tensors = {f"{name}.weight": f"bytes {rows}x{columns // 2} U8",
               f"{name}.weight_scale": f"ue4m3 {rows}x{columns // 16} F8_E4M3"}
    return tensors | ({f"{name}.weight_scale_2": scale} if scale else {}) | (
        {f"{name}.input_scale": inputs} if inputs else {})


def compressed(name: str, rows: int, columns: int, scale: str = "divisor 1 F32", inputs: str = "divisor 1 F32") -> dict:
    """The same as compressed-tensors writes it."""
    tensors = {f"{name}.weight_packed": f"bytes {rows}x{columns // 2} U8",
               f"{name}.weight_scale": f"ue4m3 {rows}x{columns // 16} F8_E4M3", f"{name}.weight_global_scale": scale}
    return tensors | ({f"{name}.input_global_scale": inputs} if inputs else {})


def quantized(of, modules: dict, tensors: dict, special: dict = {}) -> dict:
    """`tensors` with those of `modules` as `of` writes them; `special` are further arguments by name."""
    tensors = dict(tensors)
    for layer in range(2):
        for module, (rows, columns) in modules.items():
            name = f"model.layers.{layer}.{module}"
            tensors.pop(f"{name}.weight", None)
            tensors |= of(name, rows, columns, *special.get(f"{layer}.{module}", ()))
    return tensors


ALL = ATTENTION | MLP
# A scale of one is left out of the file, and so is one that is not there.
ONES = {"0.self_attn.q_proj": ("one - F32", "one - F32"), "0.mlp.up_proj": ("", ""), "1.mlp.up_proj": ("one - F32",),
        "1.self_attn.v_proj": ("positive - F32", "")}
KV = {f"model.layers.{i}.self_attn.{x}_proj.{x}_scale": "positive - F32" for i in (0, 1) for x in ("k", "v")}
FP8 = {"self_attn.o_proj", "mlp.down_proj"}


def modelopt_config(algo: str, **more) -> dict:
    return dict(quant_algo=algo, quant_method="modelopt", producer=dict(name="modelopt", version="0.35.0"),
                ignore=["lm_head"], kv_cache_scheme=dict(num_bits=8, type="float", dynamic=False), **more)


def mixed() -> tuple:
    """Matrices in NVFP4 with and without 4-bit activations, and two of each layer in FP8."""
    tensors = quantized(modelopt, {name: shape for name, shape in ALL.items() if name not in FP8}, plain(ALL))
    algos = {}
    for layer in range(2):
        for module, (rows, columns) in ALL.items():
            name = f"model.layers.{layer}.{module}"
            algos[name] = dict(quant_algo="FP8" if module in FP8 else "W4A16_NVFP4" if "mlp" in module else "NVFP4")
            if module in FP8:
                tensors |= {f"{name}.weight": f"f8 {rows}x{columns} F8_E4M3", f"{name}.weight_scale": "positive - F32",
                            f"{name}.input_scale": "positive - F32"}
    return tensors | KV, algos


def compressed_and_fp8() -> dict:
    """A feed-forward part in NVFP4, and attention in FP8 with a scale for each row or for the matrix, as compressed-tensors writes it."""
    tensors = quantized(compressed, MLP, plain(ALL))
    for layer in range(2):
        at = f"model.layers.{layer}.self_attn."
        for module, (rows, columns) in ATTENTION.items():
            scale = "positive 1 F32" if module.endswith("o_proj") else f"positive {rows}x1 BF16"
            name = f"model.layers.{layer}.{module}"
            tensors |= {f"{name}.weight": f"f8 {rows}x{columns} F8_E4M3", f"{name}.weight_scale": scale}
        tensors |= {f"{at}{name}": "positive 1 F32" for name in ("o_proj.input_scale", "k_scale", "v_scale")}
    return tensors


def experts() -> dict:
    norms = {f"model.layers.{layer}.self_attn.{x}_norm.weight": "near-one 16" for layer in (0, 1) for x in ("q", "k")}
    tensors = plain(ATTENTION | {"mlp.gate": (3, WIDTH)}) | norms
    matrices = {f"mlp.experts.{i}.{name}_proj": (WIDTH, WIDTH) for i in range(3) for name in ("gate", "up", "down")}
    special = {f"0.mlp.experts.{i}.gate_proj": ("one - F32", "one - F32") for i in range(3)}
    return quantized(modelopt, matrices, tensors, special)


GROUP = dict(targets=["Linear"], weights=dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16,
             dynamic=False), input_activations=dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group",
             group_size=16, dynamic="local"))
COMPRESSED = dict(quant_method="compressed-tensors", quantization_status="compressed", ignore=["lm_head"])
MIXED, ALGOS = mixed()
# Blocks are quantized again, their scales stay beside them.
QUANTIZED = ("q8_0", "q4_k_m")
FORMS = {
    "nvfp4-modelopt": dict(tokenizer="spm-384", quantized=QUANTIZED, config=dict(LLAMA, quantization_config=modelopt_config("NVFP4", config_groups=dict(
        group_0=GROUP))), tensors=quantized(modelopt, ALL, plain(ALL), ONES) | KV),
    "nvfp4-modelopt-w4a16": dict(tokenizer="spm-384", config=LLAMA, tensors=quantized(modelopt, ALL, plain(ALL)), files={
        "hf_quant_config.json": dict(producer=dict(name="modelopt", version="0.47.0"), quantization=dict(
            quant_algo="W4A16_NVFP4", kv_cache_quant_algo=None, group_size=16, exclude_modules=["lm_head"]))}),
    "nvfp4-modelopt-mixed": dict(tokenizer="spm-384", tensors=MIXED, config=dict(LLAMA, quantization_config=modelopt_config(
        "MIXED_PRECISION", quantized_layers=ALGOS))),
    "nvfp4-modelopt-experts": dict(tokenizer="bpe-384", quantized=QUANTIZED, tensors=experts(), config=dict(QWEN, quantization_config=modelopt_config(
        "NVFP4"))),
    "nvfp4-compressed": dict(tokenizer="spm-384", tensors=quantized(compressed, ALL, plain(ALL), {
        "0.mlp.up_proj": ("one 1 F32", "one 1 F32"), "1.self_attn.v_proj": ("divisor 1 F32", "")}), config=dict(
            LLAMA, quantization_config=dict(COMPRESSED, format="nvfp4-pack-quantized", config_groups=dict(group_0=GROUP)))),
    "nvfp4-compressed-mixed": dict(tokenizer="spm-384", tensors=quantized(compressed, MLP, plain(ALL)), config=dict(
        LLAMA, quantization_config=dict(COMPRESSED, format="mixed-precision", config_groups={
            f"group_{i}": dict(GROUP, format="nvfp4-pack-quantized") for i in (0, 1)}))),
    "nvfp4-compressed-fp8": dict(tokenizer="spm-384", ahead=True, fp8_as_q8=True, tensors=compressed_and_fp8(), config=dict(
        LLAMA, quantization_config=dict(COMPRESSED, format="mixed-precision", config_groups=dict(
            group_0=dict(format="float-quantized", targets=["re:.*self_attn.*"], weights=dict(num_bits=8, type="float",
                symmetric=True, strategy="channel", dynamic=False)),
            group_1=dict(GROUP, format="nvfp4-pack-quantized", targets=["re:.*mlp.*"]))))),
}
