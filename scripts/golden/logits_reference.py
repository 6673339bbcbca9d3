"""Makes those files of golden/logits/ whose checkpoints transformers has no class for: what libllama predicts.

Needs a C++ compiler and what arch.py needs. Tokens, positions and files are those of logits.py. Weights and caches
are f32 and flash attention is off, so that the library rounds nothing on the way.
"""

import json
import os
import subprocess

import numpy as np

PROGRAM = r"""
#include "llama.h"
#include <cstdio>
#include <cstdlib>

int main(int argc, char ** argv) {
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = 128;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.n_threads = params.n_threads_batch = 1;
    params.swa_full = true;
    // Encoders have no logits: rows of the last layer are written.
    const bool is_hidden = getenv("HIDDEN") != nullptr;
    params.embeddings = is_hidden;
    if (is_hidden) params.pooling_type = LLAMA_POOLING_TYPE_NONE;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) return 2;
    const int n = argc - 2;
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int i = 0; i < n; ++i) {
        batch.token[i] = atoi(argv[2 + i]);
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = true;
    }
    if (llama_decode(context, batch)) return 3;
    const size_t width = is_hidden ? llama_model_n_embd(model) : llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < n; ++i) {
        const float * row = is_hidden ? llama_get_embeddings_ith(context, i) : llama_get_logits_ith(context, i);
        if (!row || fwrite(row, sizeof(float), width, stdout) != width) return 4;
    }
    return 0;
}
"""


def build_program(text, reference, library, scratch, headers=(), libraries=()):
    """Compiles a program with libllama. `headers` are further include folders of the tree, `libraries` further linker options."""
    (scratch / "run.cpp").write_text(text)
    includes = [f"-I{reference / part}" for part in ("include", "ggml/include", *headers)]
    subprocess.run(["c++", "-O1", *includes, scratch / "run.cpp", "-o", scratch / "run", f"-L{library.resolve()}",
                    *libraries, "-lllama",
                    "-lggml", "-lggml-base", f"-Wl,-rpath,{library.resolve()}"], check=True)
    return scratch / "run"


def build(reference, library, scratch):
    """The program of this file, compiled."""
    return build_program(PROGRAM, reference, library, scratch)


def predict(program, path, tokens, is_hidden=False):
    """(tokens, n_vocab) in f32, or rows of the last layer."""
    environment = os.environ | ({"HIDDEN": "1"} if is_hidden else {})
    ran = subprocess.run([program, path, *map(str, tokens)], capture_output=True, env=environment)
    if ran.returncode:
        raise ValueError(f"libllama fails ({ran.returncode}): {ran.stderr.decode().strip()[:300]}")
    logits = np.frombuffer(ran.stdout, "<f4").reshape(len(tokens), -1)
    assert np.isfinite(logits).all()
    return logits


def spell(folder, spelled):
    """Changes a copy of a checkpoint to a spelling that the reference reads."""
    from safetensors.torch import load_file, save_file
    path, weights = folder / "config.json", folder / "model.safetensors"
    config, tensors = spelled(json.loads(path.read_text()), load_file(weights))
    path.write_text(json.dumps(config))
    save_file(tensors, weights, metadata={"format": "pt"})


def make(ctx):
    """With `--input ahead=1` the recipes that need a newer tree than the pinned one are made, by default all others."""
    import arch
    from families import CHECKPOINTS, LOGITS
    from predictions import tokens_of, write
    program = build(ctx.reference, ctx.libraries, ctx.scratch)
    names = [name for name, special in LOGITS.items() if special and special.get("by") == "reference"]
    names = [name for name in names if CHECKPOINTS[name].get("ahead", False) == ("ahead" in ctx.inputs)]
    for name in filter(ctx.wants, names):
        folder, spec = ctx.checkpoint(name), CHECKPOINTS[name]
        pre = json.loads((ctx.golden / "arch" / name / "expected.json").read_text())["pre"]
        copy = arch.for_reference(folder, spec, ctx.scratch / "for-reference")
        if "spelled" in LOGITS[name]:
            spell(copy, LOGITS[name]["spelled"])
        path = arch.convert(copy, ctx.scratch, "f32", pre, spec)
        tokens = tokens_of(json.loads((folder / "config.json").read_text()))
        is_hidden = LOGITS[name].get("hidden", False)
        rows = predict(program, path, tokens, is_hidden)
        write(ctx.golden / "logits", name, tokens, rows, {"hidden": True} if is_hidden else {})
