"""Makes golden/lora-logits/: logits of libllama with adapters of golden/lora, applied while the model runs.

Needs what logits_reference.py needs. The base model and its adapters are files that the reference converts; tokens and
positions are those of logits.py. The first line of a file also has the base and the adapters with types and scales.
"""

import json
import subprocess
import sys

from logits_reference import PROGRAM, build_program, predict

# Name, base of the adapter, adapters with their types and scales.
CASES = [
    ("llama", "llama-head-dim", [("llama", "f32", 1.0)]),
    ("llama-twice", "llama-head-dim", [("llama", "f32", -0.5), ("llama", "f32", 2.0)]),
    # Embedding and output matrix have pairs, too.
    ("llama-extracted", "llama-mha", [("llama-extracted", "f32", 1.0)]),
    # Experts and the router.
    ("mixtral", "mixtral-old", [("mixtral", "f32", 1.0)]),
]

# The adapters of the model, from the environment: path and scale in turn.
ADAPTERS = r"""
    std::vector<llama_adapter_lora *> adapters;
    std::vector<float> scales;
    std::istringstream given(getenv("ADAPTERS"));
    for (std::string path, scale; std::getline(given, path) && std::getline(given, scale);) {
        adapters.push_back(llama_adapter_lora_init(model, path.c_str()));
        if (!adapters.back()) return 5;
        scales.push_back(std::stof(scale));
    }
    if (llama_set_adapters_lora(context, adapters.data(), adapters.size(), scales.data())) return 6;
"""


def make(ctx):
    import os

    import arch
    from families import CHECKPOINTS
    from predictions import tokens_of, write
    before, after = PROGRAM.split("    const int n = argc - 2;")
    headers = "#include <sstream>\n#include <string>\n#include <vector>\n"
    program = build_program(headers + before + ADAPTERS + "    const int n = argc - 2;" + after, ctx.reference,
        ctx.libraries, ctx.scratch)
    out = ctx.golden / "lora-logits"
    out.mkdir(exist_ok=True)
    for name, base, adapters in CASES:
        if not ctx.wants(name):
            continue
        folder, spec = ctx.checkpoint(base), CHECKPOINTS[base]
        pre = json.loads((ctx.golden / "arch" / base / "expected.json").read_text())["pre"]
        copy = arch.for_reference(folder, spec, ctx.scratch / "for-reference")
        path = arch.convert(copy, ctx.scratch, "f32", pre, spec)
        lines = []
        for adapter, outtype, scale in adapters:
            file = ctx.scratch / f"{adapter}-{outtype}.gguf"
            subprocess.run([sys.executable, ctx.reference / "convert_lora_to_gguf.py", ctx.golden / "lora" / adapter,
                "--outtype", outtype, "--outfile", file, "--base", folder], check=True, capture_output=True)
            lines += [str(file), str(scale)]
        os.environ["ADAPTERS"] = "\n".join(lines)
        tokens = tokens_of(json.loads((folder / "config.json").read_text()))
        more = dict(base=base, adapters=[list(adapter) for adapter in adapters])
        write(out, name, tokens, predict(program, path, tokens), more)
        print(name)
