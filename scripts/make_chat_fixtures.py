#!/usr/bin/env python3
"""Writes runtime/tests/integration/chat_templates/fixtures/expected.json: what jinja2, set up as transformers sets it up for chat templates
(utils/chat_template_utils.py), makes of conversations with the templates beside it. Needs `pip install jinja2`."""

import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = pathlib.Path(__file__).parent.parent / "runtime/tests/integration/chat_templates/fixtures"
TODAY = datetime.datetime(2024, 7, 26)
CONVERSATIONS = {
    "a question": [("user", "Why is the sky blue?")],
    "with a system message": [("system", "  Be brief.\n"), ("user", "2 + 2?")],
    "several turns": [
        ("system", "You know all. /no_think"),
        ("user", " Name a tree.\n"),
        ("assistant", "<think>\nTrees\n</think>\n\nOak. "),
        ("user", "Another, \"please\" é <b>&'\t?"),
        ("assistant", "\nElm."),
    ],
    "roles that do not take turns": [("user", "a"), ("user", "b")],
    "a tool": [("user", "weather?"), ("assistant", "wait"), ("tool", "rain")],
    "odd words": [("user", "   "), ("user", "one two"), ("assistant", "stop"), ("user", "never")],
}
# Messages with more than role and content, and what may be called. The names are in no order, which the text must keep.
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather, <now> & \"here\".",
        "parameters": {"type": "object", "required": ["place"], "properties": {"place": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
ARGUMENTS = {"place": "Zürich", "days": 2, "also": [1.5, None, True]}
CALLS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather here?"}, {"type": "image", "url": "x.png"}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}},
        {"name": "weather", "arguments": "{}"},
    ]},
    {"role": "tool", "name": "weather", "tool_call_id": "1", "content": "rain"},
    {"role": "assistant", "content": "Rain."},
    {"role": "user", "content": "And then?"},
]
# By template: those of others take such messages for mistakes of their own kind.
WITH_TOOLS = {"tools.jinja": {"calls of tools": (CALLS, [WEATHER]), "tools without calls": (CALLS[:1], [WEATHER])}}


class Generation(Extension):
    """The tag that transformers marks answers with: its body, as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = TODAY.strftime
    return env


def main():
    expected = []
    for path in sorted(FOLDER.glob("*.jinja")):
        template = environment().from_string(path.read_text())
        plain = {
            name: ([{"role": role, "content": content} for role, content in turns], None) for name, turns in CONVERSATIONS.items()
        }
        for name, (messages, tools) in (plain | WITH_TOOLS.get(path.name, {})).items():
            for prompt in [False, True]:
                case = {"template": path.name, "conversation": name, "messages": messages, "add_generation_prompt": prompt}
                if tools is not None:
                    case["tools"] = tools
                try:
                    case["text"] = template.render(
                        messages=messages, tools=tools, documents=None, add_generation_prompt=prompt,
                        bos_token="<s>", eos_token="</s>",
                    )
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                expected.append(case)
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (FOLDER / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
