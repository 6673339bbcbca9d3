"""Golden recipes of DeciLM, and the Nemotron models from the same architecture search."""

from logits_own import loaded, read
from tiny_models import LLAMA3, fast_tokenizer, hub, llama_like, with_tokenizer


def deci(config: dict) -> dict:
    """A llama of which each layer has what block_configs says."""
    v, h, heads = config["vocab_size"], config["hidden_size"], config["num_attention_heads"]
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}
    for i, block in enumerate(config["block_configs"]):
        attention, ffn = block["attention"], block["ffn"]
        layer = {}
        if group := attention["n_heads_in_group"]:
            k = heads // group * h // heads
            layer |= {"self_attn.q_proj": [h, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h],
                      "self_attn.o_proj": [h, h]}
        elif attention["replace_with_linear"]:
            layer |= {"self_attn.linear_attn": [h, h]}
        layer |= {"input_layernorm": [h]} if layer else {}
        if ffn["ffn_mult"]:
            f = -(-int(2 * ffn["ffn_mult"] * h / 3) // 256) * 256
            layer |= {"mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f],
                      "post_attention_layernorm": [h]}
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


def decilm(config: dict) -> dict:
    """A llama whose layers have different numbers of key heads."""
    tensors = llama_like(config)
    for i, heads in enumerate(config["num_key_value_heads_per_layer"]):
        for x in "kv":
            tensors[f"model.layers.{i}.self_attn.{x}_proj.weight"] = [heads * 8, 32]
    return tensors


def block(group, mult, linear: bool = False) -> dict:
    return dict(attention=dict(n_heads_in_group=group, replace_with_linear=linear, no_op=False),
                ffn=dict(ffn_mult=mult, replace_with_linear=False, no_op=False))


CHECKPOINTS = {
    "deci": dict(hand=deci, tokenizer="llama_bpe", patches=with_tokenizer(fast_tokenizer),
        config=hub("DeciLMForCausalLM", "nemotron-nas", num_hidden_layers=5, intermediate_size=None, num_key_value_heads=None, hidden_act="silu", rms_norm_eps=1e-5,
        rope_theta=500000.0, rope_scaling=LLAMA3, tie_word_embeddings=False, block_configs=[block(2, 1.5), block(4,
        12.5), block(None, 0.75, linear=True), block(None, 1.5), block(None, None)])),
    "decilm": dict(hand=decilm, tokenizer="llama_bpe", remove=("num_key_value_heads",), config=hub("DeciLMForCausalLM",
        "deci", num_key_value_heads=2, num_key_value_heads_per_layer=[2, 1], hidden_act="silu", rms_norm_eps=1e-5,
        rope_theta=10000, rope_scaling=None, tie_word_embeddings=False)),
}


def differing_layers(folder, tokens):
    """Llama, each of whose layers has other heads and another length, or lacks a part."""
    import copy

    import torch
    import transformers
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

    class Matrix(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear_attn = torch.nn.Linear(width, width, bias=False)

        def forward(self, hidden_states, **_):
            return self.linear_attn(hidden_states), None

    class Nothing(torch.nn.Module):
        def __init__(self, several):
            super().__init__()
            self.several = several

        def forward(self, hidden_states, **_):
            return (hidden_states * 0, None) if self.several else hidden_states * 0

    config, tensors = read(folder)
    theta = config.pop("rope_theta")
    rope = config.pop("rope_scaling") | dict(rope_theta=theta)
    blocks = config.pop("block_configs")
    plain = transformers.LlamaConfig(**{key: config[key] for key in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps",
        "max_position_embeddings")}, rope_parameters=rope, attn_implementation="eager", tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(plain)
    for i, (layer, block) in enumerate(zip(model.model.layers, blocks)):
        own, attention, ffn = copy.copy(plain), block["attention"], block["ffn"]
        if group := attention["n_heads_in_group"]:
            own.num_key_value_heads = plain.num_attention_heads // group
            layer.self_attn = LlamaAttention(own, i)
        elif attention["replace_with_linear"]:
            layer.self_attn = Matrix(plain.hidden_size)
        else:
            layer.self_attn, layer.input_layernorm = Nothing(True), torch.nn.Identity()
        if ffn["ffn_mult"]:
            own.intermediate_size = tensors[f"model.layers.{i}.mlp.up_proj.weight"].shape[0]
            layer.mlp = LlamaMLP(own)
        else:
            layer.mlp, layer.post_attention_layernorm = Nothing(False), torch.nn.Identity()
    return loaded(model, tensors)(torch.tensor([tokens]), use_cache=False).logits[0].numpy(), False, None


LOGITS = {"deci": dict(run=differing_layers), "decilm": dict(by="reference")}
