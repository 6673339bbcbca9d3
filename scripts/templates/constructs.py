#!/usr/bin/env python3
"""Writes what transformers renders of small templates, one for each construct of Jinja.

usage: constructs.py FILE.jsonl

Reads the template of each line (the first item of a list) and writes the line again with the text that transformers 5.24 makes of it,
or null if it fails. A third item, true, marks templates that this project refuses though transformers renders them; it is kept.
The conversation is the one of `crates/runtime/tests/all/templates.rs`.
"""

import json
import sys
from pathlib import Path

from transformers.utils import chat_template_utils

CHAT = [
    {"role": "system", "content": "Be"}, {"role": "user", "content": "Hi <b>"},
    {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "ok"}]


def rendered(template: str) -> str | None:
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[CHAT], tools=None, chat_template=template, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    except Exception:  # A template may raise anything.
        return None
    # Addresses of objects differ from run to run.
    return None if " at 0x" in texts[0] else texts[0]


path = Path(sys.argv[1])
rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
lines = [json.dumps([row[0], rendered(row[0]), *row[2:]], ensure_ascii=False) for row in rows]
path.write_text("\n".join(lines) + "\n", encoding="utf-8")
