"""Golden recipes of Refact, by Small Magellanic Cloud AI."""

from headers import plain_layer
from tiny_models import layers


def refact(config: dict) -> dict:
    v, h, head = config["vocab_size"], config["n_embd"], config["n_embd"] // config["n_head"]
    layer = {"ln_1": [h], "attn.q": [h, h], "attn.kv": [2 * head, h], "attn.c_proj": [h, h], "ln_2": [h],
             "mlp.gate_up_proj": [512, h], "mlp.c_proj": [h, 256]}
    return {"transformer.wte.weight": [v, h], "ln_f.weight": [h], "lm_head.weight": [v, h],
            **layers(dict(num_hidden_layers=config["n_layer"]), {
                f"transformer.h.{{}}.{name}.weight": shape for name, shape in layer.items()})}


CHECKPOINTS = {
    "refact": dict(hand=refact, tokenizer="bpe", config=dict(architectures=["GPTRefactForCausalLM"],
        model_type="gpt_refact", vocab_size=384, n_embd=32, n_head=4, n_layer=2, n_positions=512, n_inner=None,
        layer_norm_epsilon=1e-5, multi_query=True, attention_softmax_in_fp32=False, bos_token_id=1, eos_token_id=2,
        torch_dtype="bfloat16", do_sample=True)),
}

LOGITS_FILES = {"refact": (plain_layer(1), {"attention.head_count_kv": 1})}
