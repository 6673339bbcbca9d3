"""Predictions for golden/logits of checkpoints that transformers has no class for under their names: text parts of
wrappers, spelled as the models that they are (SPELLINGS), and models whose mathematics are put together here (OWN)
from parts of transformers, or written after their publishers' descriptions.
"""

import json

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file


def text_of(architecture, model_type, *prefixes, **more):
    """A spelling: the text part of a wrapper, whose tensors begin with one of the prefixes."""
    def spelled(config, tensors):
        text = config.get("text_config", config) | dict(architectures=[architecture], model_type=model_type) | more
        text.pop("auto_map", None)
        kept = {}
        for name, tensor in tensors.items():
            start = next((start for start in prefixes if name.startswith(start)), None)
            if start is not None or name == "lm_head.weight":
                name = name.removeprefix(start or "")
                kept[name if name.startswith(("model.", "lm_head.")) else f"model.{name}"] = tensor
        return text | dict(tie_word_embeddings="lm_head.weight" not in kept), kept
    return spelled


def with_all_tokens(config, tensors):
    """Embeddings with zeros for the last tokens, which the checkpoint leaves out."""
    return config, {name: F.pad(tensor, (0, 0, 0, config["vocab_size"] - len(tensor))) if "embed_tokens" in name else tensor
                    for name, tensor in tensors.items()}


LLAMA = ("LlamaForCausalLM", "llama")
SPELLINGS = {
    "gemma3n": with_all_tokens,
    "janus": text_of(*LLAMA, "model.language_model."),
    "kimi-vl": text_of("DeepseekV3ForCausalLM", "deepseek_v3", "language_model."),
    "qwen2audio": text_of("Qwen2ForCausalLM", "qwen2", "language_model."),
    "sarashina2-vision": text_of(*LLAMA, "llm."),
    "smolvlm": text_of(*LLAMA, "model.text_model."),
    "voxtral": text_of(*LLAMA, "language_model."),
    "jina-v5": lambda config, tensors: (config | dict(architectures=["EuroBertModel"], model_type="eurobert"), {
        name.removeprefix("model."): tensor for name, tensor in tensors.items()}),
}


def read(folder):
    config = json.loads((folder / "config.json").read_text())
    return config, {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}


def loaded(model, tensors, head=None):
    """The model in f32 with these tensors, all of which it must take."""
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and not [name for name in missing if "rotary" not in name], (missing, unexpected)
    return model.float().eval()


def llama_embed(folder, tokens):
    """Llama whose tokens see each other in both directions."""
    config, tensors = read(folder)
    model = transformers.LlamaModel(transformers.LlamaConfig(**config | dict(model_type="llama"), attn_implementation="eager"))
    everything = torch.zeros(1, 1, len(tokens), len(tokens))
    rows = loaded(model, tensors)(torch.tensor([tokens]), attention_mask=everything).last_hidden_state[0]
    return rows.numpy(), True, None


def stacked(tensors, layer, n):
    """Experts of one layer as transformers has them."""
    part = lambda name: torch.stack([tensors.pop(f"{layer}experts.{x}.{name}_proj.weight") for x in range(n)])
    gate, up, down = part("gate"), part("up"), part("down")
    return {f"{layer}experts.gate_up_proj": torch.cat([gate, up], dim=1), f"{layer}experts.down_proj": down}


def deepseek_ocr(folder, tokens):
    """The text part of Unlimited-OCR, which is that of DeepSeek-OCR but for windows of what it generates."""
    from transformers.models.unlimited_ocr.configuration_unlimited_ocr import UnlimitedOcrTextConfig
    from transformers.models.unlimited_ocr.modeling_unlimited_ocr import UnlimitedOcrTextModel
    config, tensors = read(folder)
    config = config.get("language_config", config)
    config = {key: value for key, value in config.items() if key not in ("model_type", "architectures", "sliding_window_size")}
    head = tensors.pop("lm_head.weight")
    text = {name.removeprefix("model."): tensor for name, tensor in tensors.items()
            if name.startswith(("model.layers.", "model.embed_tokens.", "model.norm."))}
    for i in range(config["first_k_dense_replace"], config["num_hidden_layers"]):
        text |= stacked(text, f"layers.{i}.mlp.", config["n_routed_experts"])
    config["rope_parameters"] = dict(rope_type="default", rope_theta=config.get("rope_theta", 10000.0))
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    config["mlp_layer_types"] = ["dense"] * config["first_k_dense_replace"] + ["sparse"] * (
        config["num_hidden_layers"] - config["first_k_dense_replace"])
    model = loaded(UnlimitedOcrTextModel(UnlimitedOcrTextConfig(**config, attn_implementation="eager")), text)
    return F.linear(model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0], head).numpy(), False, None


def step35(folder, tokens):
    """Step 3.5 as the text part of Step 3.7, without the layer that predicts further tokens."""
    from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
    from transformers.models.step3p7.modeling_step3p7 import Step3p7TextModel
    config, tensors = read(folder)
    n, other = config["num_hidden_layers"], config["attention_other_setting"]
    head, text = tensors.pop("lm_head.weight"), {}
    for name, tensor in tensors.items():
        if name.startswith(f"model.layers.{n}."):
            continue
        name = name.removeprefix("model.").replace(".moe.router_bias", ".moe.gate.e_score_correction_bias")
        name = name.replace(".share_expert.", ".moe.shared_experts.").replace(".moe.", ".mlp.")
        text[name] = tensor
    for name in [name for name in text if name.endswith("mlp.gate_proj.weight") and text[name].ndim == 3]:
        gate, up, down = (text.pop(name.replace("gate_proj", f"{part}_proj")) for part in ("gate", "up", "down"))
        layer = name.removesuffix("gate_proj.weight")
        text |= {f"{layer}experts.gate_up_proj": torch.cat([gate, up], dim=1), f"{layer}experts.down_proj": down}
    config["swiglu_limits"] = [limit or 0.0 for limit in config["swiglu_limits"]]
    config["num_key_value_heads"] = config["num_attention_groups"]
    config["per_layer_config"] = {
        str(i): dict(num_attention_heads=other["num_attention_heads"], num_key_value_heads=other["num_attention_groups"])
        for i, kind in enumerate(config["layer_types"][:n]) if kind == "sliding_attention"}
    for key, new in (("moe_num_experts", "n_routed_experts"), ("moe_top_k", "num_experts_per_tok")):
        config[new] = config.pop(key)
    del config["model_type"], config["architectures"]
    model = loaded(Step3p7TextModel(Step3p7TextConfig(**config, attn_implementation="eager")), text)
    return F.linear(model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0], head).numpy(), False, None


def paddleocr(folder, tokens):
    """PaddleOCR's text part, with positions of text alone."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy(), False, None


def reranker(folder, tokens):
    """Qwen 3 with the probabilities of its tokens "yes" and "no" behind the last token."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    words = transformers.AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["yes", "no"])
    rows = model.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return rows.numpy(), True, model.lm_head(rows[-1])[words].softmax(-1).numpy()


def nomic_moe(folder, tokens):
    """Nomic's BERT with experts in every other layer: attention as in `transformers.NomicBertModel`, experts of two
    matrices without a gate, each weighted with its probability among all. Without the bias that all experts share, which
    the file does not hold. The reference's converter takes base and epsilon from what transformers makes of the config,
    which knows other names: as the file has them."""
    config, tensors = read(folder)
    width, n_head, base, epsilon = config["n_embd"], config["n_head"], 1000.0, 1e-12
    n, rot = len(tokens), width // n_head

    def linear(name, x):
        return F.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))

    def norm(name, x):
        return F.layer_norm(x, (width,), tensors[name + ".weight"], tensors[name + ".bias"], epsilon)

    angles = torch.outer(torch.arange(n), 1.0 / base ** (torch.arange(0, rot, 2) / rot))
    cos, sin = (torch.cat([f(angles)] * 2, dim=-1)[:, None] for f in (torch.cos, torch.sin))

    def turned(x):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin

    x = tensors["embeddings.word_embeddings.weight"][tokens] + tensors["embeddings.token_type_embeddings.weight"][0]
    x = norm("emb_ln", x)
    for i in range(config["n_layer"]):
        layer = f"encoder.layers.{i}."
        query, key, value = linear(layer + "attn.Wqkv", x).view(n, 3, n_head, rot).unbind(1)
        scores = torch.einsum("ihd,jhd->hij", turned(query), turned(key)) / rot ** 0.5
        seen = torch.einsum("hij,jhd->ihd", scores.softmax(-1), value).reshape(n, width)
        x = norm(layer + "norm1", linear(layer + "attn.out_proj", seen) + x)
        if layer + "mlp.fc1.weight" in tensors:
            y = linear(layer + "mlp.fc2", F.gelu(linear(layer + "mlp.fc1", x)))
        else:
            weights, chosen = linear(layer + "mlp.router.layer", x).softmax(-1).topk(config["moe_top_k"], dim=-1)
            w1, w2 = (tensors[f"{layer}mlp.experts.mlp.{w}"].view(config["num_experts"], -1, width) for w in ("w1", "w2"))
            y = torch.zeros_like(x)
            for at in range(n):
                for weight, expert in zip(weights[at], chosen[at]):
                    y[at] += weight * (F.gelu(x[at] @ w1[expert].T) @ w2[expert])
        x = norm(layer + "norm2", y + x)
    return x.numpy(), True, None


OWN = {
    "deepseek-ocr": deepseek_ocr,
    "llama-embed": llama_embed,
    "nomic-bert-moe": nomic_moe,
    "paddleocr": paddleocr,
    "qwen3-reranker": reranker,
    "qwen3-reranker-untied": reranker,
    "step35": step35,
    "unlimited-ocr": deepseek_ocr,
}


def dense(folder, rows):
    """`rows (n, width)` through what sentence-transformers has behind the pooling, or none."""
    files = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
    for file in files:
        rows = rows @ load_file(file)["linear.weight"].float().numpy().T
    return rows if files else None
