"""Makes golden/cli/container-tools.txt: what the reference's tools for containers make of golden/arch/llama in bf16.

Each line: what was done and the digest of the whole file, or the name of a tensor and the digest of its data.

`set`: gguf_set_metadata.py; `new`: gguf_new_metadata.py; `split` and `merge`: llama-gguf-split; `hash`: gguf_hash.py.
"""

import subprocess
import sys

from lib import sha256_of_file

TEMPLATE = "{% for m in messages %}{{ m.content }}\n{% endfor %}"


def make(ctx):
    scripts = ctx.reference / "gguf-py" / "gguf" / "scripts"
    folder, model = ctx.checkpoint("llama"), ctx.scratch / "model.gguf"
    lines = []

    def run(*command):
        return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, cwd=ctx.scratch)

    def done(what, path):
        lines.append(f"{what}\t{sha256_of_file(path)}")

    run(sys.executable, ctx.reference / "convert_hf_to_gguf.py", folder, "--outtype", "bf16", "--outfile", model)
    done("convert", model)
    other = ctx.scratch / "set.gguf"
    other.write_bytes(model.read_bytes())
    run(sys.executable, scripts / "gguf_set_metadata.py", other, "tokenizer.ggml.bos_token_id", "7", "--force")
    run(sys.executable, scripts / "gguf_set_metadata.py", other, "llama.rope.freq_base", "12345.5", "--force")
    done("set", other)
    (ctx.scratch / "template.jinja").write_text(TEMPLATE)
    run(sys.executable, scripts / "gguf_new_metadata.py", model, ctx.scratch / "new.gguf", "--general-name", "Another name",
        "--remove-metadata", "general.size_label", "--chat-template-file", "template.jinja", "--force")
    done("new", ctx.scratch / "new.gguf")
    split = ctx.program("llama-gguf-split")
    run(split, "--split", "--split-max-tensors", "8", model, "by-tensors")
    run(split, "--split", "--split-max-size", "1M", "--no-tensor-first-split", model, "by-size")
    for path in sorted([*ctx.scratch.glob("by-tensors-*.gguf"), *ctx.scratch.glob("by-size-*.gguf")]):
        done(path.name, path)
    hashes = run(sys.executable, scripts / "gguf_hash.py", model).stdout
    for line in hashes.splitlines():
        kind, digest, name = line.split(None, 2)
        if kind == "sha256" and name.startswith(f"{model}:"):
            lines.append(f"{name.removeprefix(f'{model}:')}\t{digest}")
    (ctx.golden / "cli" / "container-tools.txt").write_text("\n".join(lines) + "\n")
