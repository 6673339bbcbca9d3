"""Makes golden/loading/damaged.tsv: files with one damaged key or tensor, and the verdict of llama.cpp's loader on each.

Needs a C++ compiler and the input `convert`, a built gguf-convert, which makes files of the checkpoints of golden/arch; their
bytes are those of the reference's converter. A line has the checkpoint, the damage and the verdict: `loads`, or the message with
which libllama refuses the file. The kinds of damage are

  unset KEY                   set KEY TYPE JSON             cut KEY LENGTH       drop TENSOR
  rename TENSOR NAME          shape TENSOR DIMS             type TENSOR TYPE     add TENSOR DIMS TYPE

with lists of a type as [TYPE], and dimensions separated by commas, row length first. `scripts/loader-agreement` uses the same
code for larger samples.
"""

import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from logits_reference import build_program

PROGRAM = r"""
#include "llama.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

static void print_errors(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stdout);
}

// Loads each file of the command line in a process of its own, as some files end it. Prints `FILE <path>`, the errors, and
// `LOADS`, `REFUSES`, `DIES` or `NO CONTEXT`.
int main(int argc, char ** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        printf("\nFILE %s\n", argv[i]);
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            dup2(1, 2);
            llama_log_set(print_errors, nullptr);
            llama_backend_init();
            llama_model * model = llama_model_load_from_file(argv[i], llama_model_default_params());
            if (!model) { printf("\nREFUSES\n"); fflush(stdout); _exit(0); }
            printf("\nLOADS\n");
            fflush(stdout);
            llama_context_params params = llama_context_default_params();
            params.n_ctx = 64;
            params.n_batch = params.n_ubatch = 32;
            params.n_threads = params.n_threads_batch = 1;
            if (!llama_init_from_model(model, params)) { printf("\nNO CONTEXT\n"); fflush(stdout); }
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status)) printf("\nDIES %d\n", WTERMSIG(status));
    }
}
"""

# Value types of GGUF by number, and how struct packs those of a fixed size.
VALUE_TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"]
PACKED = dict(u8="B", i8="b", u16="H", i16="h", u32="I", i32="i", f32="f", bool="?", u64="Q", i64="q", f64="d")
# Types of tensors: number, elements and bytes of a block.
TENSOR_TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q5_0": (6, 32, 22), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144),
                "q6_k": (14, 256, 210), "i8": (24, 1, 1), "i32": (26, 1, 4), "f64": (28, 1, 8), "bf16": (30, 1, 2),
                "mxfp4": (39, 32, 17)}
TYPE_NAMES = {number: name for name, (number, _, _) in TENSOR_TYPES.items()}


@dataclass
class Header:
    """Keys and tensors of a file: (type, value) by key; (dimensions, row length first; type) by name."""
    keys: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)


def read_header(path):
    data, at = Path(path).read_bytes(), 24
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)

    def number(kind):
        nonlocal at
        value, = struct.unpack_from("<" + PACKED[kind], data, at)
        at += struct.calcsize("<" + PACKED[kind])
        return value

    def text():
        nonlocal at
        n = number("u64")
        at += n
        return data[at - n:at].decode("utf-8", "surrogateescape")

    def value(kind):
        return text() if kind == "str" else number(kind)

    header = Header()
    for _ in range(n_keys):
        key, kind = text(), VALUE_TYPES[number("u32")]
        if kind != "arr":
            header.keys[key] = (kind, value(kind))
            continue
        inner = VALUE_TYPES[number("u32")]
        header.keys[key] = (f"[{inner}]", [value(inner) for _ in range(number("u64"))])
    for _ in range(n_tensors):
        name = text()
        dims = [number("u64") for _ in range(number("u32"))]
        header.tensors[name] = (dims, TYPE_NAMES.get(number("u32"), "f32"))
        number("u64")
    return header


def write_file(header, path):
    """The file, with a hole for its data: a loader does not look at values."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(header.tensors), len(header.keys)))

    def text(value):
        raw = value.encode("utf-8", "surrogateescape")
        out.extend(struct.pack("<Q", len(raw)) + raw)

    def write(kind, value):
        text(value) if kind == "str" else out.extend(struct.pack("<" + PACKED[kind], value))

    for key, (kind, value) in header.keys.items():
        text(key)
        if kind.startswith("["):
            inner = kind[1:-1]
            out.extend(struct.pack("<IIQ", 9, VALUE_TYPES.index(inner), len(value)))
            for element in value:
                write(inner, element)
        else:
            out.extend(struct.pack("<I", VALUE_TYPES.index(kind)))
            write(kind, value)
    offset = 0
    for name, (dims, kind) in header.tensors.items():
        number, n_elements, n_bytes = TENSOR_TYPES[kind]
        text(name)
        out.extend(struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset))
        offset += -(-math.prod(dims) // n_elements * n_bytes // 32) * 32
    with open(path, "wb") as file:
        file.write(out)
        file.truncate(-(-len(out) // 32) * 32 + offset)


def damaged(header, damage):
    """The header after the damage that a line describes."""
    word, name, rest = (damage.split(" ", 2) + [""])[:3]
    keys, tensors = dict(header.keys), dict(header.tensors)
    numbers = lambda text: [int(number) for number in text.split(",")]
    if word == "unset":
        del keys[name]
    elif word == "set":
        kind, value = rest.split(" ", 1)
        keys[name] = (kind, json.loads(value))
    elif word == "cut":
        keys[name] = (keys[name][0], keys[name][1][:int(rest)])
    elif word == "drop":
        del tensors[name]
    elif word == "rename":
        tensors = {rest if key == name else key: value for key, value in tensors.items()}
    elif word == "shape":
        tensors[name] = (numbers(rest), tensors[name][1])
    elif word == "type":
        tensors[name] = (tensors[name][0], rest)
    else:
        dims, kind = rest.split(" ")
        tensors[name] = (numbers(dims), kind)
    return replace(header, keys=keys, tensors=tensors)


# ------------------------------------------------------------------------------------------------------------ choice of damage

SHORT = 16  # Longer lists, such as those of tokens, are only cut, so that a line stays short.


def other_type(rng, kind, value):
    """A value of another type that means the same, or a list of it."""
    if kind.startswith("["):
        inner = kind[1:-1]
        if inner in ("str", "bool"):
            return "str", "none"
        return ("[f32]" if inner != "f32" else "[i32]"), [(float if inner != "f32" else int)(element) for element in value]
    numeric = ["u16", "u32", "i32", "u64", "i64", "f32", "str", "[u32]", "[i32]", "bool"]
    to = rng.choice([other for other in numeric if other != kind])
    as_int = lambda: int(value) if isinstance(value, (int, float, bool)) else 1
    clipped = max(0, min(as_int(), 30000))
    return to, {"f32": float(clipped), "str": str(value), "bool": bool(clipped), "[u32]": [clipped], "[i32]": [clipped]}.get(to, clipped)


def other_value(rng, kind, value):
    if kind == "bool":
        return not value
    if kind == "str":
        return rng.choice(["", "none", value + "x", "yarn", "gpt2", "llama"])
    if kind in ("f32", "f64"):
        return rng.choice([0.0, -1.0, value * 2, value / 2, 1e30])
    if value == 0:
        return rng.choice([1, 2, 7])
    choices = [0, 1, value + 1, max(value - 1, 0), value * 2, value // 2, 3, 4096]
    if kind.startswith("i"):
        choices.append(-1)
    return rng.choice([other for other in choices if other != value])


def choose_key(rng, header):
    """Mostly keys of the architecture."""
    architecture = str(header.keys.get("general.architecture", ("", ""))[1])
    own = [key for key in header.keys if key.startswith(architecture + ".")]
    vocabulary = [key for key in header.keys if key.startswith("tokenizer.")]
    draw = rng.random()
    group = own if draw < 0.75 and own else vocabulary if draw < 0.92 and vocabulary else list(header.keys)
    return rng.choice(group)


def choose_damage(rng, header, others):
    """One damage of a header; `others` are headers that lend keys and tensors. None if the kind that was drawn is impossible."""
    kind = rng.choice(["unset", "type of key", "value", "value", "length", "foreign key", "drop", "drop", "rename", "shape", "shape", "type",
                       "add", "foreign tensor"])
    if kind in ("unset", "type of key", "value", "length"):
        key = choose_key(rng, header)
        of, value = header.keys[key]
        if kind == "unset":
            return f"unset {key}"
        if kind != "type of key" and isinstance(value, list) and len(value) > SHORT:
            return f"cut {key} {rng.choice([0, 1, len(value) // 2, len(value) - 1])}"
        if kind == "type of key":
            of, value = other_type(rng, of, value)
        elif of.startswith("["):
            if kind == "value" and value and of != "[str]":
                at = rng.randrange(len(value))
                value = [other_value(rng, of[1:-1], element) if i == at else element for i, element in enumerate(value)]
            else:
                value = rng.choice([value[:-1], value + value[-1:], value[:1], []])
        elif kind == "value":
            value = other_value(rng, of, value)
        elif of in ("u32", "i32", "f32", "bool"):
            n_layers = next((value for key, (_, value) in header.keys.items() if key.endswith(".block_count")), 2)
            of, value = f"[{of}]", [value] * max(0, rng.choice([n_layers, n_layers, n_layers - 1, n_layers + 1]))
        else:
            return None
        if isinstance(value, list) and len(value) > SHORT:
            value = value[:SHORT]
        return f"set {key} {of} {json.dumps(value)}"
    if kind == "foreign key":
        architecture, other = header.keys["general.architecture"][1], rng.choice(others)
        key, (of, value) = rng.choice(list(other.keys.items()))
        key = key.replace(f"{other.keys['general.architecture'][1]}.", f"{architecture}.", 1)
        if key in header.keys or isinstance(value, list) and len(value) > SHORT or key == "general.type":
            return None
        return f"set {key} {of} {json.dumps(value)}"
    name = rng.choice(list(header.tensors))
    dims, of = header.tensors[name]
    if kind == "drop":
        return f"drop {name}"
    if kind == "rename":
        new = rng.choice([name + "x", name.replace(".weight", ".bias"), name.replace("blk.0.", "blk.1."), name.replace("attn", "ffn"), "x." + name])
        return f"rename {name} {new}" if new not in header.tensors else None
    if kind == "shape":
        at = rng.randrange(len(dims))
        new = list(dims)
        change = rng.choice(["more", "half", "double", "swap", "flat", "one"])
        if change in ("more", "half", "double"):
            new[at] = {"more": dims[at] + 1, "half": dims[at] // 2, "double": dims[at] * 2}[change]
        elif change == "swap":
            new.reverse()
        else:
            new = [math.prod(dims)] if change == "flat" and len(dims) > 1 else [*dims, 1]
        if of not in ("f32", "f16", "bf16") or new == dims or 0 in new or len(new) > 4:
            return None
        return f"shape {name} {','.join(map(str, new))}"
    if kind == "type":
        fits = [other for other, (_, block, _) in TENSOR_TYPES.items() if other != of and dims[0] % block == 0]
        return f"type {name} {rng.choice(fits)}"
    if kind == "add":
        new = rng.choice([name.replace(".weight", ".bias"), name.replace(".weight", ".scale"), name.replace("blk.0.", "blk.9."), "extra.weight",
                          "rope_freqs.weight", "output.weight", "output.bias", "token_embd_norm.weight"])
        if new in header.tensors:
            return None
        dims = dims[1:2] if new.endswith(".bias") and len(dims) > 1 else [1] if new.endswith(".scale") else dims
        return f"add {new} {','.join(map(str, dims))} {'f32' if len(dims) == 1 else of}"
    new, (dims, of) = rng.choice(list(rng.choice(others).tensors.items()))
    return f"add {new} {','.join(map(str, dims))} {of}" if new not in header.tensors else None


def choose(headers, seed, count):
    """`count` pairs of a name in `headers` and a damage, each once; architectures are drawn evenly."""
    rng, by_architecture, chosen = random.Random(seed), {}, {}
    for name, header in headers.items():
        by_architecture.setdefault(header.keys["general.architecture"][1], []).append(name)
    names, others = sorted(by_architecture), list(headers.values())
    while len(chosen) < count:
        name = rng.choice(by_architecture[rng.choice(names)])
        damage = choose_damage(rng, headers[name], others)
        if damage and damaged(headers[name], damage) != headers[name]:
            chosen[name, damage] = None
    return list(chosen)


def seeds(ctx, folder):
    """Files of the checkpoints of golden/arch that convert, by name. Existing files are kept."""
    import checkpoint
    folder.mkdir(parents=True, exist_ok=True)
    for name in ctx.checkpoint_names():
        if not (folder / f"{name}.gguf").exists():
            whole = checkpoint.whole(name, ctx.golden, ctx.scratch / "arch")
            command = [ctx.inputs["convert"], whole, folder / f"{name}.gguf", "--type", "f16", "--quiet"]
            expected = json.loads((ctx.golden / "arch" / name / "expected.json").read_text())
            if "target" in expected:
                command += ["--target-model-dir", checkpoint.whole(expected["target"], ctx.golden, ctx.scratch / "targets")]
            subprocess.run(command, stderr=subprocess.DEVNULL)
            shutil.rmtree(whole)
    return {path.stem: path for path in sorted(folder.glob("*.gguf"))}


# ------------------------------------------------------------------------------------------------------------------- verdicts

def build(reference, libraries, scratch):
    """The program of this file, compiled."""
    return build_program(PROGRAM, reference, libraries, scratch)


def reason(text):
    """Verdict of libllama on a file: `loads`, or the reason of the refusal; and the reason why it makes no context, or nothing."""
    before, _, after = text.partition("\nLOADS\n")
    context = "" if "NO CONTEXT" not in after and "DIES" not in after else one_line(after) or "no context"
    if "\nLOADS\n" in text:
        return "loads", context
    return one_line(before) or "dies", ""


def one_line(text):
    found = re.search(r"(?:error loading model(?: \w+)?: |llama_model_load: )(.+)", text) or \
        re.search(r"(GGML_ASSERT\(.*\) failed|fatal error|what\(\): +.*)", text) or re.search(r": ([^\n]+)", text)
    message = found.group(1) if found else text.strip()
    message = re.sub(r"^(error loading model( \w+)?: )+", "", re.sub(r"\s+", " ", message).strip())
    return message[:200]


def verdicts(program, paths):
    """(verdict, why no context) by path."""
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    done = {}
    paths = [str(path) for path in paths]
    for at in range(0, len(paths), 100):
        ran = subprocess.run([program, *paths[at:at + 100]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        for part in ran.stdout.decode("utf-8", "replace").split("\nFILE ")[1:]:
            path, _, rest = part.partition("\n")
            done[path] = reason("\n" + rest)
    return done


# --------------------------------------------------------------------------------------------------------------------- golden

SEED, COUNT = 1, 400


def make(ctx):
    program = build(ctx.reference, ctx.libraries, ctx.scratch)
    made = seeds(ctx, ctx.scratch / "seeds")
    good = verdicts(program, made.values())
    headers = {name: read_header(path) for name, path in made.items() if good[str(path)][0] == "loads"}
    folder, paths, lines = ctx.scratch / "damaged", {}, []
    folder.mkdir()
    for name, damage in choose(headers, SEED, COUNT):
        path = paths[name, damage] = folder / f"{len(paths)}.gguf"
        write_file(damaged(headers[name], damage), path)
    of_damaged = verdicts(program, paths.values())
    for (name, damage), path in sorted(paths.items()):
        lines.append("\t".join((name, damage, of_damaged[str(path)][0])))
    target = ctx.golden / "loading" / "damaged.tsv"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n")
