"""lm-evaluation-harness with the model "qsf": its requests are answered by what the model computes, and its program finds it."""
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points

import numpy as np
import pytest

import qsf

pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not there: pip install lm-eval")
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402

import qsf.lm_eval  # noqa: E402, F401

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
TEXT = "It was a dark and stormy night, and the king had gone to bed. " * 3


def requests(kind, arguments):
    return [Instance(kind, {}, argument, 0, ("test", at, 1)) for at, argument in enumerate(arguments)]


@pytest.fixture(scope="module")
def model(demo):
    return get_model("qsf").create_from_arg_string(f"pretrained={demo / 'demo-1m-4bit.qsf'},threads=2", {"batch_size": "4", "device": None})


def test_continuations_have_the_likelihoods_of_score(model):
    pairs = [("The king", " said"), ("", "Once upon a time"), ("The king ", "was dead"), ("The king", " was")]
    found = model.loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True)
    likelihoods, greedy = model.model.score([a for a, _ in pairs], [b for _, b in pairs])
    assert [likelihood for likelihood, _ in found] == likelihoods.tolist() and [g for _, g in found] == greedy.tolist()


def test_texts_longer_than_the_context_are_scored_in_windows(demo):
    short = qsf.lm_eval.QsfLM(demo / "demo-1m-4bit.qsf", max_length=16, threads=2)
    ids = short.tok_encode(TEXT)
    whole, short_text = [m.loglikelihood_rolling(requests("loglikelihood_rolling", [(TEXT,)]), disable_tqdm=True)[0]
                         for m in (qsf.lm_eval.QsfLM(demo / "demo-1m-4bit.qsf", threads=2), short)]
    rows = short.model.logits([short.prefix_token_id, *ids[:15]]).astype(np.float64)
    rows -= np.log(np.exp(rows).sum(-1, keepdims=True))
    first = sum(rows[at, token] for at, token in enumerate(ids[:16]))
    assert short_text < first < 0 and whole < first and len(ids) > 32
    assert whole != short_text


def test_texts_are_generated_until_a_stop(model):
    asked = [("The king", {"until": [" the"], "max_gen_toks": 12}), ("Once upon", {"max_gen_toks": 5, "do_sample": False}),
             ("It was", {"until": [" the"], "max_gen_toks": 12})]
    found = model.generate_until(requests("generate_until", asked), disable_tqdm=True)
    for text, (prompt, options) in zip(found, asked):
        expected = model.model.generate(prompt, max_tokens=options["max_gen_toks"], temperature=0)
        assert text == expected.split(" the")[0] if "until" in options else text == expected
    with pytest.raises(qsf.UsageError, match="frequency"):
        model.generate_until(requests("generate_until", [("a", {"frequency": 2})]), disable_tqdm=True)


def test_conversations_go_through_the_chat_template(demo, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(demo / "demo-1m", path)
    (path / "chat_template.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    model = qsf.lm_eval.QsfLM(path, threads=2)
    said = [{"role": "user", "content": "Who?"}]
    assert model.apply_chat_template(said) == "<user>Who?</>\n<assistant>"
    begun = [*said, {"role": "assistant", "content": "The king"}]
    assert model.apply_chat_template(begun, add_generation_prompt=False) == "<user>Who?</>\n<assistant>The king"
    assert "{% for m in messages %}" in model.chat_template(True) and model.chat_template() is None


def test_the_package_says_where_the_model_is():
    (entry,) = entry_points(group="lm_eval.models", name="qsf")
    assert entry.load() is qsf.lm_eval.QsfLM and get_model("qsf") is qsf.lm_eval.QsfLM
    # As the registry knows a class that it has not loaded yet.
    assert entry.value == f"{qsf.lm_eval.QsfLM.__module__}:{qsf.lm_eval.QsfLM.__name__}"


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_devices_that_it_does_not_have_are_refused(demo, device):
    with pytest.raises(qsf.UsageError, match=device):
        qsf.lm_eval.QsfLM(demo / "demo-1m-4bit.qsf", device=device)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A task of the harness: which of two texts goes on."""
    folder = tmp_path_factory.mktemp("task")
    # No two alike, as the harness's cache would take them for one.
    items = [{"context": f"{start}{context}", "choices": choices, "right": right}
             for start in ("", "She said. ", "It was so. ", "No! ")
             for context, choices, right in [("The king", [" said", " xq zz"], 0), ("Once upon a", [" qqq", " time"], 1)]]
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (folder / "own.yaml").write_text(
        "task: own\ndataset_path: json\n"
        f"dataset_kwargs: {json.dumps({'data_files': {'test': str(folder / 'items.jsonl')}})}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{context}}'\ndoc_to_choice: '{{choices}}'\n"
        "doc_to_target: right\ntarget_delimiter: ''\nmetric_list:\n  - metric: acc\n"
    )
    return folder


def harness(demo, task, folder, *more):
    """Runs the program of the harness on the task, with a cache; what it says."""
    call = [sys.executable, "-m", "qsf.lm_eval", "run", "--model", "qsf", "--model_args", f"pretrained={demo / 'demo-1m-4bit.qsf'},threads=2",
            "--tasks", "own", "--include_path", str(task), "--output_path", str(folder / "out"), "--use_cache", str(folder / "cache"), *more]
    return subprocess.run(call, capture_output=True, text=True, env=ENVIRONMENT, cwd=folder)


def test_the_program_of_the_harness_finds_the_model_and_goes_on_with_its_cache(demo, task, tmp_path):
    # A run that saw three of the items, one that goes on, and one that finds all of them.
    for more, cached, left in [(["--limit", "3"], 0, 6), ([], 6, 10), ([], 16, 0)]:
        done = harness(demo, task, tmp_path, *more)
        assert done.returncode == 0, done.stderr
        assert f"Cached requests: {cached}, Requests remaining: {left}" in done.stderr, done.stderr
        results = sorted((tmp_path / "out").rglob("results*.json"))
        assert json.loads(results[-1].read_text())["results"]["own"]["acc,none"] == 1.0


def test_a_file_of_somebody_else_in_place_of_the_cache_stays(demo, task, tmp_path):
    other = tmp_path / "cache_rank0.db"
    other.write_text('{"precious": 1}')
    assert harness(demo, task, tmp_path).returncode != 0
    assert other.read_text() == '{"precious": 1}'
