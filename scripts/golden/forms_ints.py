"""Checkpoints of integer codes for forms.py: GPTQ and compressed-tensors as far as the reference reads them.

Zeros of GPTQ never have all bits set here, but for `-unmasked`: of those the reference makes numbers that no kernel makes.
"""

WIDTH, INNER, KEYS, VOCAB = 64, 128, 32, 384
LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
             torch_dtype="bfloat16", rms_norm_eps=1e-5, tie_word_embeddings=False, hidden_act="silu",
             intermediate_size=INNER, rope_theta=500000.0)
MODULES = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KEYS, WIDTH), "self_attn.v_proj": (KEYS, WIDTH),
           "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
           "mlp.down_proj": (WIDTH, INNER)}


def model(of, quantization: dict, lm_head=False) -> dict:
    """A llama whose matrices are what `of` says of (out, in)."""
    tensors = {"model.embed_tokens.weight": f"normal {VOCAB}x{WIDTH}", "model.norm.weight": f"near-one {WIDTH}"}
    tensors |= {f"lm_head.{k}": v for k, v in of(VOCAB, WIDTH).items()} if lm_head else {
        "lm_head.weight": f"normal {VOCAB}x{WIDTH}"}
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors |= {f"{at}{norm}_layernorm.weight": f"near-one {WIDTH}" for norm in ("input", "post_attention")}
        for name, (rows, columns) in MODULES.items():
            tensors |= {f"{at}{name}.{k}": v for k, v in of(rows, columns).items()}
    return dict(config=LLAMA | dict(quantization_config=quantization), tensors=tensors, tokenizer="spm-384")


def gptq(bits: int, group: int, order: str = "in-order", zeros: str = "", scales: str = "scales {} F16", **config) -> dict:
    def of(rows, columns):
        groups, size = (1, columns) if group == -1 else (columns // group, group)
        return {"qweight": f"words {columns * bits // 32}x{rows} I32",
                "qzeros": f"{zeros or f'fields:{bits}'} {groups}x{rows * bits // 32} I32",
                "scales": scales.format(f"{groups}x{rows}"), "g_idx": f"{order}:{size} {columns} I32"}
    lm_head = config.get("lm_head", False)
    return model(of, dict(quant_method="gptq", bits=bits, group_size=group, sym=False, desc_act=order == "in-no-order") | config,
                 lm_head)


def packed(bits: int, group: int, symmetric: bool, scales: str = "positive {} BF16") -> dict:
    def of(rows, columns):
        groups = columns // group
        zeros = {} if symmetric else {"weight_zero_point": f"words {-(-rows * bits // 32)}x{groups} I32"}
        return {"weight_packed": f"words {rows}x{columns * bits // 32} I32", "weight_shape": f"numbers:{rows}x{columns} 2 I64",
                "weight_scale": scales.format(f"{rows}x{groups}"), **zeros}
    weights = dict(num_bits=bits, type="int", symmetric=symmetric, strategy="group", group_size=group, actorder=None,
                   block_structure=None, dynamic=False)
    return model(of, compressed("pack-quantized", weights))


def compressed(form: str, weights: dict) -> dict:
    return dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"],
                config_groups=dict(group_0=dict(targets=["Linear"], weights=weights, input_activations=None)))


def integers(dims: str) -> dict:
    weights = dict(num_bits=8, type="int", symmetric=True, strategy="channel", group_size=None, dynamic=False)
    return model(lambda rows, columns: {"weight": f"bytes {rows}x{columns} I8",
                                        "weight_scale": f"positive {dims.format(rows)} BF16"},
                 compressed("int-quantized", weights))


GPTQ = {
    "gptq-4bit": gptq(4, 32, zeros="fields:4"),
    "gptq-4bit-order": gptq(4, 32, "in-no-order"),
    "gptq-4bit-v2": gptq(4, 32, zeros="words", checkpoint_format="gptq_v2"),
    "gptq-4bit-channel": gptq(4, -1, scales="positive {} F32"),
    "gptq-8bit-order": gptq(8, 64, "in-no-order"),
    "gptq-8bit-head": gptq(8, 32, scales="positive {} BF16", lm_head=True),
    "gptq-2bit-order": gptq(2, 16, "in-no-order"),
    "gptq-4bit-unmasked": gptq(4, 32, zeros="words"),
    "gptq-8bit-unmasked": gptq(8, 32, zeros="words", scales="positive {} BF16"),
    "gptq-2bit-unmasked": gptq(2, 32, zeros="words"),
}
PACKED = {
    "packed-4bit": packed(4, 32, True),
    "packed-4bit-zeros": packed(4, 16, False),
    "packed-8bit": packed(8, 64, True, "scales {} F16"),
    "packed-8bit-zeros": packed(8, 32, False),
    "packed-2bit-zeros": packed(2, 32, False),
    "int8-channel": integers("{}x1"),
}
FORMS = GPTQ | PACKED
