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
        for name, turns in CONVERSATIONS.items():
            messages = [{"role": role, "content": content} for role, content in turns]
            for prompt in [False, True]:
                case = {"template": path.name, "conversation": name, "messages": messages, "add_generation_prompt": prompt}
                try:
                    case["text"] = template.render(
                        messages=messages, tools=None, documents=None, add_generation_prompt=prompt,
                        bos_token="<s>", eos_token="</s>",
                    )
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                expected.append(case)
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (FOLDER / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
