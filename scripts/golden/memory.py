"""Makes golden/memory/: headers of models as wide as real ones, and the memory that libllama says they take.

Needs a C++ compiler. A header has the keys and tensors of a few layers of each kind; its data are a hole, which libllama never
reads (`no_alloc`), so that whole widths cost nothing. Headers are MEMORY of the
families' golden.py. NAME.head is the file up to its data; expected.json has for each header and
use the buffers that libllama prints, in MiB as it prints them.
"""

import json
import math
import re
import subprocess

import numpy as np

PROGRAM = r"""
#include "llama.h"
#include <cstdio>
#include <cstdlib>

// FILE N_CTX N_SEQ KV_TYPE ALL_LOGITS
int main(int argc, char ** argv) {
    llama_log_set([](ggml_log_level, const char * text, void *) { fputs(text, stderr); }, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.no_alloc = true;
    model_params.load_mode = LLAMA_LOAD_MODE_NONE;
    // Weights in other orders are for single CPUs, and would be counted twice.
    model_params.use_extra_bufts = false;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = atoi(argv[2]);
    params.n_seq_max = atoi(argv[3]);
    params.type_k = params.type_v = (ggml_type) atoi(argv[4]);
    params.n_outputs_max = atoi(argv[5]) ? 0 : params.n_seq_max;
    params.swa_full = false;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) return 2;
    llama_free(context);
    llama_model_free(model);
    return 0;
}
"""

# (context of each sequence, sequences, type of keys and values, whether all logits are wanted)
USES = [(4096, 1, "f16", False), (32768, 1, "f16", False), (32768, 1, "q8_0", False), (8192, 4, "f16", False),
        (1000, 1, "f16", False), (4096, 1, "f16", True)]
TYPES = {"f16": 1, "q8_0": 8}


def write(header, path):
    """The file, its data a hole; where these begin."""
    import gguf
    writer = gguf.GGUFWriter(path, header.arch)
    for key, value in header.keys.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}[type(value)]
        add(f"{header.arch}.{key}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    for name, dims in header.tensors:
        # Matrices as F16; vectors, and what is multiplied element by element, as F32.
        is_vector = len(dims) == 1 or re.search(r"ssm_(a|d|norm|conv1d)|shortconv.conv|lerp_fused|_exps.bias", name)
        dtype = gguf.GGMLQuantizationType.F32 if is_vector else gguf.GGMLQuantizationType.F16
        n_bytes = (4 if is_vector else 2) * math.prod(dims)
        writer.add_tensor_info(name, tuple(reversed(dims)), np.dtype("float32"), n_bytes, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    out = writer.fout[0]
    out.flush()
    at = out.tell()
    start = -(-at // 32) * 32
    end = start + sum(-(-info.nbytes // 32) * 32 for info in writer.tensors[0].values())
    out.truncate(end)
    writer.close()
    return at


def measure(program, path, context, n_seq, kv_type, all_logits):
    """The buffers that the library prints."""
    args = [context * n_seq, n_seq, TYPES[kv_type], int(all_logits)]
    ran = subprocess.run([program, path, *map(str, args)], capture_output=True, text=True)
    if ran.returncode:
        raise ValueError(f"libllama fails ({ran.returncode}): {ran.stderr[-2000:]}")
    # Where nothing is allocated, buffers of caches are empty, and a line below says what they would take.
    kinds = {"llama_kv_cache: size": "kv", "llama_memory_recurrent: size": "states", "compute buffer size": "compute",
             " output buffer size": "output"}
    buffers = dict.fromkeys(kinds.values(), 0.0)
    for kind, size in re.findall(f"({'|'.join(kinds)}) = +([0-9.]+) MiB", ran.stderr):
        # There are two caches where some layers have windows.
        buffers[kinds[kind]] = round(buffers[kinds[kind]] + float(size), 2)
    return buffers


def make(ctx):
    from families import MEMORY
    from logits_reference import build_program
    program = build_program(PROGRAM, ctx.reference, ctx.libraries, ctx.scratch)
    folder = ctx.golden / "memory"
    folder.mkdir(exist_ok=True)
    path = folder / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for name, make_header in MEMORY.items():
        if not ctx.wants(name):
            continue
        file = ctx.scratch / f"{name}.gguf"
        at = write(make_header(), file)
        with open(file, "rb") as opened:
            (folder / f"{name}.head").write_bytes(opened.read(at))
        uses = []
        for context, n_seq, kv_type, all_logits in USES:
            buffers = measure(program, file, context, n_seq, kv_type, all_logits)
            uses.append({"context": context, "parallel": n_seq, "kv_type": kv_type, "all_logits": all_logits} | buffers)
        expected[name] = {"file_bytes": file.stat().st_size, "uses": uses}
        file.unlink()
    path.write_text(json.dumps(dict(sorted(expected.items())), indent=1) + "\n")
