"""Tiny checkpoints of encoders and of T5, for arch.py. Keys are those of families.py, and:

  class      the class of transformers that makes the checkpoint, where its config says too little
  tokenizer  besides spm and bpe: wordpiece, unigram (SentencePiece), unigram_json
  files      further files of the folder: name -> JSON
  tensor_names  what tensors are called instead: [(from, to)], on every name
"""

import io
import json
import tempfile
from pathlib import Path

from lib import TEXT

ENCODER = dict(vocab_size=384, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
               max_position_embeddings=32)
OLD = dict(torch_dtype="float32", transformers_version="4.6.1", gradient_checkpointing=False)


def pooling(**how) -> dict:
    """The files with which sentence-transformers says how tokens become one vector."""
    return {"modules.json": [
        dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer"),
        dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling")],
        "1_Pooling/config.json": dict(word_embedding_dimension=32, **how)}


MEAN = pooling(pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
CLS = pooling(pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
LAST = pooling(pooling_mode="lasttoken")
XLMR_IDS = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2)


class Shapes(dict):
    """The shape of each tensor by name, whatever the config."""

    def __call__(self, config: dict) -> dict:
        return self


def layers(names: dict, n: int = 2) -> dict:
    return {name.format(i): shape for i in range(n) for name, shape in names.items()}


NOMIC = {
    "embeddings.word_embeddings.weight": [384, 32], "embeddings.token_type_embeddings.weight": [2, 32],
    "emb_ln.weight": [32], "emb_ln.bias": [32],
    **layers({
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
    **layers({
        **{f"encoder.layer.{{}}.attention.{x}.{y}": [32, 32] if y == "weight" else [32]
           for x in ("self.query", "self.key", "self.value", "output.dense") for y in ("weight", "bias")},
        "encoder.layer.{}.attention.output.LayerNorm.weight": [32],
            "encoder.layer.{}.attention.output.LayerNorm.bias": [32],
        "encoder.layer.{}.mlp.gated_layers.weight": [128, 32], "encoder.layer.{}.mlp.wo.weight": [32, 64],
        "encoder.layer.{}.mlp.wo.bias": [32],
        "encoder.layer.{}.mlp.layernorm.weight": [32], "encoder.layer.{}.mlp.layernorm.bias": [32]}),
}
JINA_CONFIG = dict(
    ENCODER, architectures=["JinaBertForMaskedLM"], model_type="bert", attention_probs_dropout_prob=0.0,
        classifier_dropout=None,
    feed_forward_type="geglu", hidden_act="gelu", layer_norm_eps=1e-12, pad_token_id=0,
        position_embedding_type="alibi",
    torch_dtype="float32", type_vocab_size=2, emb_pooler="mean", attn_implementation="torch")
JINA_CODE = {
    name.replace("mlp.gated_layers", "mlp.up_gated_layer").replace("mlp.wo", "mlp.down_layer").replace("mlp.layernorm",
        "layer_norm_2"): shape
    for name, shape in JINA.items()} | layers({
        f"encoder.layer.{{}}.attention.self.layer_norm_{x}.{y}": [32] for x in "qk"
            for y in ("weight", "bias")}) | layers({
            f"encoder.layer.{{}}.layer_norm_1.{y}": [32] for y in ("weight", "bias")})

T5 = dict(vocab_size=160, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=1,
          decoder_start_token_id=0)

ENCODERS = {
    "bert": dict(model="bert", **{"class": "BertModel"}, tokenizer="wordpiece", config=ENCODER, bare=True, files=MEAN),
    "bert-mlm-old": dict(model="bert", **{"class": "BertForMaskedLM"}, tokenizer="wordpiece", config=ENCODER,
        bare=True, old=OLD,
                         tensor_names=[("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")],
                             files=CLS),
    "bert-classifier": dict(model="bert", **{"class": "BertForSequenceClassification"}, tokenizer="wordpiece",
        bare=True,
                            config=dict(ENCODER, id2label={0: "bad", 1: "so-so", 2: "good"},
                                label2id={"bad": 0, "so-so": 1, "good": 2})),
    "distilbert": dict(model="distilbert", **{"class": "DistilBertModel"}, tokenizer="wordpiece", bare=True, files=CLS,
                       config=dict(vocab_size=384, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
                           max_position_embeddings=32)),
    "distilbert-mlm-old": dict(model="distilbert", **{"class": "DistilBertForMaskedLM"}, tokenizer="wordpiece",
        bare=True, old=OLD,
                               config=dict(vocab_size=384, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
                                   max_position_embeddings=32)),
    "roberta": dict(model="roberta", **{"class": "RobertaModel"}, tokenizer="bpe", bare=True, files=LAST,
                    config=dict(ENCODER, max_position_embeddings=34, type_vocab_size=1)),
    "roberta-classifier": dict(model="roberta", **{"class": "RobertaForSequenceClassification"}, tokenizer="bpe",
        bare=True,
                               config=dict(ENCODER, max_position_embeddings=34, type_vocab_size=1)),
    "xlm-roberta": dict(model="xlm-roberta", **{"class": "XLMRobertaModel"}, tokenizer="unigram_json", bare=True,
        files=CLS,
                        config=dict(ENCODER, vocab_size=152, max_position_embeddings=34, type_vocab_size=1,
                            **XLMR_IDS)),
    "xlm-roberta-ranker-old": dict(
        model="xlm-roberta", **{"class": "XLMRobertaForSequenceClassification"}, tokenizer="unigram", bare=True,
            old=OLD,
        config=dict(ENCODER, vocab_size=152, max_position_embeddings=34, type_vocab_size=1, id2label={0: "LABEL_0"},
                    label2id={"LABEL_0": 0}, **XLMR_IDS)),
    "nomic-bert": dict(hand=Shapes(NOMIC), config=NOMIC_CONFIG, tokenizer="wordpiece", files=MEAN),
    "jina-bert-v2": dict(hand=Shapes(JINA), config=JINA_CONFIG, tokenizer="wordpiece", files=MEAN),
    "jina-bert-v2-code": dict(hand=Shapes(JINA_CODE), config=JINA_CONFIG | dict(architectures=["JinaBertModel"]),
        tokenizer="bpe", files=MEAN,
                              tokenizer_config=dict(tokenizer_class="RobertaTokenizer")),
    "t5": dict(model="t5", **{"class": "T5ForConditionalGeneration"}, tokenizer="unigram", bare=True, config=T5,
               old=dict(OLD, n_positions=512, decoder_start_token_id=0)),
    "t5-gated-old": dict(model="t5", **{"class": "T5ForConditionalGeneration"}, tokenizer="unigram", bare=True,
                         config=dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                             num_decoder_layers=1),
                         old=dict(OLD, decoder_start_token_id=0), extra="embed_tokens"),
    "t5-encoder": dict(model="t5", **{"class": "T5EncoderModel"}, tokenizer="unigram", bare=True, config=T5,
        files=MEAN),
    "modern-bert": dict(model="modernbert", **{"class": "ModernBertModel"}, tokenizer="bpe", bare=True, files=CLS,
        config=dict(
        ENCODER, num_hidden_layers=4, global_attn_every_n_layers=3, local_attention=16, pad_token_id=0, bos_token_id=1,
            eos_token_id=2,
        cls_token_id=1, sep_token_id=2)),
    "modern-bert-classifier": dict(model="modernbert", **{"class": "ModernBertForSequenceClassification"},
        tokenizer="bpe", bare=True, config=dict(
        vocab_size=288, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=32,
        global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            cls_token_id=1, sep_token_id=2,
        classifier_pooling="mean", id2label={0: "yes", 1: "no", 2: "maybe"},
            label2id={"yes": 0, "no": 1, "maybe": 2})),
}


def make_wordpiece(folder: Path, vocab_size: int, spec: dict) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXT * 4, trainers.WordPieceTrainer(
        vocab_size=vocab_size - 4, show_progress=False, special_tokens=specials))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = dict(tokenizer_class="BertTokenizer", do_lower_case=True, unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]",
                  cls_token="[CLS]", mask_token="[MASK]")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def train_unigram(**ids) -> bytes:
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    model = io.BytesIO()
    # One rule makes a small table of characters; the usual ones have 240 kB.
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("FF21\t41\n")
        rules.flush()
        ids["normalization_rule_tsv"] = rules.name
        train(sentencepiece, model, TEXT, ids)
    # The rules are compiled into the model; where they lay says something of this machine alone.
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString()


def train(sentencepiece, model, TEXT, ids) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=150, model_type="unigram",
            byte_fallback=False,
        character_coverage=0.99, hard_vocab_limit=False, num_threads=1, minloglevel=2, **ids)


def make_unigram(folder: Path, vocab_size: int, spec: dict) -> None:
    if spec["model"] == "t5":
        (folder / "spiece.model").write_bytes(train_unigram(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
        config = dict(tokenizer_class="T5Tokenizer", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
    else:
        (folder / "sentencepiece.bpe.model").write_bytes(train_unigram(unk_id=0, bos_id=1, eos_id=2, pad_id=-1))
        config = dict(tokenizer_class="XLMRobertaTokenizer", bos_token="<s>", eos_token="</s>")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_unigram_json(folder: Path, vocab_size: int, spec: dict) -> None:
    import base64
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(train_unigram(unk_id=0, bos_id=1, eos_id=2, pad_id=-1))
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0],
        *([p.piece, p.score] for p in proto.pieces[3:]), ["<mask>", 0.0]]
    specials = [(0, "<s>"), (1, "<pad>"), (2, "</s>"), (3, "<unk>"), (len(vocab) - 1, "<mask>")]
    token = lambda i, text: dict(id=i, content=text, lstrip=False, normalized=False, rstrip=False, single_word=False,
        special=True)
    space = dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)
    text = dict(
        version="1.0", truncation=None, padding=None, added_tokens=[token(i, t) for i, t in specials],
        normalizer=dict(type="Precompiled",
            precompiled_charsmap=base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()),
        pre_tokenizer=dict(type="Sequence", pretokenizers=[dict(type="WhitespaceSplit"), space]),
        post_processor=dict(type="TemplateProcessing", single=[
            dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0)),
                dict(SpecialToken=dict(id="</s>", type_id=0))],
            pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=0))],
            special_tokens={t: dict(id=t, ids=[i], tokens=[t]) for i, t in ((0, "<s>"), (2, "</s>"))}),
        decoder=space, model=dict(type="Unigram", unk_id=3, vocab=vocab, byte_fallback=False))
    (folder / "tokenizer.json").write_text(json.dumps(text, ensure_ascii=False) + "\n")
    config = dict(tokenizer_class="XLMRobertaTokenizer", bos_token="<s>", eos_token="</s>", sep_token="</s>",
        cls_token="<s>",
                  unk_token="<unk>", pad_token="<pad>", mask_token="<mask>", clean_up_tokenization_spaces=True,
                      model_max_length=64)
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_llama_bpe(folder: Path, vocab_size: int, spec: dict) -> None:
    """A BPE over pieces with bytes for what it lacks, as tokenizer.json alone: Gemma 4's kind."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    byte_tokens = [f"<0x{i:02X}>" for i in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<unk>", "<s>", "</s>", *byte_tokens], show_progress=False))
    text = json.loads(tokenizer.to_str())
    text["added_tokens"] = [entry for entry in text["added_tokens"] if not entry["content"].startswith("<0x")]
    (folder / "tokenizer.json").write_text(json.dumps(text, ensure_ascii=False, indent=1) + "\n")
    config = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", tokenizer_class="PreTrainedTokenizerFast",
                  chat_template="{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}")
    config |= spec.get("tokenizer_config", {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


TOKENIZERS = dict(llama_bpe=make_llama_bpe, wordpiece=make_wordpiece, unigram=make_unigram, unigram_json=make_unigram_json)
