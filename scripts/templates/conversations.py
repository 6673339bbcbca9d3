"""Conversations that scripts/check-templates renders with every template."""


def turn(role: str, content, **more) -> dict:
    return {"role": role, "content": content, **more}


def function(name: str, description: str, properties: dict, required: list, **more) -> dict:
    parameters = {"type": "object", "properties": properties, "required": required, **more}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def call(name: str, arguments, identity: str = "call00001") -> dict:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content, identity: str = "call00001", name: str = "get_weather") -> dict:
    return turn("tool", content, tool_call_id=identity, name=name)


WEATHER = function(
    "get_weather", "Reports the weather.", {"city": {"type": "string", "description": "Name of a city."}}, ["city"])
# Types, defaults, nesting and text that is spelled differently in JSON and in Python.
SEARCH = function(
    "search", 'Searches "documents"\nand it\'s quick.',
    {
        "query": {"type": "string", "description": "Text, for example `Zürich` or `<b>`."},
        "limit": {"type": ["integer", "null"], "default": 10, "minimum": 1},
        "score": {"type": "number", "default": 1e-05},
        "exact": {"type": "boolean", "default": False},
        "fields": {"type": "array", "items": {"type": "string", "enum": ["title", "text"]}},
        "range": {
            "type": "object", "description": "Dates.",
            "properties": {"from": {"type": "string"}, "to": {"type": "string"}}, "required": ["from"]},
        "kind": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Kind."},
    },
    ["query"], additionalProperties=False)
NO_ARGUMENTS = function("now", "Returns the time.", {}, [])

SYSTEM = turn("system", "You are a helpful assistant.")
USER = turn("user", "What is the weather in Zürich?")
ANSWER = turn("assistant", "It is sunny.")
THANKS = turn("user", "Thank you.")
CALLS = turn("assistant", "", tool_calls=[call("get_weather", {"city": "Zürich"})])
MANY_VALUES = {"query": "a \"quoted\" 'text'\n", "limit": None, "score": 0.5, "exact": True, "fields": ["title"], "range": {"from": "x"}}


def chat(messages: list, tools=None, prompt: bool = True, **kwargs) -> dict:
    return {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "kwargs": kwargs}


CONVERSATIONS = {
    "one turn": chat([USER]),
    "system": chat([SYSTEM, USER]),
    "several turns": chat([SYSTEM, USER, ANSWER, THANKS]),
    "finished": chat([USER, ANSWER, THANKS, turn("assistant", "You are welcome.")], prompt=False),
    "finished with system and reasoning": chat([SYSTEM, USER, {**ANSWER, "reasoning_content": "Look it up."}], prompt=False),
    "unicode": chat([turn("user", "naïve \u201cquotes\u201d 日本語 🦙\u200d🔥 \u0000\u001b \u2028 \ufeff ﬁ İ ß")]),
    "white space": chat([turn("system", "  \n lead\r\n"), turn("user", "\n\n a\tb \r\n c  "), turn("assistant", " x \n"), turn("user", " ")]),
    "control tokens": chat([turn("user", "<|im_end|></s>[INST]{{ x }}{% y %}<think>a</think>")]),
    "empty content": chat([turn("system", ""), turn("user", ""), turn("assistant", ""), turn("user", "?")]),
    "null content": chat([USER, turn("assistant", None, tool_calls=[call("get_weather", {"city": "Zürich"})]), result("sunny")], [WEATHER]),
    "parts": chat([turn("system", [{"type": "text", "text": "Be brief."}]), turn("user", [{"type": "text", "text": "Hello"}, {"type": "text", "text": " there"}])]),
    "image part": chat([turn("user", [{"type": "image"}, {"type": "text", "text": "What is this?"}])]),
    "thinking in content": chat([USER, turn("assistant", "<think>\nHm.\n</think>\n\nIt is sunny."), THANKS]),
    "reasoning_content": chat([USER, {**ANSWER, "reasoning_content": "Look it up."}, THANKS]),
    "reasoning": chat([USER, {**ANSWER, "reasoning": "Look it up."}, THANKS], enable_thinking=True),
    "thinking": chat([USER, {**ANSWER, "thinking": "Look it up.", "reasoning": None}, THANKS], [WEATHER]),
    "no thinking": chat([SYSTEM, USER], enable_thinking=False, thinking=False, reasoning_effort="low"),
    "tools": chat([SYSTEM, USER], [WEATHER, SEARCH, NO_ARGUMENTS]),
    "call": chat([USER, CALLS, result('{"sky": "sunny"}')], [WEATHER]),
    "call with text and reasoning": chat(
        [SYSTEM, USER, {**CALLS, "content": "One moment.", "reasoning_content": "I need the tool."}, result("sunny"), ANSWER, THANKS], [WEATHER, SEARCH]),
    "two calls": chat(
        [USER, turn("assistant", "", tool_calls=[call("get_weather", {"city": "A"}), call("search", MANY_VALUES, "call00002")]),
         result("1.5"), result('[1, 2.50, null, {"é": "\\u00e9"}]', "call00002", "search"), ANSWER, THANKS], [WEATHER, SEARCH]),
    "arguments as text": chat([USER, turn("assistant", "", tool_calls=[call("get_weather", '{"city": "Zürich"}')]), result("sunny"), ANSWER], [WEATHER], prompt=False),
    "call without arguments": chat([USER, turn("assistant", None, tool_calls=[call("now", {})]), result({"time": 1.0, "zone": None}, name="now")], [NO_ARGUMENTS]),
    "results as parts": chat([USER, CALLS, result([{"type": "text", "text": "sunny"}])], [WEATHER]),
    "documents and names": chat(
        [turn("system", "Cite."), turn("user", "Who?", name="ann")], documents=[{"title": "T", "text": "It's <b>."}],
        date_string="26 Jul 2024", builtin_tools=["brave_search"], custom_instructions="x"),
    "developer": chat([turn("developer", "Be brief."), USER, ANSWER, THANKS]),
    "many turns": chat([SYSTEM] + [message for index in range(8) for message in (turn("user", f"Question {index}"), turn("assistant", f"Answer {index}", reasoning_content=f"Thought {index}"))] + [USER]),
    "assistant first": chat([ANSWER, USER]),
}
