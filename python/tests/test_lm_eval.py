"""lm-evaluation-harness with the model "qsf": its requests are answered by what the model computes, and its program finds it."""
import json
import os
import subprocess
import sys

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


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A task of the harness: which of two texts goes on."""
    folder = tmp_path_factory.mktemp("task")
    items = [{"context": "The king", "choices": [" said", " xq zz"], "right": 0},
             {"context": "Once upon a", "choices": [" qqq", " time"], "right": 1}] * 4
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (folder / "own.yaml").write_text(
        "task: own\ndataset_path: json\n"
        f"dataset_kwargs: {json.dumps({'data_files': {'test': str(folder / 'items.jsonl')}})}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{context}}'\ndoc_to_choice: '{{choices}}'\n"
        "doc_to_target: right\ntarget_delimiter: ''\nmetric_list:\n  - metric: acc\n"
    )
    return folder


def test_the_program_of_the_harness_finds_the_model_and_goes_on_with_its_cache(demo, task, tmp_path):
    call = [sys.executable, "-m", "qsf.lm_eval", "run", "--model", "qsf", "--model_args", f"pretrained={demo / 'demo-1m-4bit.qsf'},threads=2",
            "--tasks", "own", "--include_path", str(task), "--output_path", str(tmp_path / "out"), "--use_cache", str(tmp_path / "cache")]
    for _ in range(2):
        done = subprocess.run(call, capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        results = sorted((tmp_path / "out").rglob("results*.json"))
        assert json.loads(results[-1].read_text())["results"]["own"]["acc,none"] == 1.0
    assert "Cached requests: 16" in done.stderr or "Cached" in done.stderr, done.stderr
