#!/usr/bin/env python3
"""Makes golden/tokenizer/rwkv-template.json: dialogs as the reference's template for RWKV World writes them.

usage: rwkv_template.py --reference DIR OUT

  --reference DIR   root of the llama.cpp tree
  OUT               golden/tokenizer

The reference's converter puts models/templates/llama-cpp-rwkv-world.jinja into files of models
that have no template. Ours has other words; what it makes of dialogs must be the same.
"""

import argparse
import json
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

DIALOGS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "  Hello there \n"), ("assistant", " Hi.\n"), ("user", "Why?")],
    [("user", "1 + 1?"), ("assistant", "<think>\nTwo?\n</think>\n\nTwo."), ("user", "Sure?")],
    [("system", "one"), ("user", "a"), ("system", "two"), ("assistant", ""), ("tool", "x"), ("user", "b")],
    [],
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    source = (args.reference / "models/templates/llama-cpp-rwkv-world.jinja").read_text(encoding="utf-8")
    # As transformers sets it up; the thinking flags are left undefined.
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    cases = []
    for dialog in DIALOGS:
        messages = [dict(role=role, content=content) for role, content in dialog]
        cases.append(dict(messages=dialog, prompt=template.render(messages=messages, add_generation_prompt=True, bos_token="<s>", eos_token="<s>")))
    (args.out / "rwkv-template.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
