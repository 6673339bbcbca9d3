"""Makes crates/tokenizer/src/pre/expressions.txt: takes llama.cpp's table of pre-tokenizers out of
src/llama-vocab.cpp, one JSON object a line.

Names that share a type share a line: names, the expressions by which llama.cpp splits, whether
words that are tokens are taken whole, whether words are spelled in the byte alphabet.
"""

import json
import re


def make(ctx):
    source = (ctx.reference / "src/llama-vocab.cpp").read_text(encoding="utf-8")
    body = source[source.index("llm_tokenizer_bpe(const llama_vocab & vocab)"):source.index("struct llm_tokenizer_bpe_session")]
    body = "\n".join(line for line in body.splitlines() if not line.strip().startswith("//"))
    splits, byte_level = {}, {}
    for block in re.split(r"break;", body):
        labels = re.findall(r"case LLAMA_VOCAB_PRE_TYPE_(\w+):",
            block) + (["DEFAULT"] if re.search(r"\bdefault:", block) else [])
        if not labels:
            continue
        literals = re.findall(r'^\s*"((?:[^"\\]|\\.)*)"', block, re.M)
        unescape = lambda text: re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), text)
        for label in labels:
            splits[label] = [unescape(text) for text in literals]
            byte_level[label] = "byte_encode = false" not in block

    loader = source[source.index("if (tokenizer_pre.empty())"):source.index("unknown pre-tokenizer type")]
    rows, lines = {}, []
    for block in re.split(r"\} else if \(|\} else \{", loader):
        names, kind = re.findall(r'tokenizer_pre == "([^"]+)"',
            block), re.search(r"pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+);", block)
        if names and kind:
            merges = "ignore_merges = true" in block
            rows.setdefault((kind[1], merges), []).extend(names)
    lines.append("# Every tokenizer.ggml.pre that llama.cpp loads, with what it does; made by scripts/golden/pre_expressions.py")
    lines.append("# from src/llama-vocab.cpp of llama.cpp build 11549.")
    for (kind, merges), names in rows.items():
        lines.append(json.dumps(dict(names=names, splits=splits.get(kind, splits["DEFAULT"]), ignore_merges=merges,
                              byte_level=byte_level.get(kind, True)), ensure_ascii=False))
    out = ctx.golden.parent / "crates/tokenizer/src/pre/expressions.txt"
    # Rows of names that this tree lacks stay: they follow a newer one.
    known = {name for names in rows.values() for name in names}
    lines += [line for line in out.read_text(encoding="utf-8").splitlines() if line.startswith("{")
        and not known & set(json.loads(line)["names"])]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
