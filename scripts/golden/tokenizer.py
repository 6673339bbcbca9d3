"""Makes golden/tokenizer/: tiny tokenizers and the keys that the reference converter makes of them.

Needs transformers, tokenizers, sentencepiece and gguf's own needs; no weights are made. The
functions of the reference's model class are called on an object that has a config and a writer
but no tensors. `expected.json` holds

  route     which set_vocab ran: llama, gpt2, sentencepiece, llama_hf, or one of CLASSES
  pre       what the maker put in place of get_vocab_base_pre, whose hashes cannot know a tiny
            tokenizer; null where the reference decided by itself
  metadata  [key, type, value] in the order of the reference; arrays of more than 16 items as
            {"len": n, "sha256": of the bytes that the file holds}
"""

import base64
import io
import json
import shutil
from pathlib import Path

import lib

TEXT = [*lib.TEXT, "Größe, façade, naïve, Ωmega,日本語, привет, emoji 🦙 and    runs of     spaces\tand tabs."]

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def token(text: str, special: bool = True, normalized: bool = False, **more) -> dict:
    return dict(content=text, lstrip=False, normalized=normalized, rstrip=False, single_word=False,
        special=special) | more


def train_bpe(vocab_size: int, specials: list[str]) -> dict:
    """A byte-level BPE as the JSON of tokenizer.json; specials come last, as most families have them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.add_special_tokens(specials)
    return json.loads(tokenizer.to_str())


def train_spm(vocab_size: int, **options) -> bytes:
    import sentencepiece
    model = io.BytesIO()
    options = dict(model_type="bpe", byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity",
                   unk_id=0, bos_id=1, eos_id=2, pad_id=-1) | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=vocab_size,
        num_threads=1, minloglevel=2, **options)
    return model.getvalue()


def llama_json(model: bytes, legacy: bool = True) -> dict:
    """What the Hub holds as tokenizer.json of llama 2: pieces and merges of a SentencePiece model."""
    from sentencepiece import SentencePieceProcessor
    processor = SentencePieceProcessor(model_proto=model)
    pieces = [processor.IdToPiece(i) for i in range(processor.vocab_size())]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for i, piece in enumerate(pieces):
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab and not processor.IsByte(i):
                merges.append((i, vocab[left], vocab[right], left, right))
    merges.sort(key=lambda m: m[:3])
    special = lambda i, text: dict(id=i) | token(text)
    normalizers = [dict(type="Prepend", prepend="▁"), dict(type="Replace", pattern=dict(String=" "), content="▁")]
    return dict(
        version="1.0", truncation=None, padding=None,
        added_tokens=[special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        normalizer=dict(type="Sequence", normalizers=normalizers), pre_tokenizer=None,
        post_processor=dict(
            type="TemplateProcessing",
            single=[dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0))],
            pair=[dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0)),
                  dict(SpecialToken=dict(id="<s>", type_id=1)), dict(Sequence=dict(id="B", type_id=1))],
            special_tokens={"<s>": dict(id="<s>", ids=[1], tokens=["<s>"])}),
        decoder=dict(type="Sequence", decoders=[
            dict(type="Replace", pattern=dict(String="▁"), content=" "), dict(type="ByteFallback"), dict(type="Fuse"),
            dict(type="Strip", content=" ", start=1, stop=0)]),
        model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None,
            end_of_word_suffix=None,
                   fuse_unk=True, byte_fallback=True, vocab=vocab,
                   merges=[f"{left} {right}" for *_, left, right in merges] if legacy else
                   [[left, right] for *_, left, right in merges]))


def split(expression: str, behavior: str = "Isolated", invert: bool = False) -> dict:
    return dict(type="Split", pattern=dict(Regex=expression), behavior=behavior, invert=invert)


def byte_level(use_regex: bool, add_prefix_space: bool = False) -> dict:
    return dict(type="ByteLevel", add_prefix_space=add_prefix_space, trim_offsets=True, use_regex=use_regex)


def sequence(*steps: dict) -> dict:
    return dict(type="Sequence", pretokenizers=list(steps))


def template(single: list[str], pair: list[str], ids: dict[str, int]) -> dict:
    part = lambda text: (dict(Sequence=dict(id=text, type_id=0)) if text in ("A", "B")
                         else dict(SpecialToken=dict(id=text, type_id=0)))
    return dict(type="TemplateProcessing", single=[part(p) for p in single], pair=[part(p) for p in pair],
                special_tokens={t: dict(id=t, ids=[i], tokens=[t]) for t, i in ids.items()})


FAST = "PreTrainedTokenizerFast"


def ranks(tokenizer: dict) -> list[bytes]:
    """The tokens of a byte-level BPE as bytes: all 256 bytes first, then in the order of merges."""
    from tokenizers.pre_tokenizers import ByteLevel
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    back = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    assert set(back) == set(ByteLevel.alphabet())
    return [bytes([b]) for b in range(256)] + [bytes(back[c] for c in a + b) for a, b in tokenizer["model"]["merges"]]


class Tiktoken:
    """What the reference asks of Qwen 1's own tokenizer class, whose code lies beside that model."""

    def __init__(self, folder: Path) -> None:
        lines = (folder / "qwen.tiktoken").read_bytes().splitlines()
        self.mergeable_ranks = {base64.b64decode(token): int(rank) for token,
            rank in (line.split() for line in lines if line)}
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
        self.special_tokens = {name: len(self.mergeable_ranks) + i for i, name in enumerate(names)}

    def get_vocab(self) -> dict:
        return dict(self.mergeable_ranks) | self.special_tokens

    def encode(self, text: str) -> list[int]:
        import tiktoken
        encoding = tiktoken.Encoding("qwen", pat_str=QWEN2_SPLIT, mergeable_ranks=self.mergeable_ranks,
            special_tokens={})
        return encoding.encode_ordinary(text)


class ChatGlm3:
    """What the reference asks of ChatGLM 3's own tokenizer class, as tokenization_chatglm.py of that model has it."""

    SPECIAL = ["[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "<|system|>", "<|user|>", "<|assistant|>",
        "<|observation|>"]

    def __init__(self, folder: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        class Model(SentencePieceProcessor):
            is_unknown, is_control, is_unused, is_byte = (
                SentencePieceProcessor.IsUnknown, SentencePieceProcessor.IsControl, SentencePieceProcessor.IsUnused,
                SentencePieceProcessor.IsByte)
            get_score = SentencePieceProcessor.GetScore

        class Inner:
            sp_model = Model(model_file=str(folder / "tokenizer.model"))

        self.tokenizer = Inner()
        self.n = self.tokenizer.sp_model.vocab_size()

    def _convert_id_to_token(self, i: int) -> str:
        if 0 <= i - self.n < len(self.SPECIAL):
            return self.SPECIAL[i - self.n]
        if i in (1, 2) or i > self.n:
            return ""
        return self.tokenizer.sp_model.IdToPiece(i)

    def get_vocab(self) -> dict:
        return {self._convert_id_to_token(i): i for i in range(self.n + len(self.SPECIAL))}


def make_tokenizer(name: str, folder: Path) -> tuple[str, str | None]:
    """Writes the files of one tokenizer; gives its route and the pre-tokenizer that stands for the hash."""
    files: dict[str, object] = {}
    config: dict = dict(model_type="llama", architectures=["LlamaForCausalLM"])
    route, pre = "llama", None
    if name == "bpe-llama3":
        tokenizer = train_bpe(300, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|reserved_0|>"])
        tokenizer["model"]["ignore_merges"] = True
        tokenizer["pre_tokenizer"] = sequence(split(LLAMA3_SPLIT), byte_level(False))
        begin = "<|begin_of_text|>"
        tokenizer["post_processor"] = dict(type="Sequence", processors=[
            byte_level(True, True), template([begin, "A"], [begin, "A", begin, "B"], {begin: 300})])
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            bos_token=begin, eos_token="<|eot_id|>", tokenizer_class=FAST, clean_up_tokenization_spaces=True,
            chat_template="{{ bos_token }}{% for m in messages %}{{ m['content'] }}<|eot_id|>{% endfor %}",
            added_tokens_decoder={str(t["id"]): {k: v for k, v in t.items() if k != "id"}
                for t in tokenizer["added_tokens"]})
        config |= dict(vocab_size=312, bos_token_id=300, eos_token_id=[301, 302], pad_token_id=303)
        pre = "llama-bpe"
    elif name == "bpe-smollm":
        tokenizer = train_bpe(320, [])
        # The family has its special tokens first, inside the vocabulary.
        specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
        vocab = {text: i for i, text in enumerate(specials)}
        vocab |= {text: i + len(specials) for text, i in tokenizer["model"]["vocab"].items()}
        tokenizer["model"]["vocab"] = vocab
        tokenizer["added_tokens"] = [dict(id=i) | token(text) for i, text in enumerate(specials)]
        tokenizer["pre_tokenizer"] = sequence(dict(type="Digits", individual_digits=True), byte_level(True))
        tokenizer["model"]["merges"] = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            add_prefix_space=False, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>",
            unk_token="<|endoftext|>", chat_template=CHATML, tokenizer_class=FAST,
            additional_special_tokens=["<|im_start|>", "<|im_end|>"],
            added_tokens_decoder={str(i): token(text) for i, text in enumerate(specials)})
        config |= dict(vocab_size=len(vocab), bos_token_id=1, eos_token_id=2)
        pre = "smollm"
    elif name == "bpe-gpt2":
        tokenizer = train_bpe(300, ["<|endoftext|>"])
        tokenizer["pre_tokenizer"] = byte_level(True)
        tokenizer["post_processor"] = byte_level(True)
        files["tokenizer.json"] = tokenizer
        files["vocab.json"] = tokenizer["model"]["vocab"] | {"<|endoftext|>": 300}
        files["merges.txt"] = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tokenizer["model"]["merges"])
        files["tokenizer_config.json"] = dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=False,
            model_max_length=64)
        config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=301, bos_token_id=300,
            eos_token_id=300)
        route, pre = "gpt2", "gpt-2"
    elif name == "bpe-slow":
        tokenizer = train_bpe(290, [])
        files["vocab.json"] = tokenizer["model"]["vocab"] | {"<|endoftext|>": 290}
        lines = [f"{a} {b}\n" for a, b in tokenizer["model"]["merges"]]
        files["merges.txt"] = "#version: 0.2 - of a tiny model\n" + "".join(lines)
        files["tokenizer_config.json"] = dict(
            tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>",
            unk_token="<|endoftext|>", errors="replace", add_bos_token=False)
        config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=291, eos_token_id=290)
        route, pre = "gpt2", "gpt-2"
    elif name == "bpe-qwen2":
        tokenizer = train_bpe(300, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        tokenizer["normalizer"] = dict(type="NFC")
        tokenizer["pre_tokenizer"] = sequence(split(QWEN2_SPLIT), byte_level(False))
        tokenizer["post_processor"] = byte_level(False)
        tokenizer["added_tokens"] += [dict(id=303) | token("<tool_call>", special=False),
                                      dict(id=304) | token("<|fim_prefix|>", special=False),
                                      dict(id=305) | token("▁padded▁word", special=False, normalized=True)]
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            tokenizer_class="Qwen2Tokenizer", add_bos_token=False, add_prefix_space=False, bos_token=None,
            eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None, chat_template=[
                dict(name="default", template=CHATML), dict(name="tool-use", template="{{ tools }}" + CHATML)],
            added_tokens_decoder={str(t["id"]): {k: v for k, v in t.items() if k != "id"}
                for t in tokenizer["added_tokens"]})
        config = dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], vocab_size=320, bos_token_id=300,
            eos_token_id=302)
        route, pre = "gpt2", "qwen2"
    elif name == "bpe-spaces":
        # Merges as pairs with a space inside, specials that are only in the vocabulary, a token that
        # looks special, no tokenizer_config flags, templates in files of their own.
        tokenizer = train_bpe(280, [])
        vocab = tokenizer["model"]["vocab"]
        vocab |= {" ": 280, "  ": 281, "<mask>": 282, "<unused3>": 283, "<unk>": 284}
        tokenizer["model"]["merges"].append([" ", " "])
        tokenizer["model"]["unk_token"] = "<unk>"
        tokenizer["added_tokens"] = [dict(id=282) | token("<mask>", special=False),
                                     dict(id=283) | token("<unused3>", special=False, normalized=True),
                                     dict(id=285) | token("<s>"), dict(id=286) | token("</s>"),
                                     dict(id=287) | token("Ġspaced", special=False),
                                         dict(id=288) | token("kept▁mark", special=False)]
        tokenizer["pre_tokenizer"] = sequence(split(LLAMA3_SPLIT), byte_level(False))
        tokenizer["post_processor"] = template(["<s>", "A", "</s>"], ["<s>", "A", "</s>", "B", "</s>"],
                                               {"<s>": 285, "</s>": 286})
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            tokenizer_class=FAST, bos_token=token("<s>", __type="AddedToken"),
                eos_token=token("</s>", __type="AddedToken"), unk_token="<unk>", mask_token="<mask>",
            model_max_length=1000000000000000019884624838656)
        files["chat_template.jinja"] = "{{ messages }}\n"
        files["additional_chat_templates/rag.jinja"] = "rag {{ documents }}"
        config |= dict(vocab_size=289, pad_token_id=282)
        pre = "llama-bpe"
    elif name == "bpe-eot":
        # The template's last token is not eos_token: the reference makes it eos and the other eot.
        tokenizer = train_bpe(280, ["<|start|>", "<|end|>", "<|turn|>", "<|sep|>"])
        tokenizer["pre_tokenizer"] = sequence(split(LLAMA3_SPLIT), byte_level(False))
        tokenizer["post_processor"] = template(["<|start|>", "A", "<|end|>"],
            ["<|start|>", "A", "<|sep|>", "B", "<|end|>"],
                                               {"<|start|>": 280, "<|end|>": 281, "<|sep|>": 283})
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            tokenizer_class=FAST, bos_token="<|start|>", eos_token="<|turn|>", sep_token="<|sep|>",
                cls_token="<|start|>",
            add_bos_token=True)
        files["chat_template.json"] = dict(chat_template="from json {{ messages }}")
        config |= dict(vocab_size=284)
        pre = "llama-bpe"
    elif name == "bpe-roberta":
        tokenizer = train_bpe(280, ["<s>", "</s>", "<mask>"])
        tokenizer["pre_tokenizer"] = byte_level(True)
        tokenizer["post_processor"] = dict(type="RobertaProcessing", sep=["</s>", 281], cls=["<s>", 280],
                                           trim_offsets=True, add_prefix_space=False)
        tokenizer["normalizer"] = dict(type="Sequence", normalizers=[dict(type="Lowercase"), dict(type="NFC"),
            dict(type="StripAccents")])
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(tokenizer_class=FAST, mask_token=token("<mask>", __type="AddedToken"),
            bos_token="<s>")
        config |= dict(vocab_size=283)
        route, pre = "gpt2", "gpt-2"
    elif name == "spm-llama2":
        files["tokenizer.model"] = train_spm(384)
        files["tokenizer_config.json"] = dict(
            add_bos_token=True, add_eos_token=False, bos_token=token("<s>", normalized=True, __type="AddedToken"),
            eos_token=token("</s>", normalized=True, __type="AddedToken"),
                unk_token=token("<unk>", __type="AddedToken"), pad_token=None,
            tokenizer_class="LlamaTokenizer", legacy=False, chat_template="{{ messages }}")
        config |= dict(vocab_size=384, bos_token_id=1, eos_token_id=2, pad_token_id=None)
    elif name == "spm-added":
        # Tokens beside the model from both files, padding above, a token with the word mark, one out of range.
        files["tokenizer.model"] = train_spm(
            336, control_symbols="<ctl>", user_defined_symbols="<|user|>,a▁b", pad_id=3, pad_piece="<pad>")
        files["added_tokens.json"] = {"<extra_0>": 336, "<extra_1>": 337, "<far>": 400}
        files["tokenizer_config.json"] = dict(
            add_bos_token=True, add_eos_token=True, add_prefix_space=False, bos_token="<s>", eos_token="</s>",
                unk_token="<unk>",
            pad_token="<pad>", tokenizer_class="LlamaTokenizer",
            added_tokens_decoder={"337": token("<extra_1b>", special=False), "338": token("<|looks|>", special=False),
                                  "339": token("two▁words", special=False), "0": token("<unk>"),
                                      "401": token("<far2>")})
        config |= dict(vocab_size=345, bos_token_id=1, eos_token_id=2, pad_token_id=399)
    elif name == "spm-unigram":
        # A unigram model with the default normalization, read by the same function; the config has fewer ids.
        files["tokenizer.model"] = train_spm(150, model_type="unigram", byte_fallback=False,
            normalization_rule_name="nmt_nfkc",
                                             hard_vocab_limit=False)
        files["tokenizer_config.json"] = dict(tokenizer_class="LlamaTokenizer", add_bos_token=False)
        config |= dict(vocab_size=140, bos_token_id=1, eos_token_id=2, unk_token_id=0)
        route = "sentencepiece"
    elif name == "spm-and-json":
        # Both files, as the Hub has llama 2: the model is read, ids and flags come from the JSON.
        model = train_spm(384)
        files["tokenizer.model"] = model
        files["tokenizer.json"] = llama_json(model)
        files["tokenizer_config.json"] = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>",
                                              tokenizer_class="LlamaTokenizerFast", add_prefix_space=True)
        config |= dict(vocab_size=384, bos_token_id=1, eos_token_id=2)
    elif name == "spm-codellama":
        # The Code Llama rule hangs on the vocabulary's size alone.
        files["tokenizer.model"] = train_spm(384)
        files["tokenizer_config.json"] = dict(add_bos_token=True, bos_token="<s>", tokenizer_class="LlamaTokenizer",
            chat_template="x")
        config |= dict(vocab_size=32016, bos_token_id=1, eos_token_id=2)
    elif name in ("json-llama2", "json-llama2-added"):
        tokenizer = llama_json(train_spm(384), legacy=name == "json-llama2")
        added = {}
        if name.endswith("added"):
            tokenizer["added_tokens"] += [dict(id=384) | token("<|im_end|>"),
                dict(id=385) | token("plain", special=False)]
            added = dict(extra_special_tokens=["<|im_end|>"])
            tokenizer["post_processor"] = None
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True,
                                              add_eos_token=False, tokenizer_class=FAST, **added)
        config |= dict(vocab_size=384 + 2 * bool(added), bos_token_id=1, eos_token_id=2)
    elif name in ("wordpiece-bert", "wordpiece-txt"):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer.train_from_iterator(TEXT * 4, trainers.WordPieceTrainer(vocab_size=300, show_progress=False,
            special_tokens=specials))
        parsed = json.loads(tokenizer.to_str())
        config = dict(model_type="bert", architectures=["BertModel"], vocab_size=len(parsed["model"]["vocab"]) + 3,
                      type_vocab_size=2, pad_token_id=0)
        if name == "wordpiece-bert":
            ids = {t: i for i, t in enumerate(specials)}
            parsed["post_processor"] = template(["[CLS]", "A", "[SEP]"], ["[CLS]", "A", "[SEP]", "B", "[SEP]"], ids)
            parsed["decoder"] = dict(type="WordPiece", prefix="##", cleanup=True)
            files["tokenizer.json"] = parsed
            files["tokenizer_config.json"] = dict(
                tokenizer_class="BertTokenizer", do_lower_case=True, unk_token="[UNK]", sep_token="[SEP]",
                    pad_token="[PAD]",
                cls_token="[CLS]", mask_token="[MASK]")
        else:
            vocab = sorted(parsed["model"]["vocab"].items(), key=lambda item: item[1])
            files["vocab.txt"] = "".join(token + "\n" for token, _ in vocab)
            files["tokenizer_config.json"] = dict(tokenizer_class="BertTokenizer", do_lower_case=False)
        route, pre = "bert", "bert-bge"
    elif name in ("unigram-t5", "unigram-xlmr"):
        model = train_spm(150, model_type="unigram", byte_fallback=False, normalization_rule_name="nmt_nfkc",
            hard_vocab_limit=False,
                          **(dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1) if name == "unigram-t5" else {}))
        if name == "unigram-t5":
            files["spiece.model"] = model
            files["added_tokens.json"] = {"<extra_id_0>": 155}
            files["tokenizer_config.json"] = dict(tokenizer_class="T5Tokenizer", eos_token="</s>", pad_token="<pad>",
                unk_token="<unk>")
            config = dict(model_type="t5", architectures=["T5ForConditionalGeneration"], vocab_size=160,
                pad_token_id=0, eos_token_id=1)
            route = "t5"
        else:
            files["sentencepiece.bpe.model"] = model
            files["tokenizer_config.json"] = dict(tokenizer_class="XLMRobertaTokenizer", bos_token="<s>",
                eos_token="</s>")
            config = dict(model_type="xlm-roberta", architectures=["XLMRobertaModel"], vocab_size=152,
                type_vocab_size=1,
                          bos_token_id=0, eos_token_id=2, pad_token_id=1)
            route = "xlm_roberta"
    elif name == "unigram-json":
        from sentencepiece import sentencepiece_model_pb2
        model = train_spm(150, model_type="unigram", byte_fallback=False, normalization_rule_name="nmt_nfkc",
            hard_vocab_limit=False)
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(model)
        vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0],
            ["<unk>", 0.0]] + [[p.piece, p.score] for p in proto.pieces[3:]] + [["<mask>", 0.0]]
        specials = [(0, "<s>"), (1, "<pad>"), (2, "</s>"), (3, "<unk>"), (len(vocab) - 1, "<mask>")]
        files["tokenizer.json"] = dict(
            version="1.0", truncation=None, padding=None, added_tokens=[dict(id=i) | token(t) for i, t in specials],
            normalizer=dict(type="Precompiled",
                precompiled_charsmap=base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()),
            pre_tokenizer=sequence(dict(type="WhitespaceSplit"),
                dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)),
            post_processor=template(["<s>", "A", "</s>"], ["<s>", "A", "</s>", "</s>", "B", "</s>"],
                {"<s>": 0, "</s>": 2}),
            decoder=dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True),
            model=dict(type="Unigram", unk_id=3, vocab=vocab, byte_fallback=False))
        files["tokenizer_config.json"] = dict(
            tokenizer_class="XLMRobertaTokenizer", bos_token="<s>", eos_token="</s>", sep_token="</s>",
                cls_token="<s>", unk_token="<unk>",
            pad_token="<pad>", mask_token="<mask>", clean_up_tokenization_spaces=True, model_max_length=64)
        config = dict(model_type="xlm-roberta", architectures=["XLMRobertaModel"], vocab_size=len(vocab),
            type_vocab_size=1,
                      bos_token_id=0, eos_token_id=2, pad_token_id=1)
        route = "xlm_roberta"
    elif name == "rwkv-world":
        tokens = [bytes([i]) for i in range(256)] + ["\n\n", "'\"", "ab", "é", "привет", b"\xe4\xb8", "\\n", "it's",
            "日本"]
        lines = []
        for i, item in enumerate(tokens, 1):
            if isinstance(item, bytes) and len(item) == 1 and item[0] < 128:
                item = item.decode()
            lines.append(f"{i} {item!r} {len(item.encode() if isinstance(item, str) else item)}\n")
        files["rwkv_vocab_v20230424.txt"] = "".join(lines)
        files["tokenizer_config.json"] = dict(tokenizer_class="RwkvTokenizer", chat_template="{{ messages }}")
        config = dict(model_type="rwkv6", architectures=["Rwkv6ForCausalLM"], vocab_size=270, bos_token_id=0,
            eos_token_id=0)
        route = "rwkv_world"
    elif name in ("spm-phi3", "spm-internlm2", "spm-gemma", "spm-gemma2", "spm-arctic"):
        files["tokenizer.model"] = train_spm(384)
        decoder = {str(i): token(t) for i, t in [(0, "<unk>"), (1, "<s>"), (2, "</s>")]} | {
            "383": token("<|im_end|>"), "382": token("two▁words", special=False)}
        files["tokenizer_config.json"] = dict(
            tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                added_tokens_decoder=decoder,
            add_bos_token=True, chat_template="{{ messages }}")
        if name in ("spm-phi3", "spm-gemma"):
            files["added_tokens.json"] = {"<|user|>": 380, "<|end|>": 381}
        config |= dict(vocab_size=384, bos_token_id=1, eos_token_id=2)
        if name == "spm-phi3":
            config["vocab_size"] = 390
            files["tokenizer.json"] = llama_json(files["tokenizer.model"])
            files["tokenizer.json"]["added_tokens"] += [dict(id=384) | token("<|system|>"),
                dict(id=385) | token("plain", special=False)]
        route = name.split("-")[1]
    elif name == "tiktoken-qwen":
        lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank,
            token in enumerate(ranks(train_bpe(300, [])))]
        files["qwen.tiktoken"] = "".join(lines)
        config = dict(model_type="qwen", architectures=["QWenLMHeadModel"], vocab_size=520)
        route, pre = "qwen", "qwen2"
    elif name == "tekken-v3":
        entries = [dict(rank=rank, token_bytes=base64.b64encode(token).decode(), token_str=None)
                   for rank, token in enumerate(ranks(train_bpe(300, [])))]
        # The file has more tokens than the model, as the real ones do.
        files["tekken.json"] = dict(
            config=dict(pattern=QWEN2_SPLIT, num_vocab_tokens=len(entries), default_vocab_size=310,
                default_num_special_tokens=24,
                        version="v3"), vocab=entries)
        config = dict(model_type="mistral", architectures=["MistralForCausalLM"], vocab_size=310)
        route = "mistral"
    elif name in ("plamo2", "plamo3"):
        tokens = [("<|plamo:unk|>", 0.0, "UNKNOWN"), ("<|plamo:bos|>", 0.0, "CONTROL"),
            ("<|plamo:eos|>", 0.0, "CONTROL"),
                  ("<|plamo:pad|>", 0.0, "CONTROL"), ("<|plamo:op|>", 0.0, "NORMAL")]
        tokens += [(f"<0x{i:02X}>", 0.0, "BYTE") for i in range(256)]
        tokens += [(text, -1.5 - i, "NORMAL") for i, text in enumerate(["the", " a", "日本", "\n\n", "\u2581x", "é"])]
        lines = [json.dumps([*entry, 0, len(entry[0]), 0, 0], ensure_ascii=False) + "\n" for entry in tokens]
        files["tokenizer.jsonl"] = "".join(lines) + "\n"
        files["tokenizer_config.json"] = dict(bos_token="<|plamo:bos|>", eos_token="<|plamo:eos|>",
            pad_token="<|plamo:pad|>",
                                              unk_token="<|plamo:unk|>", sep_token=None,
                                                  tokenizer_class="Plamo2Tokenizer")
        config = dict(model_type="plamo2", architectures=["Plamo2ForCausalLM"], vocab_size=272)
        route = "plamo2"
        if name == "plamo3":
            tokens += [("<|plamo:tag|>", 0.0, "CONTROL"), ("<|plamo:begin_", 0.0, "CONTROL"), (":plamo|>", 0.0, "CONTROL"),
                ("<|plamo:x|>", -20.0, "NORMAL"), ("aa", -1.0, "NORMAL")]
            lines = [json.dumps([*entry, 0, len(entry[0]), 0, 0], ensure_ascii=False) + "\n" for entry in tokens]
            files["tokenizer.jsonl"] = "".join(lines)
            config = dict(model_type="plamo3", architectures=["Plamo3ForCausalLM"], vocab_size=275)
            files["tokenizer_config.json"] |= dict(tokenizer_class="Plamo3Tokenizer", add_bos_token=True, add_eos_token=False)
            files["tokenizer_config.json"]["chat_template"] = "of the config {{ messages }}"
            files["chat_template.jinja"] = "of its own file {{ messages }}\n"
            route = "plamo3"
    elif name == "bpe-mmbert":
        tokenizer = llama_json(train_spm(384), legacy=False)
        tokenizer["normalizer"] = None
        tokenizer["decoder"]["decoders"].pop()  # It would strip a space.
        tokenizer["pre_tokenizer"] = dict(type="Metaspace", replacement="\u2581", prepend_scheme="always", split=True)
        tokenizer["added_tokens"] += [dict(id=384 + i) | token(t, special=t == "<mask>") for i, t in enumerate(
            ["\u2581\u2581", "\u2581\u2581\u2581", "<mask>", "\n\n", "\u2581z"])]
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(tokenizer_class=FAST, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
            mask_token="<mask>")
        config = dict(model_type="modernbert", architectures=["ModernBertModel"], vocab_size=392)
        route, pre = "modern_bert", "mmbert"
    elif name == "bpe-k2-horizon":
        tokenizer = train_bpe(300, ["<|ifm|im_end|>"])
        words = QWEN2_SPLIT.replace(r"\p{L}+", r"(?:\p{L}|\p{M}|\u200C|\u200D)+", 1).replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
        tokenizer["pre_tokenizer"] = sequence(split(words), byte_level(False))
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(tokenizer_class=FAST, eos_token="<|ifm|im_end|>")
        config = dict(model_type="k2_horizon", architectures=["K2HorizonForCausalLM"], vocab_size=301)
        route, pre = "gpt2", "k2-horizon"
    elif name == "xverse":
        tokenizer = llama_json(train_spm(384))
        tokenizer["model"]["vocab"]["\0"] = 384
        tokenizer["added_tokens"] += [dict(id=385) | token("<|end|>"), dict(id=386) | token("plain", special=False)]
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(tokenizer_class=FAST, bos_token="<s>", eos_token="</s>",
            unk_token="<unk>")
        config = dict(model_type="xverse", architectures=["XverseForCausalLM"], vocab_size=387, bos_token_id=1,
            eos_token_id=2)
        route = "xverse"
    elif name == "gemma4":
        tokenizer = llama_json(train_spm(384), legacy=False)
        tokenizer["normalizer"] = dict(type="Replace", pattern=dict(String=" "), content="▁")
        tokenizer["pre_tokenizer"] = dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious",
            invert=False)
        tokenizer["added_tokens"] += [dict(id=384 + i) | token(t) for i, t in enumerate(
            ["<|channel>", "<channel|>", "<|tool_call>", "<|turn>", "<turn|>", '<|"|>'])]
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(
            tokenizer_class=FAST, bos_token="<s>", eos_token="</s>", unk_token="<unk>", chat_template="{{ messages }}",
            extra_special_tokens=["<|channel>", "<channel|>", "<|tool_call>", "<|turn>", "<turn|>", '<|"|>'])
        config = dict(model_type="gemma4", architectures=["Gemma4ForConditionalGeneration"], vocab_size=390,
            bos_token_id=1, eos_token_id=[2, 388])
        route = "gemma4"
    elif name in ("spm-internlm3", "spm-chatglm3"):
        files["tokenizer.model"] = train_spm(384)
        if name == "spm-internlm3":
            files["tokenizer_config.json"] = dict(
                tokenizer_class="InternLM3Tokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                    add_prefix_space=False,
                add_bos_token=True, chat_template="{{ messages }}", added_tokens_decoder={
                    "0": token("<unk>"), "1": token("<s>"), "2": token("</s>"), "384": token("<|im_start|>"),
                        "385": token("<|im_end|>"),
                    "386": token("<|plugin|>", special=False)})
            config = dict(model_type="internlm3", architectures=["InternLM3ForCausalLM"], vocab_size=390,
                bos_token_id=1, eos_token_id=2)
            route = "internlm3"
        else:
            files["tokenizer_config.json"] = dict(tokenizer_class="ChatGLMTokenizer", eos_token="</s>",
                pad_token="<unk>", unk_token="<unk>")
            config = dict(model_type="chatglm", architectures=["ChatGLMModel"], _name_or_path="THUDM/chatglm3-6b",
                padded_vocab_size=400,
                          eos_token_id=2, pad_token_id=0)
            route = "chatglm"
    elif name in ("jina-wordpiece", "nomic-wordpiece"):
        _, pre = make_tokenizer("wordpiece-bert", folder)
        files = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()
            if path.name != "expected.json"}
        config = files.pop("config.json")
        route = name.split("-")[0] + "_bert"
        if name == "nomic-wordpiece":
            config |= dict(model_type="nomic_bert", architectures=["NomicBertModel"], n_positions=8192)
        else:
            config |= dict(model_type="bert", architectures=["JinaBertForMaskedLM"])
    elif name == "jina-bpe":
        tokenizer = train_bpe(280, ["<s>", "</s>", "<pad>", "<mask>"])
        tokenizer["post_processor"] = dict(type="RobertaProcessing", sep=["</s>", 281], cls=["<s>", 280],
            trim_offsets=True, add_prefix_space=False)
        files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = dict(tokenizer_class="RobertaTokenizer", bos_token="<s>", eos_token="</s>",
            sep_token="</s>",
                                              cls_token="<s>", pad_token="<pad>",
                                                  mask_token=token("<mask>", lstrip=True, __type="AddedToken"))
        config = dict(model_type="bert", architectures=["JinaBertForMaskedLM"], vocab_size=288, type_vocab_size=2)
        route, pre = "jina_bert", "gpt-2"
    elif name == "jina-whitespace":
        words = sorted({word for line in TEXT for word in line.split()})
        vocab = {text: i for i, text in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>",
            *sorted(set("".join(words)))])}
        specials = [(vocab[t], t) for t in ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]]
        merges = []
        for left, right in [("t", "h"), ("th", "e"), ("a", "n"), ("an", "d")]:
            vocab[left + right] = len(vocab)
            merges.append([left, right])
        files["tokenizer.json"] = dict(
            version="1.0", truncation=None, padding=None, added_tokens=[dict(id=i) | token(t) for i, t in specials],
            normalizer=dict(type="Lowercase"), pre_tokenizer=dict(type="Whitespace"),
            post_processor=dict(type="RobertaProcessing", sep=["</s>", 2], cls=["<s>", 0], trim_offsets=True,
                add_prefix_space=False),
            decoder=None, model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None,
                end_of_word_suffix=None,
                                     fuse_unk=False, byte_fallback=False, vocab=vocab, merges=merges))
        files["tokenizer_config.json"] = dict(tokenizer_class="RobertaTokenizer", bos_token="<s>", eos_token="</s>",
            sep_token="</s>",
                                              cls_token="<s>", pad_token="<pad>", mask_token="<mask>",
                                                  unk_token="<unk>")
        config = dict(model_type="bert", architectures=["JinaBertForMaskedLM"], vocab_size=len(vocab),
            type_vocab_size=2)
        route, pre = "jina_bert", "jina-v1-en"
    elif name == "nomic-unigram":
        make_tokenizer("unigram-json", folder)
        files = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()
            if path.name != "expected.json"}
        config = files.pop("config.json") | dict(model_type="nomic_bert", architectures=["NomicBertModel"],
            moe_every_n_layers=2,
                                                 n_positions=2048)
        route = "nomic_bert"
    else:
        raise KeyError(name)
    files["config.json"] = config
    if folder.exists():
        shutil.rmtree(folder)
    for file_name, content in files.items():
        path = folder / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_text(json.dumps(content, ensure_ascii=False,
                indent=1 if file_name != "tokenizer.json" else None) + "\n",
                            encoding="utf-8")
    return route, pre


NAMES = ["bpe-llama3", "bpe-smollm", "bpe-gpt2", "bpe-slow", "bpe-qwen2", "bpe-spaces", "bpe-eot", "bpe-roberta",
         "spm-llama2", "spm-added", "spm-unigram", "spm-and-json", "spm-codellama", "json-llama2", "json-llama2-added",
             "wordpiece-bert",
         "wordpiece-txt", "unigram-t5", "unigram-xlmr", "unigram-json", "rwkv-world", "spm-phi3", "spm-internlm2",
             "spm-gemma",
         "spm-gemma2", "spm-arctic", "tiktoken-qwen", "tekken-v3", "plamo2", "plamo3", "xverse", "gemma4",
             "spm-internlm3", "spm-chatglm3",
         "jina-wordpiece", "jina-bpe", "jina-whitespace", "nomic-wordpiece", "nomic-unigram", "bpe-mmbert", "bpe-k2-horizon"]
# Only a newer tree than the pinned one has these.
AHEAD = ["plamo3", "bpe-mmbert", "bpe-k2-horizon"]


CLASSES = dict(bert=("bert", "BertModel"), xlm_roberta=("bert", "XLMRobertaModel"), t5=("t5", "T5Model"),
               phi3=("phi", "Phi3MiniModel"), internlm2=("internlm", "InternLM2Model"), gemma=("gemma", "GemmaModel"),
               gemma2=("gemma", "Gemma2Model"), arctic=("arctic", "ArcticModel"), chatglm=("chatglm", "ChatGLMModel"),
               qwen=("qwen", "QwenModel"), plamo2=("plamo", "Plamo2Model"),
               plamo3=("plamo", "Plamo3Model"), xverse=("xverse", "XverseModel"),
               gemma4=("gemma", "Gemma4Model"), internlm3=("internlm", "InternLM3Model"),
                   jina_bert=("bert", "JinaBertV2Model"),
               nomic_bert=("bert", "NomicBertModel"), sentencepiece_or_gpt2=("qwen", "Qwen2Model"),
                   glm4=("glm", "Glm4Model"), modern_bert=("bert", "ModernBertModel"))


def reference_listing(folder: Path, route: str, pre: str | None) -> list:
    """The keys that the reference's set_vocab writes for the tokenizer in a folder."""
    import gguf
    from importlib import import_module

    from conversion.base import ModelBase

    module, name = CLASSES.get(route, ("llama", "LlamaModel"))
    base = getattr(import_module(f"conversion.{module}"), name)

    class Bare(base):
        is_mistral_format = False
        origin_hf_arch = "LlamaForCausalLM"
        model_arch = gguf.MODEL_ARCH.LLAMA if base.__name__ == "LlamaModel" else base.model_arch

        def __init__(self):
            self.dir_model = folder
            self.hparams = ModelBase.load_hparams(folder, False)
            self.gguf_writer = gguf.GGUFWriter(path=None, arch="llama")
            self.vocab_size = None

    model = Bare()
    if route == "nomic_bert":
        model._tokenizer_is_xlmroberta = model._is_tokenizer_xlmroberta()
    stand_in = {"qwen": Tiktoken, "chatglm": ChatGlm3}.get(route)
    if stand_in and (route == "qwen" or (folder / "tokenizer.model").is_file()):
        import transformers
        from unittest import mock
        patch = mock.patch.object(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: stand_in(folder))
    else:
        from contextlib import nullcontext
        patch = nullcontext()
    if pre is not None:
        model.get_vocab_base_pre = lambda tokenizer: pre
    start = len(model.gguf_writer.kv_data[0])
    with patch:
        dict(gpt2=model._set_vocab_gpt2, sentencepiece=model._set_vocab_sentencepiece,
            llama_hf=model._set_vocab_llama_hf,
             rwkv_world=model._set_vocab_rwkv_world, mistral=model._set_vocab_mistral, qwen=model._set_vocab_qwen,
             ).get(route, model.set_vocab)()
    names = {v: n for n, v in dict(u8=0, i8=1, u16=2, i16=3, u32=4, i32=5, f32=6, bool=7, str=8, arr=9, u64=10, i64=11,
                                   f64=12).items()}
    listing = []
    for key, item in list(model.gguf_writer.kv_data[0].items())[start:]:
        if not key.startswith("tokenizer."):
            # `vocab_size`, which the architecture's own file writes.
            continue
        kind, value = names[int(item.type)], item.value
        if kind == "arr":
            packed = model.gguf_writer._pack_val(value, item.type, add_vtype=False)
            kind = f"arr[{names[int.from_bytes(packed[:4], 'little')]}]"
            if len(value) > 16:
                value = dict(len=len(value), sha256=lib.sha256(packed[12:]))
            else:
                value = [v.decode("utf-8") if isinstance(v, bytes) else v for v in value]
        listing.append([key, kind, value])
    return listing


def write_expected(path: Path, route: str, pre: str | None, listing: list) -> None:
    lines = ["{", f'  "route": {json.dumps(route)},', f'  "pre": {json.dumps(pre)},', '  "metadata": [']
    lines.append(",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in listing))
    lines += ["  ]", "}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def store(whole: dict[str, Path], golden: Path) -> None:
    """Writes golden/tokenizer of whole folders by name: of equal files that are not tiny one, and in copies.json
    where."""
    root, first, copies = golden / "tokenizer", {}, {}
    for name in sorted(whole):
        shutil.rmtree(root / name, ignore_errors=True)
        for path in sorted(path for path in whole[name].rglob("*") if path.is_file()):
            relative = f"{name}/{path.relative_to(whole[name])}"
            data = path.read_bytes()
            original = first.setdefault(data,
                relative) if len(data) >= 2000 and path.name != "expected.json" else relative
            if original == relative:
                (root / relative).parent.mkdir(parents=True, exist_ok=True)
                (root / relative).write_bytes(data)
            else:
                copies[relative] = original
    lib.write_json(root / "copies.json", copies)


def make(ctx) -> None:
    whole = {}
    for name in NAMES:
        if not ctx.wants(name) or (name in AHEAD) != ("ahead" in ctx.inputs):
            whole[name] = ctx.tokenizer(name)
            continue
        folder = whole[name] = ctx.scratch / "made" / name
        route, pre = make_tokenizer(name, folder)
        write_expected(folder / "expected.json", route, pre, reference_listing(folder, route, pre))
        print(name)
    store(whole, ctx.golden)
