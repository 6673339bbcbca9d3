"""Folders of real pickles, for scripts/real-inputs; and with the reference golden/torch/real.txt, its digests of them.

usage: real_inputs.py SOURCE FOLDER CLASS

SOURCE is a folder of a package with config.json and pytorch_model.bin. FOLDER gets both, the config with CLASS as its
class, and a tokenizer whose tokens are numbers, since the packages' own are no text tokenizers. Needs no package.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

# Name, package, wheel, folder in it, class that the reference knows.
PACKAGES = [
    ("antiberty", "antiberty==0.1.3", "antiberty-0.1.3-py3-none-any.whl", "antiberty/trained_models/AntiBERTy_md_smooth",
     "BertModel"),
    ("microformer", "microformer-mgm==0.5.8", "microformer_mgm-0.5.8-py3-none-any.whl", "mgm/resources/general_model",
     "GPT2LMHeadModel"),
]


def prepare(source: Path, folder: Path, class_name: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(source / "pytorch_model.bin", folder)
    config = json.loads((source / "config.json").read_text()) | {"architectures": [class_name]}
    if "n_positions" in config:
        # A key of older configs that the reference asks for.
        config["n_ctx"] = config["n_positions"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    size = config["vocab_size"]
    if config["model_type"] == "bert":
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(size - 5))]
        (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
        tokenizer = dict(version="1.0", added_tokens=[], normalizer={"type": "BertNormalizer", "clean_text": True,
            "handle_chinese_chars": True, "strip_accents": None, "lowercase": False}, pre_tokenizer={"type":
            "BertPreTokenizer"}, post_processor=None, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
            truncation=None, padding=None, model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix":
            "##", "max_input_chars_per_word": 100, "vocab": {token: i for i, token in enumerate(tokens)}})
        special = dict(tokenizer_class="BertTokenizer", pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
            sep_token="[SEP]", mask_token="[MASK]")
    else:
        letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
        tokens = [*letters, *(f"<{i}>" for i in range(size - len(letters)))]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        tokenizer = dict(version="1.0", added_tokens=[], normalizer=None, pre_tokenizer=byte_level,
            post_processor=None, decoder=byte_level, truncation=None, padding=None, model={"type": "BPE", "dropout": None,
            "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []})
        special = dict(tokenizer_class="PreTrainedTokenizerFast")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(special) + "\n")


def make(ctx) -> None:
    from lib import sha256
    # The reference cannot know a tokenizer that stands in for another.
    # Nor does it know the heads of AntiBERTy, which are no part of a BERT.
    patched = """
import sys
sys.argv[0] = 'convert_hf_to_gguf.py'
import conversion.base as base
base.TextModel.get_vocab_base_pre = lambda *_: 'default'
filter_tensors = base.ModelBase.filter_tensors.__func__
heads = ('cls.species.', 'cls.chain.', 'cls.graft.')
base.ModelBase.filter_tensors = classmethod(
    lambda cls, item: None if item[0].startswith(heads) else filter_tensors(cls, item))
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""
    lines = ["# name package wheel folder class bytes sha256: whole f32 files of the reference"]
    for name, package, wheel, inner, class_name in PACKAGES:
        folder, out = ctx.scratch / name, ctx.scratch / f"{name}.gguf"
        prepare(ctx.input("packages") / f"{name}-wheel" / inner, folder, class_name)
        subprocess.run([sys.executable, "-c", patched, folder, "--outtype", "f32", "--outfile", out], check=True,
            cwd=ctx.reference, stdout=subprocess.DEVNULL)
        lines.append(f"{name} {package} {wheel} {inner} {class_name} {out.stat().st_size} {sha256(out.read_bytes())}")
    (ctx.golden / "torch" / "real.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
