"""Makes golden/tokenizer/rwkv-template.json: dialogs as the reference's template for RWKV World writes them.

The reference's converter puts models/templates/llama-cpp-rwkv-world.jinja into files of models
that have no template. Ours has other words; what it makes of dialogs must be the same.
"""

import json

from jinja2.sandbox import ImmutableSandboxedEnvironment

DIALOGS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "  Hello there \n"), ("assistant", " Hi.\n"), ("user", "Why?")],
    [("user", "1 + 1?"), ("assistant", "<think>\nTwo?\n</think>\n\nTwo."), ("user", "Sure?")],
    [("system", "one"), ("user", "a"), ("system", "two"), ("assistant", ""), ("tool", "x"), ("user", "b")],
    [],
]


def make(ctx) -> None:
    source = (ctx.reference / "models/templates/llama-cpp-rwkv-world.jinja").read_text(encoding="utf-8")
    # As transformers sets it up; the thinking flags are left undefined.
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    cases = []
    for dialog in DIALOGS:
        messages = [dict(role=role, content=content) for role, content in dialog]
        cases.append(dict(messages=dialog, prompt=template.render(messages=messages, add_generation_prompt=True,
            bos_token="<s>", eos_token="<s>")))
    (ctx.golden / "tokenizer" / "rwkv-template.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False)
        + "\n", encoding="utf-8")
