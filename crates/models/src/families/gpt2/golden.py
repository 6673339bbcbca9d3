"""Golden recipes of GPT-2, by OpenAI, and ruGPT-3 XL."""

from headers import LAYER, Header, heads
from tiny_models import END, layers, norms, stack


def gpt2() -> dict:
    return {"wte.weight": [384, 32], "wpe.weight": [64, 32], **norms("ln_f"), **stack({
        **norms("h.{}.ln_1", "h.{}.ln_2"), "h.{}.attn.bias": [1, 1, 8, 8], "h.{}.attn.masked_bias": [1],
        "h.{}.attn.c_attn.weight": [32, 96], "h.{}.attn.c_attn.bias": [96], "h.{}.attn.c_proj.weight": [32, 32],
        "h.{}.attn.c_proj.bias": [32], "h.{}.mlp.c_fc.weight": [32, 128], "h.{}.mlp.c_fc.bias": [128],
        "h.{}.mlp.c_proj.weight": [128, 32], "h.{}.mlp.c_proj.bias": [32]})}


def rugpt3xl(config: dict) -> dict:
    v, h, f = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    names = {"input_layernorm": [h], "post_attention_layernorm": [h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f],
             **{f"self_attn.{x}_proj": [h, h] for x in "qkvo"}}
    both = {f"model.layers.{{}}.{name}.weight": shape for name, shape in names.items()}
    both |= {f"model.layers.{{}}.{name}.bias": shape[:1] for name, shape in names.items()}
    return {"model.embed_tokens.weight": [v, h], "model.embed_positions.weight": [config["max_position_embeddings"], h],
            **layers(config, both), **norms("model.norm"), "lm_head.weight": [v, h]}


CHECKPOINTS = {
    "gpt2": dict(model="gpt2", tokenizer="bpe", bare=True, reference=dict(set=dict(n_ctx=64)), config=dict(END,
        n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "gpt2-old": dict(hand=gpt2(), tokenizer="bpe", without=(".attn.bias", ".attn.masked_bias"), config=dict(END,
        architectures=["GPT2LMHeadModel"], model_type="gpt2", n_ctx=64, n_positions=64, n_embd=32, n_layer=2, n_head=4,
        layer_norm_epsilon=1e-05, activation_function="gelu_new", summary_first_dropout=0.1,
        task_specific_params=dict(text_generation=dict(do_sample=True, max_length=50)))),
    # Without the model's own config class, the keys are those that the reference reads.
    "rugpt3xl": dict(hand=rugpt3xl, tokenizer="bpe", config=dict(END, architectures=["RuGPT3XLForCausalLM"],
        hidden_size=32, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
        layer_norm_eps=1e-05)),
}

WIDE = {"gpt2": dict(n_embd=256)}
RECORDS = {"gpt2": None}


def gpt2_header():
    """GPT-2 XL: no grouping, learned positions, a fused projection, no gate."""
    h = Header("gpt2", 1600, 4, 50257, 6400, **LAYER, **heads(25, 25), **{"context_length": 32768})
    h.add("position_embd.weight", 1600, 32768)
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm", biases=True)
        for name, n_in, n_out in [("attn_qkv", 1600, 4800), ("attn_output", 1600, 1600), ("ffn_up", 1600, 6400),
                                  ("ffn_down", 6400, 1600)]:
            h.add(f"blk.{i}.{name}.weight", n_in, n_out)
            h.add(f"blk.{i}.{name}.bias", n_out)
    return h.ends(biases=True)


MEMORY = {"gpt2": gpt2_header}

LOGITS = {"rugpt3xl": dict(by="reference")}
