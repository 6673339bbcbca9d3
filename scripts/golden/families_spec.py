"""The specification's own architectures, state-space models and hybrids, for arch.py. Keys of a family are those of
families.py, and:

  reference  changes of config.json for the reference alone, where it stops on what transformers 5 writes:
             dict(set, drop)
  without    endings of tensors that the reference is not given, because it stops on them
  same       tensor -> the one that it equals
  expect     name of a function of by_hand.py, for what the reference does not convert at all
"""

import families
from families import OLD, SMALL

END = dict(vocab_size=384, bos_token_id=1, eos_token_id=2)
RWKV = dict(END, hidden_size=32, num_hidden_layers=2, layer_norm_epsilon=1e-5, torch_dtype="float32")
ONES = [1, 1, 32]


def layers(names: dict, n: int = 2) -> dict:
    """The tensors of n layers."""
    return families.layers(dict(num_hidden_layers=n), names)


def norms(*names: str) -> dict:
    return {f"{name}.{part}": [32] for name in names for part in ("weight", "bias")}


def gpt2() -> dict:
    return {"wte.weight": [384, 32], "wpe.weight": [64, 32], **norms("ln_f"), **layers({
        **norms("h.{}.ln_1", "h.{}.ln_2"), "h.{}.attn.bias": [1, 1, 8, 8], "h.{}.attn.masked_bias": [1],
        "h.{}.attn.c_attn.weight": [32, 96], "h.{}.attn.c_attn.bias": [96], "h.{}.attn.c_proj.weight": [32, 32],
        "h.{}.attn.c_proj.bias": [32], "h.{}.mlp.c_fc.weight": [32, 128], "h.{}.mlp.c_fc.bias": [128],
        "h.{}.mlp.c_proj.weight": [128, 32], "h.{}.mlp.c_proj.bias": [32]})}


def falcon() -> dict:
    return {"transformer.word_embeddings.weight": [384, 32], **norms("transformer.ln_f"), "lm_head.weight": [384, 32],
            **layers({
                **norms("transformer.h.{}.input_layernorm"),
                    "transformer.h.{}.self_attention.query_key_value.weight": [48, 32],
                "transformer.h.{}.self_attention.dense.weight": [32, 32],
                    "transformer.h.{}.mlp.dense_h_to_4h.weight": [128, 32],
                "transformer.h.{}.mlp.dense_4h_to_h.weight": [32, 128]})}


def mamba() -> dict:
    mixer = {"A_log": [64, 8], "D": [64], "conv1d.weight": [64, 1, 4], "conv1d.bias": [64],
        "in_proj.weight": [128, 32],
             "x_proj.weight": [18, 64], "dt_proj.weight": [64, 2], "dt_proj.bias": [64], "out_proj.weight": [32, 64]}
    return {"backbone.embedding.weight": [384, 32], "lm_head.weight": [384, 32], "backbone.norm_f.weight": [32],
            **layers({"backbone.layers.{}.norm.weight": [32],
                      **{"backbone.layers.{}.mixer." + name: shape for name, shape in mixer.items()}})}


def codestral() -> dict:
    mixer = {"A_log": [4], "D": [4], "dt_bias": [4], "conv1d.weight": [96, 1, 4], "conv1d.bias": [96],
             "in_proj.weight": [164, 32], "norm.weight": [64], "out_proj.weight": [32, 64]}
    return {"model.backbone.embeddings.weight": [384, 32], "model.lm_head.weight": [384, 32],
            "model.backbone.norm_f.weight": [32],
            **layers({"model.backbone.layers.{}.norm.weight": [32],
                      **{"model.backbone.layers.{}.mixer." + name: shape for name, shape in mixer.items()}})}


def rwkv_ends() -> dict:
    return {"rwkv.embeddings.weight": [384, 32], "head.weight": [384, 32],
        **norms("rwkv.blocks.0.pre_ln", "rwkv.ln_out")}


def rwkv4() -> dict:
    mix = {"attention.time_decay": [32], "attention.time_first": [32], "attention.time_mix_key": ONES,
           "attention.time_mix_value": ONES, "attention.time_mix_receptance": ONES, "feed_forward.time_mix_key": ONES,
           "feed_forward.time_mix_receptance": ONES, "feed_forward.key.weight": [128, 32],
           "feed_forward.value.weight": [32, 128], "feed_forward.receptance.weight": [32, 32]}
    mix |= {f"attention.{name}.weight": [32, 32] for name in ("key", "value", "receptance", "output")}
    return rwkv_ends() | layers({**norms("rwkv.blocks.{}.ln1", "rwkv.blocks.{}.ln2"),
                                 **{"rwkv.blocks.{}." + name: shape for name, shape in mix.items()}})


def rwkv6(n: int) -> dict:
    mix = {f"attention.time_maa_{x}": ONES for x in "xwkvrg"} | {
        "attention.time_maa_w1": [32, 40], "attention.time_maa_w2": [5, 8, 32], "attention.time_decay": ONES,
        "attention.time_decay_w1": [32, 16], "attention.time_decay_w2": [16, 32], "attention.time_faaaa": [4, 8],
        "attention.ln_x.weight": [32], "attention.ln_x.bias": [32], "feed_forward.time_maa_k": ONES,
        "feed_forward.time_maa_r": ONES, "feed_forward.key.weight": [96, 32], "feed_forward.value.weight": [32, 96],
        "feed_forward.receptance.weight": [32, 32]}
    mix |= {f"attention.{name}.weight": [32, 32] for name in ("key", "value", "receptance", "gate", "output")}
    return rwkv_ends() | layers({**norms("rwkv.blocks.{}.ln1", "rwkv.blocks.{}.ln2"),
                                 **{"rwkv.blocks.{}." + name: shape for name, shape in mix.items()}}, n)


def hybrid(mixer: dict) -> dict:
    mlp = {"mlp.gate_proj.weight": [64, 32], "mlp.up_proj.weight": [64, 32], "mlp.down_proj.weight": [32, 64],
           "input_layernorm.weight": [32], "post_attention_layernorm.weight": [32]}
    return {"model.embed_tokens.weight": [384, 32], "model.norm.weight": [32], "lm_head.weight": [384, 32],
            **layers({"model.layers.{}." + name: shape for name, shape in (mlp | mixer).items()})}


def rwkv6qwen2() -> dict:
    mix = {f"self_attn.time_maa_{x}": ONES for x in "xwkvrg"} | {
        "self_attn.time_maa_w1": [32, 40], "self_attn.time_maa_w2": [5, 8, 32], "self_attn.time_decay": ONES,
        "self_attn.time_decay_w1": [32, 16], "self_attn.time_decay_w2": [16, 32], "self_attn.q_proj.weight": [32, 32],
        "self_attn.q_proj.bias": [32], "self_attn.k_proj.weight": [16, 32], "self_attn.k_proj.bias": [16],
        "self_attn.v_proj.weight": [16, 32], "self_attn.v_proj.bias": [16], "self_attn.gate.weight": [32, 32],
        "self_attn.o_proj.weight": [32, 32]}
    return hybrid(mix)


def fla(layer: int) -> dict:
    """A layer of RWKV 7 as flash-linear-attention names it; the first one has no residual values."""
    lora = {f"attn.{x}_lora.lora.{part}": shape for x in ("wav" if layer else "wa")
            for part, shape in (("0.weight", [16, 32]), ("2.weight", [32, 16]), ("2.bias", [32]))}
    own = {f"attn.x_{x}": ONES for x in "rwkvag"} | {"attn.k_k": [32], "attn.k_a": [32], "attn.r_k": [4, 8]}
    own |= {f"attn.{x}_proj.weight": [32, 32] for x in "rkvo"} | norms("attn.g_norm", "attn_norm", "ffn_norm")
    own |= {"attn.g_lora.lora.0.weight": [24, 32], "attn.g_lora.lora.2.weight": [32, 24], "ffn.x_k": [32],
            "ffn.key.weight": [128, 32], "ffn.value.weight": [32, 128]}
    return {f"model.layers.{layer}.{name}": shape for name, shape in (lora | own).items()}


def goose() -> dict:
    """RWKV 7 as its authors name it."""
    mix = {f"attention.x_{x}": ONES for x in "rwkvag"} | {f"attention.{x}0": ONES for x in "wav"}
    mix |= {f"attention.{x}1": [32, 16] for x in "wavg"} | {f"attention.{x}2": [16, 32] for x in "wavg"}
    mix |= {"attention.k_k": ONES, "attention.k_a": ONES, "attention.r_k": [4, 8], "feed_forward.x_k": ONES,
            "feed_forward.key.weight": [128, 32], "feed_forward.value.weight": [32, 128]}
    mix |= {f"attention.{name}.weight": [32, 32] for name in ("receptance", "key", "value", "output")}
    return {"model.embeddings.weight": [384, 32], "head.weight": [384, 32],
        **norms("model.ln_out", "model.blocks.0.pre_norm"),
            **layers({"model.blocks.{}." + name: shape
                      for name, shape in (mix | norms("attention.ln_x", "ln1", "ln2")).items()})}


def arwkv(gate: bool) -> dict:
    low = "wavg" if gate else "wav"
    mix = {"x_x": [6 if gate else 5, 1, 1, 32], "w0": ONES, "a0": ONES, "v0": ONES, "k_k": ONES, "k_a": ONES,
        "r_k": [4, 8]}
    mix |= {f"{x}1": [32, 16] for x in low} | {f"{x}2": [16, 32] for x in low}
    mix |= {f"{name}.weight": [32, 32] for name in ("receptance", "key", "value", "output")}
    return hybrid({"self_attn.time_mixer." + name: shape for name, shape in mix.items()})


H1 = dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_rms_norm=True,
    head_dim=8,
          key_multiplier=0.390625, attention_in_multiplier=1.25, attention_out_multiplier=0.9375,
              ssm_in_multiplier=1.1,
          ssm_out_multiplier=0.23570226, embedding_multiplier=5.656854249492381, lm_head_multiplier=0.0390625,
          mlp_multipliers=[0.8838834764831844, 0.5859375],
          ssm_multipliers=[0.35355339059327373, 0.25, 0.3535, 0.5, 0.35355339059327373])
MPT = dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=256, **END)
RAW = ("model_type",)
WHISPER = dict(END, d_model=16, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=24, decoder_layers=2,
    decoder_attention_heads=2,
               decoder_ffn_dim=40, num_mel_bins=12, max_source_positions=24, max_target_positions=20, pad_token_id=0,
                   decoder_start_token_id=1,
               suppress_tokens=None, begin_suppress_tokens=None)

SPEC = {
    "gpt2": dict(model="gpt2", tokenizer="bpe", bare=True, reference=dict(set=dict(n_ctx=64)), config=dict(
        END, n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "gpt2-old": dict(hand=gpt2(), tokenizer="bpe", without=(".attn.bias", ".attn.masked_bias"), config=dict(
        END, architectures=["GPT2LMHeadModel"], model_type="gpt2", n_ctx=64, n_positions=64, n_embd=32, n_layer=2,
            n_head=4,
        layer_norm_epsilon=1e-05, activation_function="gelu_new", summary_first_dropout=0.1,
        task_specific_params=dict(text_generation=dict(do_sample=True, max_length=50)))),
    "gptneox": dict(model="gpt_neox", tokenizer="bpe", reference=dict(set=dict(rotary_pct=0.25), drop=RAW)),
    "gptneox-old": dict(model="gpt_neox", tokenizer="bpe", config=dict(use_parallel_residual=False),
        reference=dict(drop=RAW),
                        old=dict(OLD, rotary_pct=0.5, rotary_emb_base=10000)),
    "falcon": dict(model="falcon", tokenizer="bpe", reference=dict(set=dict(num_kv_heads=1))),
    "falcon-old": dict(hand=falcon(), tokenizer="bpe", config=dict(
        END, architectures=["RWForCausalLM"], model_type="RefinedWebModel", hidden_size=32, n_head=4, n_layer=2,
        layer_norm_epsilon=1e-5, multi_query=True, parallel_attn=True, alibi=False, bias=False)),
    "falcon-40b": dict(model="falcon", tokenizer="bpe", config=dict(new_decoder_architecture=True, num_kv_heads=2,
                                                                    tie_word_embeddings=False)),
    "falcon-rw": dict(model="falcon", tokenizer="bpe", config=dict(multi_query=False, alibi=True)),
    "bloom": dict(model="bloom", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, n_layer=2, n_head=4)),
    "bloom-old": dict(model="bloom", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, n_layer=2, n_head=4),
                      drop=("hidden_size", "n_layer", "n_head"),
                      old=dict(OLD, n_embed=32, num_attention_heads=4, n_layer=2, seq_length=2048, offset_alibi=100)),
    "mpt": dict(model="mpt", tokenizer="bpe", bare=True, config=MPT,
        reference=dict(set=dict(architectures=["MPTForCausalLM"]))),
    "mpt-old": dict(model="mpt", tokenizer="bpe", bare=True, config=MPT, drop=("attn_config", "layer_norm_epsilon"),
        old=dict(
        OLD, architectures=["MPTForCausalLM"], attn_config=dict(
            alibi=True, alibi_bias_max=16, attn_impl="torch", attn_type="multihead_attention",
                attn_uses_sequence_id=False,
            clip_qkv=6.0, prefix_lm=False, qk_ln=False, softmax_scale=None))),
    "mamba": dict(model="mamba", tokenizer="bpe", bare=True, config=dict(
        END, hidden_size=32, num_hidden_layers=2, state_size=8)),
    "mamba-old": dict(hand=mamba(), tokenizer="bpe", same={"lm_head.weight": "backbone.embedding.weight"}, config=dict(
        architectures=["MambaForCausalLM"], d_model=32, n_layer=2, d_state=8, vocab_size=384, ssm_cfg={},
            rms_norm=True)),
    "mamba-untied": dict(hand=mamba(), tokenizer="bpe", config=dict(
        architectures=["MambaLMHeadModel"], d_model=32, n_layer=2, d_state=8, vocab_size=379, ssm_cfg={})),
    "falcon-mamba": dict(model="falcon_mamba", tokenizer="bpe", bare=True, config=dict(
        END, hidden_size=32, num_hidden_layers=2, state_size=8, tie_word_embeddings=False)),
    "mamba2": dict(model="mamba2", tokenizer="bpe", bare=True, config=dict(
        END, hidden_size=32, num_hidden_layers=2, state_size=8, head_dim=16, num_heads=4, n_groups=2)),
    "mamba2-codestral": dict(hand=codestral(), tokenizer="spm", config=dict(
        END, architectures=["Mamba2ForCausalLM"], model_type="mamba2", hidden_size=32, num_hidden_layers=2,
            state_size=8,
        head_dim=16, n_groups=2, intermediate_size=64, layer_norm_epsilon=1e-5)),
    "jamba": dict(model="jamba", config=dict(
        num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1, num_experts=2, num_experts_per_tok=1,
            mamba_d_state=8,
        use_mamba_kernels=False)),
    "jamba-tied": dict(model="jamba", config=dict(
        num_hidden_layers=3, attn_layer_period=3, attn_layer_offset=2, expert_layer_period=3, num_experts=2,
            mamba_d_state=8,
        mamba_dt_rank=4, tie_word_embeddings=True, use_mamba_kernels=False), old=OLD),
    "falcon-h1": dict(model="falcon_h1", tokenizer="bpe", config=H1),
    "falcon-h1-old": dict(model="falcon_h1", tokenizer="bpe",
        config=dict(H1, tie_word_embeddings=True, mamba_rms_norm=False),
                          old=dict(OLD, rope_theta=100000000000.0, rope_scaling=None)),
    "lfm2": dict(model="lfm2", tokenizer="bpe", config=dict(layer_types=["conv", "full_attention"],
        block_multiple_of=8)),
    "lfm2-old": dict(model="lfm2", tokenizer="bpe", drop=("layer_types", "intermediate_size"), config=dict(
        full_attn_idxs=[1], block_auto_adjust_ff_dim=False), old=dict(
            OLD, rope_theta=1000000.0, block_ff_dim=64, full_attn_idxs=[1], tie_embedding=True)),
    "rwkv6": dict(hand=rwkv6(3), tokenizer="world", config=dict(
        RWKV, architectures=["Rwkv6ForCausalLM"], model_type="rwkv6", num_hidden_layers=3, head_size=8,
            rescale_every=1,
        intermediate_size=96, attention_hidden_size=32)),
    "rwkv6-plain": dict(hand=rwkv6(2), tokenizer="world", config=dict(
        RWKV, architectures=["Rwkv6ForCausalLM"], model_type="rwkv6", head_size=8, rescale_every=6,
            intermediate_size=None)),
    "rwkv6qwen2": dict(hand=rwkv6qwen2(), tokenizer="bpe", config=dict(
        SMALL, architectures=["RWKV6Qwen2ForCausalLM"], model_type="rwkv6qwen2", rms_norm_eps=1e-6,
            lora_rank_tokenshift=8,
        lora_rank_decay=16)),
    "rwkv7": dict(tokenizer="world", hand={
        "model.embeddings.weight": [384, 32], "lm_head.weight": [384, 32],
            **norms("model.norm", "model.layers.0.pre_norm"),
        **fla(0), **fla(1)}, config=dict(
        END, architectures=["RWKV7ForCausalLM"], model_type="rwkv7", hidden_size=32, num_hidden_layers=2, head_dim=8,
            norm_eps=1e-5,
        intermediate_size=128, decay_low_rank_dim=16, a_low_rank_dim=16, v_low_rank_dim=16, gate_low_rank_dim=24)),
    "rwkv7-goose": dict(hand=goose(), tokenizer="world", config=dict(
        RWKV, architectures=["Rwkv7ForCausalLM"], model_type="rwkv7", head_size=8, intermediate_size=None,
            lora_rank_decay=None,
        lora_rank_iclr=None, lora_rank_value_residual_mix=None, lora_rank_gate=None)),
    "arwkv7": dict(hand=arwkv(True), tokenizer="bpe", config=dict(
        SMALL, architectures=["RwkvHybridForCausalLM"], model_type="rwkv_hybrid", head_size=8, rms_norm_eps=1e-6,
            wkv_has_gate=True,
        wkv_version=7)),
    "arwkv7-ungated": dict(hand=arwkv(False), tokenizer="bpe", config=dict(
        SMALL, architectures=["RwkvHybridForCausalLM"], model_type="rwkv_hybrid", head_size=8, rms_norm_eps=1e-6,
            wkv_has_gate=False,
        wkv_version=7)),
    "gptj": dict(model="gptj", tokenizer="bpe", bare=True, expect="gptj", config=dict(
        END, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
    "whisper": dict(model="whisper", tokenizer="bpe", bare=True, expect="whisper", config=WHISPER,
        **{"class": "WhisperForConditionalGeneration"}),
    # As the Hub has it: keys of transformers 4, and, in files that were PyTorch's once, the embedding a second time
    # as the output.
    "whisper-old": dict(model="whisper", tokenizer="bpe", bare=True, expect="whisper", config=WHISPER,
        **{"class": "WhisperForConditionalGeneration"},
                        drop=("tie_word_embeddings",), extra="proj_out", without=("proj_out.weight",),
                            old=dict(OLD, num_hidden_layers=1, forced_decoder_ids=[[1, 5], [2, 7]],
                            begin_suppress_tokens=[3, 4])),
    "rwkv4": dict(hand=rwkv4(), tokenizer="bpe", expect="rwkv", config=dict(
        RWKV, architectures=["RwkvForCausalLM"], model_type="rwkv", context_length=256, rescale_every=6,
            intermediate_size=None)),
}
