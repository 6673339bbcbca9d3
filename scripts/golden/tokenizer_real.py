"""Makes golden/tokenizer/real.tsv: what the reference and the models' own libraries make of real tokenizers.

`--input ours=` names examples/vocab, only to name the pre-tokenizer where the reference knows none, and to show keys
that differ; `--input packages=` where packages are, or are fetched to; `--only` families whose rows are made again.

Needs what the reference's converter needs, and mistral-common, tiktoken and sentencepiece.
Columns: family, origin, licence of the model, sha256 of its first tokenizer file, route, what the
reference did, sha256 of its listing of keys (one JSON value a line), which library encoded the
text, number of ids, sha256 of the ids (32 bits each, little-endian). `-` where there is none:
tokenizer.json is encoded when the check runs, by the library that wrote it.

Where the reference does not know the pre-tokenizer, its function is replaced by our name
("unknown to it"); where it fails otherwise, the reason stands in the row.
"""

import json
import logging
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import tokenizer
from tokenizer_families import NPM, PYPI, bytes_text, checked_text, digest_of, digest_of_ids, digest_of_keys, fetch, lay

# As tokenizer.py of llama-models 0.3.0 has it.
LLAMA4_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def reference(folder: Path, route: str, own_pre: str | None) -> tuple[list | None, str]:
    """The reference's listing, and what it did."""
    try:
        return tokenizer.reference_listing(folder, route, None), "by itself"
    except NotImplementedError:
        return tokenizer.reference_listing(folder, route, own_pre), "unknown to it"
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".replace(str(folder) + "/", "").replace(str(folder), "the folder")
        return None, f"fails: {said.splitlines()[0][:90]}"


def own_ids(family: str, folder: Path, packages: Path) -> tuple[str, list[int]] | None:
    """The ids that the model's own library gives, where that is not the tokenizers library."""
    text = checked_text().decode()
    if family in ("llama3-tiktoken", "llama4-tiktoken"):
        import tiktoken
        from tiktoken.load import load_tiktoken_bpe
        split = tokenizer.LLAMA3_SPLIT if family == "llama3-tiktoken" else LLAMA4_SPLIT
        ranks = load_tiktoken_bpe(str(folder / "tokenizer.model"))
        encoding = tiktoken.Encoding(family, pat_str=split, mergeable_ranks=ranks, special_tokens={})
        return "tiktoken", encoding.encode_ordinary(text)
    if family == "qwen1":
        return "tiktoken, after NFC", tokenizer.Tiktoken(folder).encode(unicodedata.normalize("NFC", text))
    if family == "rwkv-world":
        wheel = next((packages / "pypi").glob("rwkv-*.whl"))
        sys.path.insert(0, str(wheel))
        from rwkv.rwkv_tokenizer import TRIE_TOKENIZER
        return "rwkv", TRIE_TOKENIZER(str(folder / "rwkv_vocab_v20230424.txt")).encodeBytes(bytes_text())
    if family.startswith("mistral-v"):
        from sentencepiece import SentencePieceProcessor
        model = next(path for path in folder.iterdir() if path.name.startswith("tokenizer.model"))
        return "sentencepiece", SentencePieceProcessor(model_file=str(model)).encode(bytes_text())
    if family.startswith("tekken"):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
        return "mistral-common", Tekkenizer.from_file(str(folder / "tekken.json")).encode(text, bos=False, eos=False)
    return None


def make(ctx) -> None:
    packages, out = ctx.input("packages"), ctx.golden / "tokenizer" / "real.tsv"
    logging.disable(logging.WARNING)
    rows = {}
    if out.is_file():
        lines = (line for line in out.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
        rows = {line.split("\t")[0]: line for line in lines}
    for family in ctx.only or [*NPM, *PYPI]:
        fetch(family, packages)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            route, origin, licence = lay(family, packages, folder)
            ran = subprocess.run([ctx.input("ours"), folder, route], capture_output=True, text=True)
            ours = [json.loads(line) for line in ran.stdout.splitlines()] if ran.returncode == 0 else []
            theirs, did = reference(folder, route, next((v for k, _, v in ours if k == "tokenizer.ggml.pre"), None))
            keys = digest_of_keys(family, theirs) if theirs else "-"
            found = own_ids(family, folder, packages)
            library, n_ids, ids = (found[0], str(len(found[1])), digest_of_ids(found[1])) if found else ("-", "-", "-")
            rows[family] = "\t".join([family, origin, licence, digest_of(folder), route, did, keys, library, n_ids,
                ids])
            differing = [a[0] for a, b in zip(ours, theirs or []) if a != b] + ["length"] * bool(theirs
                and len(ours) != len(theirs))
            print(family, did, "keys differing:", differing if theirs else "nothing to compare",
                ran.stderr.strip()[-200:] if ran.returncode else "", flush=True)
        head = "# family\torigin\tlicence of the model\tsha256 of the first file\troute\tthe reference\tsha256 of its keys\tlibrary\tids\tsha256 of ids"
        out.write_text("\n".join([head, *(rows[f] for f in [*NPM, *PYPI] if f in rows)]) + "\n", encoding="utf-8")

