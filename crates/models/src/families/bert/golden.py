"""Golden recipes of BERT and encoders based on it: embedding models, rerankers and classifiers."""

import math

from logits_own import read
from tiny_models import MEAN, OLD, OLD_ENCODER, POOLING, pooling, stack

ENCODER = dict(vocab_size=384, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=32)
CLS = pooling(pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
LAST = pooling(pooling_mode="lasttoken")
XLMR_IDS = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2)
NOMIC = {
    "embeddings.word_embeddings.weight": [384, 32], "embeddings.token_type_embeddings.weight": [2, 32],
    "emb_ln.weight": [32], "emb_ln.bias": [32],
    **stack({
        "encoder.layers.{}.attn.Wqkv.weight": [96, 32], "encoder.layers.{}.attn.out_proj.weight": [32, 32],
        "encoder.layers.{}.mlp.fc11.weight": [64, 32], "encoder.layers.{}.mlp.fc12.weight": [64, 32],
        "encoder.layers.{}.mlp.fc2.weight": [32, 64],
        "encoder.layers.{}.norm1.weight": [32], "encoder.layers.{}.norm1.bias": [32],
        "encoder.layers.{}.norm2.weight": [32], "encoder.layers.{}.norm2.bias": [32]}),
}
NOMIC_CONFIG = dict(
    # Both spellings: the reference reads the one, transformers' class the other.
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    architectures=["NomicBertModel"], model_type="nomic_bert", activation_function="swiglu", attn_pdrop=0.0,
        bos_token_id=None,
    causal=False, layer_norm_epsilon=1e-12, max_trained_positions=2048, mlp_fc1_bias=False, mlp_fc2_bias=False,
        n_embd=32, n_head=4,
    n_inner=64, n_layer=2, n_positions=8192, pad_vocab_size_multiple=64, prenorm=False, qkv_proj_bias=False,
        rotary_emb_base=1000,
    rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None, rotary_scaling_factor=None,
    torch_dtype="float32", type_vocab_size=2, use_rms_norm=False, vocab_size=384)
JINA = {
    "embeddings.word_embeddings.weight": [384, 32], "embeddings.token_type_embeddings.weight": [2, 32],
    "embeddings.LayerNorm.weight": [32], "embeddings.LayerNorm.bias": [32], "pooler.dense.weight": [32, 32],
        "pooler.dense.bias": [32],
    **stack({
        **{f"encoder.layer.{{}}.attention.{x}.{y}": [32, 32] if y == "weight" else [32]
           for x in ("self.query", "self.key", "self.value", "output.dense") for y in ("weight", "bias")},
        "encoder.layer.{}.attention.output.LayerNorm.weight": [32],
            "encoder.layer.{}.attention.output.LayerNorm.bias": [32],
        "encoder.layer.{}.mlp.gated_layers.weight": [128, 32], "encoder.layer.{}.mlp.wo.weight": [32, 64],
        "encoder.layer.{}.mlp.wo.bias": [32],
        "encoder.layer.{}.mlp.layernorm.weight": [32], "encoder.layer.{}.mlp.layernorm.bias": [32]}),
}
JINA_CONFIG = dict(ENCODER, architectures=["JinaBertForMaskedLM"], model_type="bert", attention_probs_dropout_prob=0.0,
    classifier_dropout=None, feed_forward_type="geglu", hidden_act="gelu", layer_norm_eps=1e-12, pad_token_id=0,
    position_embedding_type="alibi", torch_dtype="float32", type_vocab_size=2, emb_pooler="mean",
    attn_implementation="torch")
JINA_CODE = {
    name.replace("mlp.gated_layers", "mlp.up_gated_layer").replace("mlp.wo", "mlp.down_layer").replace("mlp.layernorm",
        "layer_norm_2"): shape
    for name, shape in JINA.items()} | stack({
        f"encoder.layer.{{}}.attention.self.layer_norm_{x}.{y}": [32] for x in "qk"
            for y in ("weight", "bias")}) | stack({
            f"encoder.layer.{{}}.layer_norm_1.{y}": [32] for y in ("weight", "bias")})


def in_model(tensors: dict, config) -> dict:
    return {f"model.{name}": tensor for name, tensor in tensors.items()}


NOMIC_MOE = dict(NOMIC_CONFIG, activation_function="gelu", mlp_fc1_bias=True, mlp_fc2_bias=True, qkv_proj_bias=True,
    moe_every_n_layers=2, moe_top_k=2, num_experts=3, n_positions=2048, vocab_size=152, rotary_emb_base=10000,
    layer_norm_epsilon=1e-5, type_vocab_size=1, expert_choice_router=False, num_shared_experts=0)


def nomic_moe(config: dict) -> dict:
    names = {"emb_ln": [32], "attn.Wqkv": [96, 32], "attn.out_proj": [32, 32], "norm1": [32], "norm2": [32]}
    tensors = {"embeddings.word_embeddings.weight": [152, 32], "embeddings.token_type_embeddings.weight": [1, 32],
               "emb_ln.weight": [32], "emb_ln.bias": [32], "pooler.dense.weight": [32, 32], "pooler.dense.bias": [32]}
    for i in range(2):
        layer = f"encoder.layers.{i}."
        own = {name: shape for name, shape in names.items() if name != "emb_ln"}
        own |= {"mlp.fc1": [64, 32], "mlp.fc2": [32, 64]} if i == 0 else {}
        for name, shape in own.items():
            tensors |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
    return tensors | {"encoder.layers.1.mlp.router.layer.weight": [3, 32], "encoder.layers.1.mlp.experts.bias": [32],
                      "encoder.layers.1.mlp.experts.mlp.w1": [192, 32], "encoder.layers.1.mlp.experts.mlp.w2": [192, 32]}


NEOBERT = dict(architectures=["NeoBERTLMHead"], model_type="neobert", torch_dtype="float32", hidden_size=32,
    intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, max_length=512, norm_eps=1e-5, vocab_size=384,
    pad_token_id=0, embedding_init_range=0.02, decoder_init_range=0.02)


def neobert(start: str, classes: int = 0):
    tensors = {f"{start}encoder.weight": [384, 32], f"{start}layer_norm.weight": [32]}
    for i in range(2):
        for name, shape in {"qkv": [96, 32], "wo": [32, 32], "ffn.w12": [96, 32], "ffn.w3": [32, 48], "attention_norm": [32],
                            "ffn_norm": [32]}.items():
            tensors[f"{start}transformer_encoder.{i}.{name}.weight"] = shape
    if classes:
        return tensors | {"dense.weight": [32, 32], "dense.bias": [32], "classifier.weight": [classes, 32], "classifier.bias": [classes]}
    return tensors | {"decoder.weight": [384, 32], "decoder.bias": [384]}


CHECKPOINTS = {
    "bert": dict(model="bert", **{"class": "BertModel"}, tokenizer="wordpiece", config=ENCODER, bare=True, files=MEAN),
    "bert-mlm-old": dict(model="bert", **{"class": "BertForMaskedLM"}, tokenizer="wordpiece", config=ENCODER,
        bare=True, old=OLD_ENCODER, tensor_names=[("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta")], files=CLS),
    "bert-classifier": dict(model="bert", **{"class": "BertForSequenceClassification"}, tokenizer="wordpiece",
        bare=True, config=dict(ENCODER, id2label={0: "bad", 1: "so-so", 2: "good"}, label2id={"bad": 0, "so-so": 1,
        "good": 2})),
    "distilbert": dict(model="distilbert", **{"class": "DistilBertModel"}, tokenizer="wordpiece", bare=True, files=CLS,
        config=dict(vocab_size=384, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=32)),
    "distilbert-mlm-old": dict(model="distilbert", **{"class": "DistilBertForMaskedLM"}, tokenizer="wordpiece",
        bare=True, old=OLD_ENCODER, config=dict(vocab_size=384, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
        max_position_embeddings=32)),
    "data2vec-text": dict(model="data2vec-text", **{"class": "Data2VecTextModel"}, tokenizer="bpe", bare=True, files=LAST,
        config=dict(ENCODER, max_position_embeddings=34, type_vocab_size=1),
        reference=dict(set=dict(architectures=["RobertaModel"], model_type="roberta"))),
    "roberta": dict(model="roberta", **{"class": "RobertaModel"}, tokenizer="bpe", bare=True, files=LAST,
        config=dict(ENCODER, max_position_embeddings=34, type_vocab_size=1)),
    "roberta-classifier": dict(model="roberta", **{"class": "RobertaForSequenceClassification"}, tokenizer="bpe",
        bare=True, config=dict(ENCODER, max_position_embeddings=34, type_vocab_size=1)),
    "xlm-roberta": dict(model="xlm-roberta", **{"class": "XLMRobertaModel"}, tokenizer="unigram-json", bare=True,
        files=CLS, config=dict(ENCODER, vocab_size=152, max_position_embeddings=34, type_vocab_size=1, **XLMR_IDS)),
    "xlm-roberta-ranker-old": dict(model="xlm-roberta", **{"class": "XLMRobertaForSequenceClassification"},
        tokenizer="unigram-xlmr", bare=True, old=OLD_ENCODER, config=dict(ENCODER, vocab_size=152,
        max_position_embeddings=34, type_vocab_size=1, id2label={0: "LABEL_0"}, label2id={"LABEL_0": 0}, **XLMR_IDS)),
    "nomic-bert": dict(hand=NOMIC, config=NOMIC_CONFIG, tokenizer="wordpiece", files=MEAN),
    "jina-bert-v2": dict(hand=JINA, config=JINA_CONFIG, tokenizer="wordpiece", files=MEAN),
    "jina-bert-v2-code": dict(hand=JINA_CODE, config=JINA_CONFIG | dict(architectures=["JinaBertModel"]),
        tokenizer="bpe", files=MEAN, tokenizer_config=dict(tokenizer_class="RobertaTokenizer")),
    "modern-bert": dict(ahead=True, model="modernbert", **{"class": "ModernBertModel"}, tokenizer="bpe", bare=True, files=CLS,
        config=dict(ENCODER, num_hidden_layers=4, global_attn_every_n_layers=3, local_attention=16, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)),
    "modern-bert-classifier": dict(ahead=True, model="modernbert", **{"class": "ModernBertForSequenceClassification"},
        tokenizer="bpe", bare=True, config=dict(vocab_size=288, hidden_size=16, intermediate_size=24,
        num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32, global_attn_every_n_layers=2,
        local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
        classifier_pooling="mean", classifier_activation="silu", id2label={0: "yes", 1: "no", 2: "maybe"}, label2id={"yes": 0, "no": 1, "maybe": 2})),
    "eurobert": dict(model="eurobert", **{"class": "EuroBertModel"}, tokenizer="bpe", files=POOLING,
        config=dict(classifier_pooling="mean")),
    "jina-v5": dict(model="eurobert", **{"class": "EuroBertModel"}, tokenizer="bpe", files=POOLING, extra=in_model,
        drop=("classifier_pooling",), more=dict(architectures=["JinaEmbeddingsV5Model"],
        model_type="jina_embeddings_v5", rope_theta=250000.0)),
    "nomic-bert-moe": dict(hand=nomic_moe, tokenizer="unigram-json", files=POOLING, config=NOMIC_MOE),
    "neobert": dict(hand=neobert("model."), tokenizer="wordpiece", config=NEOBERT),
    "neobert-classifier": dict(hand=neobert("model.", classes=3), tokenizer="wordpiece", config=dict(NEOBERT,
        architectures=["NeoBERTForSequenceClassification"], id2label={str(i): f"kind {i}" for i in range(3)},
        label2id={f"kind {i}": i for i in range(3)})),
}

CHECKPOINTS |= {
    "eurobert-old": CHECKPOINTS["eurobert"] | dict(old=dict(OLD, rope_theta=250000, rope_scaling=None)),
    "modern-bert-old": CHECKPOINTS["modern-bert"] | dict(drop=("layer_types",), old=dict(OLD,
        global_rope_theta=160000.0, local_rope_theta=10000.0)),
}


def slopes(n_head: int) -> list:
    """One for each head; powers of two, and between them for heads beyond a power of two."""
    whole = 2 ** int(math.log2(n_head))
    first = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    more = [2 ** (-8 * (i + 1) / (2 * whole)) for i in range(0, 2 * (n_head - whole), 2)]
    return first + more


def jina_rows(folder, tokens):
    """Jina's BERT with linear biases by distance, which transformers does not have: the mathematics alone, after the
    descriptions of both published variants. That of the code embeddings normalizes queries and keys, adds the input of
    a layer once more after the attention, and takes the second half of its first matrix as the gate."""
    import torch
    import torch.nn.functional as F
    config, tensors = read(folder)
    width, n_head = config["hidden_size"], config["num_attention_heads"]
    is_code = "encoder.layer.0.layer_norm_1.weight" in tensors

    def linear(name, x):
        return F.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))

    def norm(name, x):
        return F.layer_norm(x, (width,), tensors[name + ".weight"], tensors[name + ".bias"], config["layer_norm_eps"])

    def heads(x):
        return x.view(len(tokens), n_head, -1).transpose(0, 1)

    x = tensors["embeddings.word_embeddings.weight"][tokens] + tensors["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings.LayerNorm", x)
    at = torch.arange(len(tokens))
    biases = -torch.tensor(slopes(n_head))[:, None, None] * (at[:, None] - at[None, :]).abs()
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        query, key = linear(layer + "attention.self.query", x), linear(layer + "attention.self.key", x)
        if is_code:
            query = norm(layer + "attention.self.layer_norm_q", query)
            key = norm(layer + "attention.self.layer_norm_k", key)
        query, key, value = heads(query), heads(key), heads(linear(layer + "attention.self.value", x))
        weights = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(width // n_head) + biases, dim=-1)
        seen = (weights @ value).transpose(0, 1).reshape(len(tokens), width)
        y = norm(layer + "attention.output.LayerNorm", linear(layer + "attention.output.dense", seen) + x)
        if is_code:
            y = norm(layer + "layer_norm_1", y + x)
            up, gate = linear(layer + "mlp.up_gated_layer", y).chunk(2, dim=-1)
            x = norm(layer + "layer_norm_2", linear(layer + "mlp.down_layer", F.gelu(gate) * up) + y)
        else:
            gate, up = linear(layer + "mlp.gated_layers", y).chunk(2, dim=-1)
            x = norm(layer + "mlp.layernorm", linear(layer + "mlp.wo", F.gelu(gate) * up) + y)
    return x.numpy(), True, None


def nomic_moe_rows(folder, tokens):
    """Nomic's BERT with experts in every other layer: attention as in `transformers.NomicBertModel`, experts of two
    matrices without a gate, each weighted with its probability among all. Without the bias that all experts share, which
    the file does not hold. The reference's converter takes base and epsilon from what transformers makes of the config,
    which knows other names: as the file has them."""
    import torch
    import torch.nn.functional as F
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


LOGITS = {
    "neobert": dict(by="reference", hidden=True),
    "jina-bert-v2": dict(run=jina_rows),
    "jina-bert-v2-code": dict(run=jina_rows),
    "jina-v5": dict(spelled=lambda config, tensors: (
        config | dict(architectures=["EuroBertModel"], model_type="eurobert"),
        {name.removeprefix("model."): tensor for name, tensor in tensors.items()})),
    "nomic-bert-moe": dict(run=nomic_moe_rows),
}
ENCODER_TYPES = {"bert", "data2vec-text", "distilbert", "eurobert", "roberta", "xlm-roberta", "nomic_bert", "modernbert"}
ADAPTERS = {
    "bert": dict(base="bert", targets=["query", "value", "attention.output.dense", "intermediate.dense"],
        dtype="float16"),
}
