"""Conversations: messages and tools become the text that transformers makes of them, and the model goes on there."""
import json
import shutil

import pytest

import qsf
from conftest import REPOSITORY

FIXTURES = REPOSITORY / "runtime/tests/integration/chat_templates/fixtures"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who was the king?"}]


def with_template(demo, folder, name):
    """The model of the demo with a chat template."""
    path = folder / name
    shutil.copytree(demo / "demo-1m", path)
    shutil.copy(FIXTURES / name, path / "chat_template.jinja")
    return qsf.Model(path, threads=2)


@pytest.fixture(scope="module")
def model(demo, tmp_path_factory):
    return with_template(demo, tmp_path_factory.mktemp("chat"), "tools.jinja")


def test_conversations_with_tools_become_the_text_of_the_reference(model):
    cases = [case for case in json.loads((FIXTURES / "expected.json").read_text()) if case["template"] == "tools.jinja"]
    assert any("tools" in case for case in cases)
    for case in cases:
        found = model.chat_text(case["messages"], tools=case.get("tools"), prompt_reply=case["add_generation_prompt"])
        # The model has no texts of tokens that begin and end, which this template does not ask for.
        assert found == case["text"], case["conversation"]


def test_the_answer_is_what_goes_on_behind_the_text(model):
    options = {"max_tokens": 24, "temperature": 0}
    prompt = model.tokenize(model.chat_text(MESSAGES), add_special=False)
    (expected,) = model.batch_generate([prompt], **options)
    assert expected and model.chat(MESSAGES, **options) == expected
    pieces = list(model.chat_stream(MESSAGES, **options))
    assert "".join(pieces) == expected and len(pieces) > 1
    assert model.chat(iter(MESSAGES), **options) == expected
    alike = model.generate("Who was the king?", chat=True, system_prompt="Be brief.", **options)
    assert alike == expected
    heard = []
    cut = model.chat(MESSAGES, on_token=lambda piece: heard.append(piece) or len(heard) < 2, **options)
    assert cut == "".join(heard) == "".join(pieces[:2])
    tools = [{"type": "function", "function": {"name": "weather"}}]
    prompt = model.tokenize(model.chat_text(MESSAGES, tools=tools), add_special=False)
    assert model.chat(MESSAGES, tools=tools, **options) == model.batch_generate([prompt], **options)[0]


@pytest.mark.parametrize("call, error, message", [
    (lambda model: model.chat([{"role": "user"}]), qsf.UsageError, "message 0 has neither .content. nor"),
    (lambda model: model.chat([{"content": "a"}]), qsf.UsageError, "message 0 has no .role."),
    (lambda model: model.chat({"role": "user", "content": "a"}), TypeError, "messages: expected a list of dicts, found dict"),
    (lambda model: model.chat("Who?"), TypeError, "messages: expected a list of dicts, found str"),
    (lambda model: model.chat(5), TypeError, "found int"),
    (lambda model: model.chat(MESSAGES, tools=[print]), TypeError, "tools: expected a list of dicts"),
    (lambda model: model.chat(MESSAGES, tools=[{"x": print}]), TypeError, "JSON serializable"),
    (lambda model: model.chat(MESSAGES, system_prompt="a"), TypeError, "system_prompt"),
    (lambda model: model.chat(MESSAGES, chat=True), TypeError, "chat"),
    (lambda model: model.chat(MESSAGES, tempurature=0), TypeError, "tempurature"),
    (lambda model: model.chat(MESSAGES, max_tokens=10**6), qsf.UsageError, "max_tokens"),
])
def test_what_is_no_conversation_is_refused(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


def test_what_a_template_refuses_is_told(demo, tmp_path):
    model = with_template(demo, tmp_path, "mistral.jinja")
    with pytest.raises(qsf.BadInputError, match="chat template, line"):
        model.chat([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])


def test_a_model_without_a_template_is_refused(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", threads=1)
    assert model.chat_template is None
    with pytest.raises(qsf.BadInputError, match="chat template"):
        model.chat(MESSAGES)
