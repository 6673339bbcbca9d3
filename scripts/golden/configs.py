"""Makes golden/config/NAME.json: what the reference makes of config.json files, odd ones included.

One entry for each config: the config, the hyperparameter keys that the converter writes for it
(through transformers' AutoConfig, or without it where that refuses the file), and the values of
rope_freqs.weight where it computes them. Configs that the converter stops at have "error".
Needs torch and transformers.
"""

import json
import logging
import tempfile
from pathlib import Path

ABSENT = object()
LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=96,
             num_attention_heads=4, num_hidden_layers=2, vocab_size=384)
BARE = LLAMA
LLAMA = dict(LLAMA, num_key_value_heads=2)
MISTRAL = dict(BARE, architectures=["MistralForCausalLM"], model_type="mistral")
MIXTRAL = dict(BARE, architectures=["MixtralForCausalLM"], model_type="mixtral")
L3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)


def llama3(dim: int, base, **more) -> dict:
    return dict(head_dim=dim, rope_theta=base, max_position_embeddings=131072,
                rope_scaling=dict(L3, original_max_position_embeddings=8192, **more))


VARIANTS = [
    (BARE, {}), (BARE, dict(model_type=ABSENT)), (BARE, dict(eos_token_id="2")), (LLAMA, {}),
    (LLAMA, dict(rms_norm_eps=1e-5)), (LLAMA, dict(rms_norm_eps=1)), (LLAMA, dict(rms_norm_eps=None)),
    (LLAMA, dict(rms_norm_eps="1e-5")), (LLAMA, dict(initializer_range=0)),
        (LLAMA, dict(max_position_embeddings=512.0)),
    (LLAMA, dict(max_position_embeddings=None)), (LLAMA, dict(hidden_size=66)),
        (LLAMA, dict(hidden_size=66, head_dim=16)),
    (LLAMA, dict(num_key_value_heads=None)), (LLAMA, dict(num_key_value_heads=1)), (LLAMA, dict(head_dim=None)),
    (LLAMA, dict(head_dim=15)), (LLAMA, dict(head_dim=3)), (LLAMA, dict(head_dim=128)),
    (LLAMA, dict(model_type=ABSENT)), (LLAMA, dict(model_type=ABSENT, num_key_value_heads=2, rms_norm_eps=1e-5)),
    (LLAMA, dict(model_type="no-such-type", num_key_value_heads=2, head_dim=16, max_position_embeddings=100)),
    (LLAMA, dict(model_type=ABSENT, num_key_value_heads=2, rope_theta=77, rope_scaling=dict(type="linear", factor=3))),
    (LLAMA, dict(model_type=ABSENT, num_key_value_heads=2, rope_scaling=dict(type="yarn", factor=3))),
    (LLAMA, dict(model_type=ABSENT, num_key_value_heads=2, original_max_position_embeddings=64,
                 rope_scaling=dict(type="yarn", factor=3))),
    (BARE, dict(model_type="mistral")), (BARE, dict(model_type="mixtral")),
    (LLAMA, dict(rope_scaling=dict(type="dynamic"))), (LLAMA, dict(rope_scaling=dict(type="dynamic", factor=2.0))),
    (LLAMA, dict(rope_scaling=dict(type="linear"))), (LLAMA, dict(rope_scaling=dict(type="linear", factor=0.5))),
    (LLAMA, dict(rope_scaling=dict(rope_type="linear", factor=4, type="dynamic"))),
    (LLAMA, dict(rope_scaling=dict(type="yarn", factor=4))),
    (LLAMA, dict(rope_scaling=dict(type="yarn", factor=4.0), original_max_position_embeddings=77)),
    (LLAMA, dict(rope_scaling=dict(type="yarn", factor=4.0, attn_factor=0.5, extrapolation_factor=1.0, beta_fast=32,
        beta_slow=1))),
    (LLAMA, dict(rope_scaling=dict(rope_type="yarn", factor=4.0, attention_factor=0.25, attn_factor=0.5))),
    (LLAMA, dict(rope_scaling=dict(rope_type="llama3", factor=4.0))), (LLAMA, dict(rope_scaling=L3)),
    (LLAMA, dict(rope_scaling=dict(L3, rope_type="LLAMA3"))),
    (LLAMA, dict(rope_scaling={})), (LLAMA, dict(rope_scaling=None)), (LLAMA, dict(rope_theta=None)),
    (LLAMA, dict(rope_theta=12345.678)), (LLAMA, dict(rope_theta=1000000)),
    (LLAMA, dict(rope_scaling=dict(rope_type="linear", factor=4.0), rope_theta=9.0,
                 rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=7.0))),
    (LLAMA, dict(rope_parameters=dict(rope_type="default"))), (LLAMA, dict(rope_parameters=dict(rope_theta=5000.0))),
    (LLAMA, dict(rope_parameters=dict(rope_type="default"), rope_theta=3000.0)),
    (LLAMA, dict(rope_scaling=dict(type="longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8, factor=4.0))),
    (LLAMA, dict(rope_scaling=dict(type="su", short_factor=[1.0] * 8, long_factor=[2.0] * 8))),
    (LLAMA, dict(rope_scaling=dict(rope_type="mystery", factor=2.0))),
    (LLAMA, dict(rope_scaling=dict(rope_type="default", mrope_section=[2, 3, 3]))),
    (LLAMA, dict(partial_rotary_factor=0.5)), (LLAMA, dict(rope_local_base_freq=123.0)),
    (LLAMA, dict(rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=5.0),
                                      sliding_attention=dict(rope_type="default", rope_theta=6.0)))),
    (LLAMA, dict(layer_norm_eps=1e-3, norm_eps=1e-4)), (LLAMA, dict(is_causal=False)), (LLAMA, dict(is_causal=True)),
    (LLAMA, dict(n_group=4, topk_group=2, scoring_func="sigmoid", num_experts=8, num_experts_per_tok=2)),
    (LLAMA, dict(score_function="softmax")), (LLAMA, dict(n_ctx=5, n_layer=7, hidden_dim=9)),
    (LLAMA, dict(eos_token_id="2")), (LLAMA, dict(eos_token_id=[2, 3])), (LLAMA, dict(bos_token_id=[1])),
    (LLAMA, dict(tie_word_embeddings=None)), (LLAMA, dict(use_cache="true")),
        (LLAMA, dict(torch_dtype="float16", dtype=None)),
    (LLAMA, dict(attention_dropout=None)),
    (LLAMA, dict(intermediate_size=[96, 96])),
    (MISTRAL, {}), (MISTRAL, dict(num_key_value_heads=None)), (MISTRAL, dict(sliding_window=None)),
        (MISTRAL, dict(hidden_size=66)),
    (MISTRAL, dict(head_dim=128, num_key_value_heads=2, rope_theta=1e9, max_position_embeddings=1024000)),
    (MISTRAL, dict(attention_dropout=None)),
    (MIXTRAL, {}), (MIXTRAL, dict(num_experts=3)), (MIXTRAL, dict(num_local_experts=16, num_experts_per_tok=1)),
    (MIXTRAL, dict(head_dim=32)), (MIXTRAL, dict(rope_theta=100.0, sliding_window=7)),
    (LLAMA, llama3(128, 500000.0)), (LLAMA, llama3(64, 500000.0)), (LLAMA, llama3(64, 500000)),
        (LLAMA, llama3(80, 10000.0)),
    (LLAMA, llama3(128, 5e6)), (LLAMA, llama3(256, 1e6)), (LLAMA, llama3(128, 250000.0)),
    (LLAMA, dict(llama3(128, 500000.0), rope_scaling=dict(L3, factor=32.0, original_max_position_embeddings=8192))),
    (LLAMA, dict(llama3(128, 500000.0), rope_scaling=dict(L3, factor=16, low_freq_factor=1, high_freq_factor=2,
                                                          original_max_position_embeddings=4096))),
]


def make(ctx) -> None:
    logging.disable(logging.CRITICAL)
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    kinds = {t: t.name.lower().replace("uint", "u").replace("int", "i").replace("float", "f").replace("string", "str")
             for t in gguf.GGUFValueType}
    entries = []
    for base, changes in VARIANTS:
        config = {key: value for key, value in {**base, **changes}.items() if value is not ABSENT}
        entry = dict(config=config)
        with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
            (Path(scratch) / "config.json").write_text(json.dumps(config))
            try:
                hparams = ModelBase.load_hparams(Path(scratch), False)
                model_class = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
                model = model_class(Path(scratch), gguf.LlamaFileType.ALL_F32, Path(scratch) / "out.gguf")
                model.set_gguf_parameters()
                model.find_hparam(["n_kv_heads", "num_key_value_heads"])  # as for every tensor
                keys = []
                for key, value in model.gguf_writer.kv_data[0].items():
                    packed = model.gguf_writer._pack_val(value.value, value.type, add_vtype=True)
                    kind, spelled = kinds[value.type], value.value
                    if kind == "f32":
                        spelled = float(torch.tensor(float(spelled), dtype=torch.float32).item())
                    elif kind == "array":
                        kind, spelled = "arr[i32]", list(spelled)
                        assert packed[4] == gguf.GGUFValueType.INT32
                    elif kind.startswith("u"):
                        spelled = int(spelled)
                    keys.append([key, kind, spelled])
                entry["keys"] = keys
                extra = dict(model.generate_extra_tensors())
                if extra:
                    entry["rope_freqs"] = [float(value) for value in extra["rope_freqs.weight"]]
            except Exception as error:
                entry["error"] = type(error).__name__
        entries.append(entry)
    out = ctx.golden / "config" / "llama.json"
    out.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")
