"""Cuts the reference's tokenizer tests down to vocabularies that are small enough to commit.

Of each vocabulary stay: tokens that occur in the texts as the tokenizer spells them (no other
token can come out, nor be a step on the way to one), the byte tokens, and tokens that keys name.
Merges stay where both parts and the result do. Ids are numbered anew, in the texts' expected ids
too; the texts stay as they are. A token that is expected but was cut would be an error.
"""

from pathlib import Path


def byte_alphabet() -> list[str]:
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet, n = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in alphabet:
            alphabet[b], n = chr(256 + n), n + 1
    return [alphabet[b] for b in range(256)]


def make(ctx) -> None:
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    alphabet = byte_alphabet()
    for inp in sorted((ctx.reference / "models").glob("*.gguf.inp")):
        path = inp.with_suffix("")
        reader = GGUFReader(path)
        get = lambda key: reader.fields[key].contents() if key in reader.fields else None  # noqa: E731
        model = get("tokenizer.ggml.model")
        tokens = get("tokenizer.ggml.tokens")
        text = inp.read_bytes().decode()
        if model == "gpt2":
            # Added tokens are as they are.
            spelled = "".join(alphabet[b] for b in text.encode()) + text
        elif model == "bert":
            import unicodedata
            spelled = " ".join(
                "".join(c for c in unicodedata.normalize("NFD", form) if not unicodedata.combining(c))
                for form in (text, text.lower()))
            import re
            words = {*spelled.split(), *re.findall(r"[^\W_]+", spelled), *re.findall(r"[A-Za-z0-9]+", spelled),
                *spelled}
            spelled = "".join("\u2581" + word for word in sorted(words))
        else:
            texts = text.split("\n__ggml_vocab_test__\n")
            spelled = "".join("\u2581" + one.replace(" ", "\u2581") for one in texts) + text
        ids = [int(i) for line in path.with_suffix(".gguf.out").read_text().splitlines() for i in line.split()]
        named = {k: get(k) for k in reader.fields if k.startswith("tokenizer.ggml.") and k.endswith("_id")}
        # Byte tokens stay, spelled in either way.
        always = {*alphabet, *(f"<0x{b:02X}>" for b in range(256)), *(tokens[i] for i in named.values())}
        kept = [i for i, t in enumerate(tokens) if t in always or (t and t in spelled)]
        new = {old: i for i, old in enumerate(kept)}
        cut = sorted(set(ids) - set(new))
        assert not cut, (path.name, [tokens[i] for i in cut])
        writer = GGUFWriter(None, get("general.architecture"))
        for key, field in reader.fields.items():
            if not (key.startswith("tokenizer.ggml.") or key == "general.name"):
                continue
            value = field.contents()
            short = key.rsplit(".", 1)[1]
            if short in ("tokens", "scores", "token_type"):
                if short == "scores" and model in ("gpt2", "gemma4"):
                    continue
                writer.add_array(key, [value[i] for i in kept])
            elif short == "merges":
                have = set(tokens[i] for i in kept)
                parts = ((m, *((m[:m.index(" ", 1)], m[m.index(" ", 1) + 1:]))) for m in value)
                writer.add_array(key, [m for m, a, b in parts if a in have and b in have and a + b in have])
            elif key in named:
                writer.add_uint32(key, new[value])
            else:
                writer.add_key_value(key, value, field.types[0] if field.types[0] != GGUFValueType.ARRAY
                    else field.types[0])
        target = ctx.golden / "tokenizer-pairs" / path.name.replace("ggml-vocab-", "")
        writer.write_header_to_file(target)
        writer.write_kv_data_to_file()
        writer.close()
        Path(f"{target}.inp").write_bytes(inp.read_bytes())
        lines = path.with_suffix(".gguf.out").read_text().splitlines()
        Path(f"{target}.out").write_text("".join(" ".join(str(new[int(i)]) for i in l.split()) + "\n" for l in lines))
        print(target.name, len(tokens), "->", len(kept), target.stat().st_size)

