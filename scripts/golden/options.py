"""Makes golden/options: every option of the reference's programs, a line each: its spellings, and VALUE if it takes one.

llama-imatrix and llama-perplexity list theirs with --help; llama-quantize, llama-gguf-split and convert_hf_to_gguf.py are
read as they parse them, since a usage text may leave one out.
"""

import re
import subprocess


def of_help(text: str) -> list[str]:
    """Lines as `-t,    --threads N       words`: spellings, divided by commas, then a value, then two spaces or the end."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("-") or line.startswith("----- "):
            continue
        head = re.split(r"\s{2,}", re.sub(r",\s+(?=-)", ",", line))[0]
        spellings, _, value = head.partition(" ")
        lines.append(" ".join([*spellings.split(","), *(["VALUE"] if value else [])]))
    return lines


def of_c(text: str, compared: str, takes_value: str) -> list[str]:
    """A chain of `if`s: each branch compares the argument with spellings; one that has a value reads the next argument."""
    branches = re.split(compared, text)
    lines = []
    for test, body in zip(branches[1::2], branches[2::2]):
        spellings = re.findall(r'"(--?[a-z-]+)"', test)
        lines.append(" ".join([*spellings, *(["VALUE"] if takes_value in body else [])]))
    return lines


def of_argparse(text: str) -> list[str]:
    lines = []
    for call in re.findall(r"add_argument\((.*?)\n    \)", text, re.S):
        spellings = re.findall(r'"(--?[a-z0-9-]+)"', call.split("help=")[0])
        if spellings:
            lines.append(" ".join([*spellings, *([] if "store_true" in call else ["VALUE"])]))
    return lines


def make(ctx):
    tools = ctx.reference / "tools"
    quantize = (tools / "quantize/quantize.cpp").read_text()
    quantize = quantize[quantize.index("int llama_quantize(int argc"):quantize.index("bad arguments")]
    split = (tools / "gguf-split/gguf-split.cpp").read_text()
    split = split[split.index("static void split_params_parse_ex"):split.index("if (!arg_found)")]
    found = {
        "convert_hf_to_gguf.py": of_argparse((ctx.reference / "convert_hf_to_gguf.py").read_text()),
        "llama-quantize": ["--help"] + of_c(quantize, r'if (\(strcmp\(argv\[arg_idx\], .*?\) == 0\)) \{', "++arg_idx"),
        "llama-gguf-split": of_c(split, r'if (\(arg == .*?\)) \{', "++arg_idx"),
    }
    for name in ("llama-imatrix", "llama-perplexity"):
        done = subprocess.run([ctx.program(name), "--help"], capture_output=True, text=True, check=True,
            env={"LD_LIBRARY_PATH": str(ctx.libraries)})
        found[name] = of_help(done.stdout)
    folder = ctx.golden / "options"
    folder.mkdir(exist_ok=True)
    for name, lines in found.items():
        if ctx.wants(name):
            assert len(lines) == len(set(lines)) > 5, (name, lines)
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
