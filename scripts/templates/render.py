#!/usr/bin/env python3
"""Renders every template with every conversation as transformers does; run by scripts/check-templates.

usage: render.py CASES.json

Prints a line of JSON for each pair: template, conversation, whether it rendered, and the prompt or the error. Arguments of
tool calls that are text have a second prompt, in which they are objects.
"""

import copy
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


def with_objects(messages):
    """The messages with arguments of calls as objects."""
    messages = copy.deepcopy(messages)
    for call in (call for message in messages for call in message.get("tool_calls") or []):
        function = call.get("function", call)
        if isinstance(function.get("arguments"), str):
            function["arguments"] = json.loads(function["arguments"])
    return messages


def prompt(template, messages, chat, variables):
    """True and the prompt, or false and the error."""
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[chat_template_utils._normalize_chat_messages(messages)], tools=chat["tools"], chat_template=template,
            add_generation_prompt=chat["add_generation_prompt"], **variables)
        return True, rendered[0]
    except Exception as error:  # A template may raise anything.
        return False, f"{type(error).__name__}: {error}"


chat_template_utils.datetime = FixedDay
cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for name, template in cases["templates"].items():
    for chat_name, chat in cases["chats"].items():
        # As `apply_chat_template` of a tokenizer with these special tokens.
        variables = {"bos_token": "<s>", "eos_token": "</s>", **chat["kwargs"]}
        messages = [chat["messages"]]
        # Servers also parse arguments that are text, so both prompts are right.
        if (parsed := with_objects(chat["messages"])) != chat["messages"]:
            messages.append(parsed)
        outcomes = [prompt(template, given, chat, variables) for given in messages]
        made = [text for renders, text in outcomes if renders]
        print(json.dumps([name, chat_name, bool(made), *(made or [outcomes[0][1]])]))
