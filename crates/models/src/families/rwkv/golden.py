"""Golden recipes of RWKV: recurrent models without attention."""

from headers import LAYER, Header
from tiny_models import END, SMALL, norms, stack

RWKV = dict(END, hidden_size=32, num_hidden_layers=2, layer_norm_epsilon=1e-5, torch_dtype="float32")
ONES = [1, 1, 32]


def rwkv_ends() -> dict:
    return {"rwkv.embeddings.weight": [384, 32], "head.weight": [384, 32],
        **norms("rwkv.blocks.0.pre_ln", "rwkv.ln_out")}


def rwkv4() -> dict:
    mix = {"attention.time_decay": [32], "attention.time_first": [32], "attention.time_mix_key": ONES,
           "attention.time_mix_value": ONES, "attention.time_mix_receptance": ONES, "feed_forward.time_mix_key": ONES,
           "feed_forward.time_mix_receptance": ONES, "feed_forward.key.weight": [128, 32],
           "feed_forward.value.weight": [32, 128], "feed_forward.receptance.weight": [32, 32]}
    mix |= {f"attention.{name}.weight": [32, 32] for name in ("key", "value", "receptance", "output")}
    return rwkv_ends() | stack({**norms("rwkv.blocks.{}.ln1", "rwkv.blocks.{}.ln2"),
                                 **{"rwkv.blocks.{}." + name: shape for name, shape in mix.items()}})


def rwkv6(n: int) -> dict:
    mix = {f"attention.time_maa_{x}": ONES for x in "xwkvrg"} | {
        "attention.time_maa_w1": [32, 40], "attention.time_maa_w2": [5, 8, 32], "attention.time_decay": ONES,
        "attention.time_decay_w1": [32, 16], "attention.time_decay_w2": [16, 32], "attention.time_faaaa": [4, 8],
        "attention.ln_x.weight": [32], "attention.ln_x.bias": [32], "feed_forward.time_maa_k": ONES,
        "feed_forward.time_maa_r": ONES, "feed_forward.key.weight": [96, 32], "feed_forward.value.weight": [32, 96],
        "feed_forward.receptance.weight": [32, 32]}
    mix |= {f"attention.{name}.weight": [32, 32] for name in ("key", "value", "receptance", "gate", "output")}
    return rwkv_ends() | stack({**norms("rwkv.blocks.{}.ln1", "rwkv.blocks.{}.ln2"),
                                 **{"rwkv.blocks.{}." + name: shape for name, shape in mix.items()}}, n)


def hybrid(mixer: dict) -> dict:
    mlp = {"mlp.gate_proj.weight": [64, 32], "mlp.up_proj.weight": [64, 32], "mlp.down_proj.weight": [32, 64],
           "input_layernorm.weight": [32], "post_attention_layernorm.weight": [32]}
    return {"model.embed_tokens.weight": [384, 32], "model.norm.weight": [32], "lm_head.weight": [384, 32],
            **stack({"model.layers.{}." + name: shape for name, shape in (mlp | mixer).items()})}


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
            **stack({"model.blocks.{}." + name: shape
                      for name, shape in (mix | norms("attention.ln_x", "ln1", "ln2")).items()})}


def arwkv(gate: bool) -> dict:
    low = "wavg" if gate else "wav"
    mix = {"x_x": [6 if gate else 5, 1, 1, 32], "w0": ONES, "a0": ONES, "v0": ONES, "k_k": ONES, "k_a": ONES,
        "r_k": [4, 8]}
    mix |= {f"{x}1": [32, 16] for x in low} | {f"{x}2": [16, 32] for x in low}
    mix |= {f"{name}.weight": [32, 32] for name in ("receptance", "key", "value", "output")}
    return hybrid({"self_attn.time_mixer." + name: shape for name, shape in mix.items()})


def rwkv4_converter():
    """The converter of RWKV 4, which the reference lacks."""
    import gguf
    from by_hand import HandWritten

    class Rwkv4(HandWritten):
        model_arch = gguf.MODEL_ARCH.GPTJ
        arch_name = "rwkv"
        names = {
            r"rwkv\.embeddings\.weight": r"token_embd.weight",
            r"rwkv\.blocks\.0\.pre_ln\.(\w+)": r"token_embd_norm.\1",
            r"rwkv\.ln_out\.(\w+)": r"output_norm.\1",
            r"head\.weight": r"output.weight",
            r"rwkv\.blocks\.(\d+)\.ln1\.(\w+)": r"blk.\1.attn_norm.\2",
            r"rwkv\.blocks\.(\d+)\.ln2\.(\w+)": r"blk.\1.attn_norm_2.\2",
            r"rwkv\.blocks\.(\d+)\.attention\.time_(decay|first)": r"blk.\1.time_mix_\2.weight",
            r"rwkv\.blocks\.(\d+)\.attention\.time_mix_([kvr])\w+": r"blk.\1.time_mix_lerp_\2.weight",
            r"rwkv\.blocks\.(\d+)\.feed_forward\.time_mix_([kr])\w+": r"blk.\1.channel_mix_lerp_\2.weight",
            r"rwkv\.blocks\.(\d+)\.attention\.(\w+)\.weight": r"blk.\1.time_mix_\2.weight",
            r"rwkv\.blocks\.(\d+)\.feed_forward\.(\w+)\.weight": r"blk.\1.channel_mix_\2.weight",
        }

        def reshape(self, new_name, data_torch):
            return data_torch.squeeze()

        def set_gguf_parameters(self):
            w = self.gguf_writer
            w.add_uint32("rwkv.architecture_version", 4)
            w.add_uint32("rwkv.context_length", 256)
            w.add_uint32("rwkv.block_count", 2)
            w.add_uint32("rwkv.embedding_length", 32)
            w.add_uint32("rwkv.feed_forward_length", 128)
            w.add_float32("rwkv.attention.layer_norm_epsilon", 1e-5)
            w.add_file_type(self.ftype)

    return Rwkv4


CHECKPOINTS = {
    "rwkv6": dict(hand=rwkv6(3), tokenizer="world", config=dict(RWKV, architectures=["Rwkv6ForCausalLM"],
        model_type="rwkv6", num_hidden_layers=3, head_size=8, rescale_every=1, intermediate_size=96,
        attention_hidden_size=32)),
    "rwkv6-plain": dict(hand=rwkv6(2), tokenizer="world", config=dict(RWKV, architectures=["Rwkv6ForCausalLM"],
        model_type="rwkv6", head_size=8, rescale_every=6, intermediate_size=None)),
    "rwkv6qwen2": dict(hand=rwkv6qwen2(), tokenizer="bpe", config=dict(SMALL, architectures=["RWKV6Qwen2ForCausalLM"],
        model_type="rwkv6qwen2", rms_norm_eps=1e-6, lora_rank_tokenshift=8, lora_rank_decay=16)),
    "rwkv7": dict(tokenizer="world", hand={"model.embeddings.weight": [384, 32], "lm_head.weight": [384, 32],
        **norms("model.norm", "model.layers.0.pre_norm"), **fla(0), **fla(1)}, config=dict(END,
        architectures=["RWKV7ForCausalLM"], model_type="rwkv7", hidden_size=32, num_hidden_layers=2, head_dim=8,
        norm_eps=1e-5, intermediate_size=128, decay_low_rank_dim=16, a_low_rank_dim=16, v_low_rank_dim=16,
        gate_low_rank_dim=24)),
    "rwkv7-goose": dict(hand=goose(), tokenizer="world", config=dict(RWKV, architectures=["Rwkv7ForCausalLM"],
        model_type="rwkv7", head_size=8, intermediate_size=None, lora_rank_decay=None, lora_rank_iclr=None,
        lora_rank_value_residual_mix=None, lora_rank_gate=None)),
    "arwkv7": dict(hand=arwkv(True), tokenizer="bpe", config=dict(SMALL, architectures=["RwkvHybridForCausalLM"],
        model_type="rwkv_hybrid", head_size=8, rms_norm_eps=1e-6, wkv_has_gate=True, wkv_version=7)),
    "arwkv7-ungated": dict(hand=arwkv(False), tokenizer="bpe", config=dict(SMALL,
        architectures=["RwkvHybridForCausalLM"], model_type="rwkv_hybrid", head_size=8, rms_norm_eps=1e-6,
        wkv_has_gate=False, wkv_version=7)),
    "rwkv4": dict(hand=rwkv4(), tokenizer="bpe", expect=rwkv4_converter, config=dict(RWKV,
        architectures=["RwkvForCausalLM"], model_type="rwkv", context_length=256, rescale_every=6,
        intermediate_size=None)),
}

# Expressions for names of the checkpoints, and what stands for them in the author's package.
OF_THE_HUB = [
    (r"^(rwkv|model)\.", ""), (r"^embeddings\.", "emb."), (r"\.attention\.", ".att."),
    (r"\.feed_forward\.", ".ffn."), (r"\.(pre_ln|pre_norm)\.", ".ln0."),
]
OF_FLA = [
    (r"^model\.", ""), (r"^embeddings\.", "emb."), (r"^lm_head\.", "head."), (r"^norm\.", "ln_out."),
    (r"^layers\.", "blocks."), (r"\.pre_norm\.", ".ln0."), (r"\.attn_norm\.", ".ln1."),
    (r"\.ffn_norm\.", ".ln2."), (r"\.g_norm\.", ".ln_x."), (r"\.attn\.", ".att."),
    (r"\.k_proj\.", ".key."), (r"\.v_proj\.", ".value."), (r"\.r_proj\.", ".receptance."),
    (r"\.o_proj\.", ".output."), (r"\.(\w)_lora\.lora\.0\.weight", r".\g<1>1"),
    (r"\.(\w)_lora\.lora\.2\.weight", r".\g<1>2"), (r"\.(\w)_lora\.lora\.2\.bias", r".\g<1>0"),
]
LOGITS = {
    "rwkv6": dict(by="rwkv", names=OF_THE_HUB, switches=dict(RWKV_RESCALE_LAYER="1")),
    "rwkv6-plain": dict(by="rwkv", names=OF_THE_HUB, switches=dict(RWKV_RESCALE_LAYER="0")),
    "rwkv6qwen2": dict(by="reference"),
    "rwkv7": dict(by="rwkv", names=OF_FLA, switches=dict(RWKV_V7_ON="1")),
    "rwkv7-goose": dict(by="rwkv", names=OF_THE_HUB, switches=dict(RWKV_V7_ON="1")),
    "arwkv7": dict(by="rwkv", switches=dict(RWKV_V7_ON="1")),
    "arwkv7-ungated": dict(by="rwkv", switches=dict(RWKV_V7_ON="1")),
}


def rwkv7_header():
    """RWKV 7 2.9B: states and token shifts."""
    n = 2560
    h = Header("rwkv7", n, 4, 65536, 4 * n, **LAYER, **{
        "attention.head_count": 0, "wkv.head_size": 64, "attention.decay_lora_rank": 96, "attention.iclr_lora_rank": 96,
        "attention.value_residual_mix_lora_rank": 64, "attention.gate_lora_rank": 320})
    for bias in ("weight", "bias"):
        h.add(f"token_embd_norm.{bias}", n)
    for i in range(4):
        h.norms(i, "attn_norm", "attn_norm_2", "time_mix_ln", biases=True)
        low = {"w": 96, "a": 96, "v": 64 if i else 96, "g": 320}
        for part, rank in low.items():
            if part != "g":
                h.add(f"blk.{i}.time_mix_{part}0.weight", n)
            h.add(f"blk.{i}.time_mix_{part}1.weight", n, rank)
            h.add(f"blk.{i}.time_mix_{part}2.weight", rank, n)
        h.add(f"blk.{i}.time_mix_lerp_fused.weight", n, 1, 1, 6)
        h.norms(i, "time_mix_k_k", "time_mix_k_a", "time_mix_r_k", "channel_mix_lerp_k")
        for part in ("key", "value", "receptance", "output"):
            h.add(f"blk.{i}.time_mix_{part}.weight", n, n)
        h.add(f"blk.{i}.channel_mix_key.weight", n, 4 * n)
        h.add(f"blk.{i}.channel_mix_value.weight", 4 * n, n)
    return h.ends(biases=True)


MEMORY = {"rwkv7": rwkv7_header}
