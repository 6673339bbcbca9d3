"""Tokenizers of tiny checkpoints: KINDS of them by name, each a function that writes the files of one into a folder."""

import io
import json
import tempfile
from pathlib import Path

from lib import TEXT


def make_spm(folder: Path, vocab_size: int, spec: dict) -> None:
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=vocab_size, model_type="bpe",
        byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity", unk_id=0, bos_id=1, eos_id=2,
            pad_id=-1,
        num_threads=1, minloglevel=2)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    token = lambda text: dict(content=text, lstrip=False, rstrip=False, normalized=False, single_word=False,
        special=True)
    config = dict(add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                  added_tokens_decoder={"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")},
                  legacy=False, model_max_length=512, tokenizer_class="LlamaTokenizer",
                  chat_template="{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}",
                  **spec.get("tokenizer_config", {}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_bpe(folder: Path, vocab_size: int, spec: dict) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|unk|>", "<|begin|>", "<|end|>", *spec.get("special", ())]
    tokenizer.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=vocab_size - 4, special_tokens=specials, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = dict(bos_token="<|begin|>", eos_token="<|end|>", unk_token="<|unk|>", model_max_length=512,
                  tokenizer_class="PreTrainedTokenizerFast",
                  chat_template="{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}")
    config |= spec.get("tokenizer_config", {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_world(folder: Path, vocab_size: int, spec: dict) -> None:
    """RWKV's vocabulary: every byte, then some longer words. One that ends early is filled up."""
    words = sorted({word for line in TEXT for word in line.split() if len(word) > 1})
    lines = [f"{i + 1} {bytes([i])!r} 1" for i in range(256)]
    lines += [f"{i + 257} {word!r} {len(word)}" for i, word in enumerate(words[:vocab_size - 270])]
    (folder / "rwkv_vocab_v20230424.txt").write_text("\n".join(lines) + "\n")
    # Else the reference takes a template from a folder of its own.
    config = dict(chat_template="{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n\n{% endfor %}")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


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
    # The rules are compiled into the model; their path is specific to this machine.
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString()


def train(sentencepiece, model, TEXT, ids) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=150, model_type="unigram",
            byte_fallback=False,
        character_coverage=0.99, hard_vocab_limit=False, num_threads=1, minloglevel=2, **ids)


def make_unigram_t5(folder: Path, vocab_size: int, spec: dict) -> None:
    (folder / "spiece.model").write_bytes(train_unigram(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    config = dict(tokenizer_class="T5Tokenizer", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_unigram_xlmr(folder: Path, vocab_size: int, spec: dict) -> None:
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
    """A BPE over pieces with bytes for what it lacks, as tokenizer.json alone."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
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


def make_mmbert(folder: Path, vocab_size: int, spec: dict) -> None:
    """A BPE of raw text whose words start at spaces, with added tokens for runs of them, like that of mmBERT."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    byte_tokens = [f"<0x{i:02X}>" for i in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=vocab_size - 7, special_tokens=[*specials, *byte_tokens], show_progress=False))
    text = json.loads(tokenizer.to_str())
    text["added_tokens"] = [entry for entry in text["added_tokens"] if not entry["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(text))
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in ("  ", "   ", "\t")])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(pad="<pad>", eos="<eos>", bos="<bos>", unk="<unk>", mask="<mask>", cls="<bos>", sep="<eos>")
    config = {f"{name}_token": token for name, token in names.items()} | dict(tokenizer_class="PreTrainedTokenizerFast")
    (folder / "tokenizer_config.json").write_text(json.dumps(config | spec.get("tokenizer_config", {}), indent=2) + "\n")


KINDS = {
    "spm": make_spm, "bpe": make_bpe, "world": make_world, "llama_bpe": make_llama_bpe, "mmbert": make_mmbert,
    "wordpiece": make_wordpiece,
    "unigram-t5": make_unigram_t5, "unigram-xlmr": make_unigram_xlmr, "unigram-json": make_unigram_json}
