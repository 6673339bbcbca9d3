#!/usr/bin/env python3
"""Renders every template with every conversation as transformers does; run by scripts/check-templates.

usage: render.py CASES.json

Prints a line of JSON for each pair: template, conversation, whether it rendered, and the prompt or the error.
"""

import datetime
import json
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils import chat_template_utils

if (transformers.__version__, jinja2.__version__) != ("5.24.0", "3.1.6"):
    sys.exit(f"transformers {transformers.__version__} and jinja2 {jinja2.__version__}, expected 5.24.0 and 3.1.6")


class FixedDay(datetime.datetime):
    """1 January 2026, the date that this project renders with."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 1)


chat_template_utils.datetime = FixedDay
cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for name, template in cases["templates"].items():
    for chat_name, chat in cases["chats"].items():
        # As `apply_chat_template` of a tokenizer with these special tokens.
        variables = {"bos_token": "<s>", "eos_token": "</s>", **chat["kwargs"]}
        try:
            messages = chat_template_utils._normalize_chat_messages(chat["messages"])
            rendered, _ = chat_template_utils.render_jinja_template(
                conversations=[messages], tools=chat["tools"], chat_template=template,
                add_generation_prompt=chat["add_generation_prompt"], **variables)
            outcome = [True, rendered[0]]
        except Exception as error:  # A template may raise anything.
            outcome = [False, f"{type(error).__name__}: {error}"]
        print(json.dumps([name, chat_name, *outcome]))
