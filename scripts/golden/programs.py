"""Makes golden/programs and crates/toolkit/src/verify/programs/ollama.json: what programs do with files, by the programs.

Needs Go, transformers and gguf, and as inputs

  ollama    git repository of ollama/ollama
  distance  git repository of agnivade/levenshtein
  packages  folder that scripts/check-templates has filled; the templates of models in it are compared

Three modules of Ollama that detection and rendering do not call (UUIDs, ordered maps, groups of goroutines) are replaced by
stand-ins, so that nothing has to be downloaded. `modelfiles.json` states the Go templates; their prompts are made here.
"""

import importlib.machinery
import importlib.util
import io
import json
import logging
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "fb3076099"
FOLDERS = ["api", "template", "thinking", "types", "internal", "envconfig", "format", "fs", "ml", "logutil", "auth", "version", "server/images.go"]
# Functions of server/images.go, which needs the whole server otherwise.
FUNCTIONS = [
    "appendCapability", "chatTemplateCapabilities", "chatTemplateHasToolSupport", "chatTemplateHasToolRoundTrip",
    "chatTemplateHasThinkingSupport", "goTemplateCapabilities", "goTemplateHasToolRoundTrip", "hasMoreCapabilities", "sameCapabilities",
    "shouldPreferChatTemplate",
]
IMPORTS = ["log/slog", "slices", "strings"] + [f"github.com/ollama/ollama/{name}" for name in ("template", "thinking", "types/model")]
STAND_INS = {
    "github.com/google/uuid": ("", "package uuid\ntype UUID struct{}\nfunc NewString() string { return \"\" }\n"),
    "golang.org/x/sync": ("errgroup", "package errgroup\ntype Group struct{}\nfunc (g *Group) SetLimit(int) {}\n"
        "func (g *Group) Go(f func() error) { f() }\nfunc (g *Group) Wait() error { return nil }\n"),
    "github.com/wk8/go-ordered-map/v2": ("", "package orderedmap\ntype Pair[K comparable, V any] struct { Key K; Value V }\n"
        "func (p *Pair[K, V]) Next() *Pair[K, V] { return nil }\ntype OrderedMap[K comparable, V any] struct{}\n"
        "func New[K comparable, V any]() *OrderedMap[K, V] { return &OrderedMap[K, V]{} }\n"
        "func (m *OrderedMap[K, V]) Get(K) (v V, ok bool) { return }\nfunc (m *OrderedMap[K, V]) Set(K, V) {}\n"
        "func (m *OrderedMap[K, V]) Len() int { return 0 }\nfunc (m *OrderedMap[K, V]) Oldest() *Pair[K, V] { return nil }\n"),
}
CHATS = {
    "user": [("user", "Qvrzuser")],
    "system": [("system", "Qvrzsystem"), ("user", "Qvrzuser")],
    "turns": [("user", "Qvrzuser"), ("assistant", "Qvrzanswer"), ("user", "Qvrznext")],
}
# Longer templates are far from all that Ollama has.
MAX_TEXT = 6100


def line(value) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_rows(path: Path, rows: list) -> None:
    path.write_text("[\n" + ",\n".join(map(line, rows)) + "\n]\n", encoding="utf-8")


def build(ctx) -> tuple[Path, Path]:
    """The program, and Ollama's list of templates."""
    source = ctx.scratch / "ollama"
    archive = subprocess.run(["git", "-C", ctx.inputs["ollama"], "archive", COMMIT, *FOLDERS], check=True, capture_output=True).stdout
    tarfile.open(fileobj=io.BytesIO(archive)).extractall(source)
    # The client needs more modules.
    (source / "api/client.go").unlink()
    images = (source / "server/images.go").read_text()
    functions = [re.search(rf"^func {name}\(.*?^}}\n", images, re.M | re.S).group(0) for name in FUNCTIONS]
    program = source / "cmd/oracle"
    program.mkdir(parents=True)
    (program / "main.go").write_text((ROOT / "scripts/golden/ollama.go").read_text())
    imports = "".join(f'import "{name}"\n' for name in IMPORTS)
    (program / "images.go").write_text("package main\n" + imports + "\n".join(functions))
    distance = subprocess.run(["git", "-C", ctx.inputs["distance"], "show", "v1.1.1:levenshtein.go"], check=True, capture_output=True, text=True)
    modules = STAND_INS | {"github.com/agnivade/levenshtein": ("", distance.stdout)}
    lines = ["module github.com/ollama/ollama", "go 1.26"]
    for index, (name, (package, text)) in enumerate(modules.items()):
        folder = ctx.scratch / f"module{index}"
        (folder / package).mkdir(parents=True)
        (folder / "go.mod").write_text(f"module {name}\ngo 1.20\n")
        (folder / package / "module.go").write_text(text)
        version = "v2.0.0" if name.endswith("/v2") else "v1.0.0"
        lines += [f"require {name} {version}", f"replace {name} => {folder}"]
    (source / "go.mod").write_text("\n".join(lines) + "\n")
    subprocess.run(["go", "build", "-mod=mod", "-o", ctx.scratch / "oracle", "./cmd/oracle"], cwd=source, check=True)
    return ctx.scratch / "oracle", source / "template/index.json"


def transformers_verdicts(scratch: Path) -> dict:
    import gguf
    import numpy as np
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    logging.disable(logging.WARNING)
    names = {"mistral", "umt5", "qwen2_moe", "qwen3_moe", "gpt_oss", "minimax_m2"} | set(gguf.MODEL_ARCH_NAMES.values())
    known, undecoded = [], []
    for name in sorted(names):
        path = scratch / "model.gguf"
        writer = gguf.GGUFWriter(path, arch=name)
        writer.add_name("x")
        writer.add_array(f"{name}.attention.head_count_kv", [1])
        writer.add_tensor("output.weight", np.zeros(32, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        try:
            load_gguf_checkpoint(path)
            known.append(name)
        except ValueError as error:
            assert "is not supported yet" in str(error), error
    types = {kind.value: kind for kind in gguf.GGMLQuantizationType}
    for number in range(43):
        try:
            kind = types[number]
            floats = {"F32": np.float32, "F16": np.float16}.get(kind.name)
            gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8).view(floats or np.uint8), kind)
        except NotImplementedError:
            undecoded.append(number)
        except KeyError:
            # Ids of removed types have no row in the table.
            undecoded += [number] * (number > 40)
    return {"architectures": known, "undecoded": undecoded}


def published(packages: Path) -> dict[str, str]:
    """Templates of models in packages, without those of trainers."""
    loader = importlib.machinery.SourceFileLoader("check_templates", str(ROOT / "scripts/check-templates"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_templates", loader))
    loader.exec_module(module)
    return {name: text for name, text in module.templates(packages, None).items() if name.startswith(("ollama-utils/", "llama.cpp/"))}


def make(ctx):
    program, index = build(ctx)
    scratch, folder = ctx.scratch, ctx.golden / "programs"

    def run(mode: str, *files):
        done = subprocess.run([program, mode, *files], check=True, stdout=subprocess.PIPE)
        return [json.loads(text) for text in done.stdout.decode().splitlines()]

    def given(name: str, value) -> Path:
        path = scratch / name
        path.write_text(json.dumps(value))
        return path

    chats = given("chats.json", {name: [{"role": role, "content": text} for role, text in chat] for name, chat in CHATS.items()})
    facts = {row.pop("name"): row for row in run("known", index, chats)}
    rows = [f"    {line(name)}: {line({'tools': row['tools'], 'prompts': [row['prompts'][chat] for chat in CHATS], 'stop': row['stop']})}" for name, row in facts.items()]
    texts = [f"    {line([row['name'], row['template']])}" for row in json.loads(index.read_text())]
    about = (f"template/index.json of ollama/ollama@{COMMIT} (MIT, Copyright (c) Ollama): chat templates of published models, and prompts that "
        "its package `template` makes")
    known = "{\n" + f'  "source": {line(about)},\n  "names": {{\n' + ",\n".join(rows) + '\n  },\n  "templates": [\n' + ",\n".join(texts) + "\n  ]\n}\n"
    (ROOT / "crates/toolkit/src/verify/programs/ollama.json").write_text(known, encoding="utf-8")
    models = published(Path(ctx.inputs["packages"]))
    found = sorted(run("templates", index, given("templates.json", models)), key=lambda row: row["name"])
    write_rows(folder / "ollama-templates.json", [row | {"text": models[row["name"]]} for row in found if row["ollama"] or len(models[row["name"]]) <= MAX_TEXT])
    translated = json.loads((folder / "modelfiles.json").read_text())
    made = run("render", given("go.json", {index: row["go"] for index, row in enumerate(translated)}), chats)
    for row in made:
        translated[int(row["name"])]["prompts"] = [row["prompts"][chat] for chat in CHATS]
    write_rows(folder / "modelfiles.json", translated)
    verdicts = {"transformers": transformers_verdicts(scratch), "ollama": {"undecoded": run("types")[0]}}
    text = ",\n".join(f"  {line(name)}: {line(value)}" for name, value in verdicts.items())
    (folder / "verdicts.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")
