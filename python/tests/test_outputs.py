"""What a Model computes for texts: logits, scores, hidden states, and texts of many prompts at once."""
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import qsf

TEXT = "It was a dark and stormy night, and the king had gone to bed."
PROMPTS = ["Once upon a time", "The king", "It was a dark", "She said", "In the house there", "a"]


@pytest.fixture(scope="module")
def model(demo):
    return qsf.Model(demo / "demo-1m-4bit.qsf", threads=2)


@pytest.fixture(scope="module")
def exact(demo):
    """The source, at full precision."""
    return qsf.Model(demo / "demo-1m", threads=2)


def log_softmax(rows):
    rows = rows.astype(np.float64)
    return rows - rows.max(-1, keepdims=True) - np.log(np.exp(rows - rows.max(-1, keepdims=True)).sum(-1, keepdims=True))


def test_logits_have_a_row_for_each_token_and_choose_what_is_generated(model):
    ids = model.tokenize(TEXT)
    logits = model.logits(TEXT)
    assert logits.shape == (len(ids), model.config["vocab"]) and logits.dtype == np.float32
    assert np.isfinite(logits).all() and logits.flags.writeable
    # What was computed is what the array shows, without a copy.
    assert type(logits.base).__name__ == "ComputedValues" and not logits.flags.owndata
    before = logits.copy()
    logits[0, 0] += 1
    assert np.frombuffer(logits.base, np.float32)[0] == logits[0, 0] == before[0, 0] + 1
    logits[0, 0] = before[0, 0]
    assert (model.logits(np.array(ids)) == logits).all() and (model.logits(ids[:5]) == logits[:5]).all()
    likeliest = model.detokenize([*ids, int(logits[-1].argmax())])
    assert likeliest == TEXT + model.generate(TEXT, max_tokens=1, temperature=0)


def test_scores_are_those_of_the_logits(model):
    ids = model.tokenize(TEXT)
    rows = log_softmax(model.logits(ids))
    cuts = [1, 4, 9, len(ids) - 1]
    likelihoods, greedy = model.score([ids[:cut] for cut in cuts], [ids[cut:] for cut in cuts])
    assert likelihoods.dtype == np.float64 and greedy.dtype == np.bool_ and likelihoods.shape == greedy.shape == (4,)
    for cut, found in zip(cuts, likelihoods):
        expected = sum(rows[at - 1, ids[at]] for at in range(cut, len(ids)))
        assert found == pytest.approx(expected, abs=1e-4)
    best = int(rows[3].argmax())
    assert model.score(ids[:4], [[best], [(best + 1) % 100]])[1].tolist() == [True, False]


def test_texts_are_encoded_with_their_contexts(model):
    whole = model.tokenize("The king said")
    context = model.tokenize("The king")
    assert whole[:len(context)] == context
    expected, _ = model.score(context, [whole[len(context):]])
    # A space at the end of a context belongs to what follows it.
    for pair in [("The king", [" said"]), ("The king ", ["said"])]:
        assert model.score(*pair)[0] == expected
    alone, _ = model.score("", ["The king"])
    assert alone == model.score([model.start_token], [model.tokenize("The king", add_special=False)])[0]


def test_hidden_states_give_the_logits(exact, demo):
    hidden = exact.embed(TEXT)
    tensors = qsf.open(demo / "demo-1m")
    head = np.asarray(tensors["head" if "head" in tensors else "token_embedding"])
    assert hidden.shape == (exact.config["hidden"],) and hidden.dtype == np.float32
    assert head @ hidden == pytest.approx(exact.logits(TEXT)[-1], abs=2e-4)
    ids = exact.tokenize(TEXT)
    each = exact.embed([ids[:end + 1] for end in range(len(ids))])
    assert each.shape == (len(ids), exact.config["hidden"]) and (each[-1] == hidden).all()
    assert exact.embed(TEXT, pooling="mean") == pytest.approx(each.mean(0), abs=1e-5)
    assert (exact.embed([TEXT, "The king"], pooling="mean")[1] == exact.embed("The king", pooling="mean")).all()


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 0.9, "seed": 4, "repeat_penalty": 1.2},
                                     {"temperature": 0, "stop": [" the", "."]}])
@pytest.mark.parametrize("sequences", [1, 3, 64])
def test_texts_of_many_prompts_are_those_of_each(model, options, sequences):
    heard = []
    texts = model.batch_generate(PROMPTS, sequences=sequences, max_tokens=20, progress=lambda *now: heard.append(now), **options)
    seeds = [{"seed": options["seed"] + number} if "seed" in options else {} for number in range(len(PROMPTS))]
    assert texts == [model.generate(prompt, max_tokens=20, **{**options, **seed}) for prompt, seed in zip(PROMPTS, seeds)]
    assert heard[-1] == ("texts", 6, 6)
    assert model.batch_generate([model.tokenize(prompt) for prompt in PROMPTS], max_tokens=20, **options) == texts


def test_equal_prompts_get_texts_of_their_own(model):
    options = {"temperature": 1, "seed": 7, "max_tokens": 20}
    texts = model.batch_generate(["The king"] * 4, **options)
    assert len(set(texts)) == 4 and texts[0] == model.generate("The king", **options)
    assert len(set(model.batch_generate(["The king"] * 4, temperature=1, max_tokens=20))) == 4, "a seed from the clock"


def test_prompts_share_steps_and_get_the_logits_that_they_get_alone(model):
    prompts = [*PROMPTS, TEXT, TEXT * 12, "The king " * 60] * 3
    expected = np.stack([model.logits(prompt)[-1] for prompt in prompts])
    heard = []
    found = model.classify(prompts, progress=lambda *now: heard.append(now))
    assert found.dtype == np.float32 and found.shape == (len(prompts), model.config["vocab"])
    assert (found == expected).all() and heard[-1] == ("prompts", len(prompts), len(prompts))
    labels = [" the", " was", "."]
    ids = [model.tokenize(label, add_special=False)[0] for label in labels]
    assert model.classify(prompts, labels) == pytest.approx(log_softmax(expected)[:, ids], abs=1e-4)
    assert (model.classify([model.tokenize(prompt) for prompt in prompts]) == expected).all()


def test_several_threads_ask_one_model_at_once(model):
    expected = model.logits(TEXT)
    found = []
    ask = lambda: found.append((model.logits(TEXT) == expected).all())
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_others_go_on_while_a_model_computes(model):
    asked = threading.Thread(target=model.batch_generate, args=(PROMPTS * 4,), kwargs={"max_tokens": 200, "temperature": 0})
    asked.start()
    turns = 0
    while asked.is_alive():
        turns += 1
        time.sleep(0.001)
    # With the interpreter's lock held there would be none until it is over.
    assert turns > 10


def test_a_model_within_a_budget_computes_the_same(demo, model):
    within = qsf.Model(demo / "demo-1m-4bit.qsf", ram_budget="2GB", ctx_size=128, threads=2, kv_type="f16")
    alike = qsf.Model(demo / "demo-1m-4bit.qsf", threads=2, kv_type="f16")
    assert (within.logits(TEXT) == alike.logits(TEXT)).all() and (within.embed(TEXT) == alike.embed(TEXT)).all()
    assert (within.score("The king", [" said", " was not there"])[0] == alike.score("The king", [" said", " was not there"])[0]).all()
    options = {"max_tokens": 12, "temperature": 0}
    assert within.batch_generate(PROMPTS, **options) == alike.batch_generate(PROMPTS, **options)


@pytest.mark.parametrize("call, error, message", [
    (lambda model: model.logits(""), qsf.UsageError, "0 tokens"),
    (lambda model: model.logits([10**6]), qsf.UsageError, "vocabulary"),
    (lambda model: model.logits([1] * 100_000), qsf.UsageError, "context"),
    (lambda model: model.logits(5), TypeError, "token ids"),
    (lambda model: model.logits([-1]), TypeError, "token ids"),
    (lambda model: model.embed("a", pooling="max"), qsf.UsageError, "mean"),
    (lambda model: model.score(["a", "b"], ["c"]), qsf.UsageError, "2 contexts for 1"),
    (lambda model: model.score([[]], [[1]]), qsf.UsageError, "empty context"),
    (lambda model: model.batch_generate(["a", ""]), qsf.UsageError, "prompt 1"),
    (lambda model: model.batch_generate("a"), TypeError, "one text"),
    (lambda model: model.batch_generate(["a"], tempurature=0), TypeError, "tempurature"),
    (lambda model: model.logits(b"bytes"), TypeError, "token ids"),
])
def test_what_cannot_be_is_refused(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


def test_the_processor_is_the_device(demo):
    path = demo / "demo-1m-4bit.qsf"
    for device in ("cpu", "auto"):
        assert qsf.Model(path, device=device, threads=1).generate("a", max_tokens=1, temperature=0)
    with pytest.raises(qsf.UsageError, match="device"):
        qsf.Model(path, device="tpu")


def test_a_graphics_processor_makes_texts_where_the_build_has_them(demo):
    path = demo / "demo-1m-4bit.qsf"
    try:
        model = qsf.Model(path, device="gpu")
    except qsf.UnsupportedModelError as error:
        assert "built without" in str(error)
        return
    expected = qsf.Model(path, threads=1).generate("Once upon a time", max_tokens=24, temperature=0)
    assert model.generate("Once upon a time", max_tokens=24, temperature=0) == expected
    texts = model.batch_generate(["Once upon a time"] * 2, max_tokens=24, temperature=0)
    assert [str(text) for text in texts] == [str(expected)] * 2
    with pytest.raises(qsf.UsageError, match="device"):
        model.score(["a"], ["b"])


def test_nothing_of_nothing(model):
    assert model.batch_generate([]) == []
    likelihoods, greedy = model.score([], [])
    assert likelihoods.shape == greedy.shape == (0,)
    assert model.embed([]).shape == (0, model.config["hidden"])


def test_ctrl_c_ends_a_long_call(model):
    # Where a shell has started the tests in the background, the signal is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                model.batch_generate(PROMPTS * 20, max_tokens=400, temperature=0, ignore_eos=True)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_stubs_hold_under_mypy(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "use.py"
    script.write_text(
        "import numpy as np\n"
        "import numpy.typing as npt\n"
        "import qsf\n"
        "model = qsf.Model('m.qsf', threads=2)\n"
        "a: npt.NDArray[np.float32] = model.logits('text')\n"
        "b, c = model.score(['a'], [[1, 2]])\n"
        "d: npt.NDArray[np.float32] = model.embed(['a', 'b'], pooling='mean')\n"
        "e: list[str] = model.batch_generate(['a'], sequences=2, max_tokens=3, temperature=0.0)\n"
        "f: str = model.chat_text([{'role': 'user', 'content': 'x'}])\n"
        "g: int | None = model.start_token\n"
        "h: str = model.chat([{'role': 'user', 'content': 'x'}], tools=[{'type': 'function'}], max_tokens=3)\n"
        "for piece in model.chat_stream([{'role': 'assistant', 'tool_calls': [{'id': 1}]}]):\n"
        "    h += piece\n"
    )
    # Beside the script: a file among installed packages would make these the program that is looked at.
    package, stubs = Path(qsf.__file__).parent, ["__init__.pyi", "errors.py", "lm_eval/__init__.pyi"]
    (tmp_path / "qsf" / "lm_eval").mkdir(parents=True)
    for name in stubs:
        shutil.copy(package / name, tmp_path / "qsf" / name)
    out, errors, status = mypy.run(["--strict", str(script), *(str(tmp_path / "qsf" / name) for name in stubs)])
    assert status == 0, out + errors
    script.write_text(script.read_text() + "model.embed('a', pooling='max')\nmodel.batch_generate(['a'], tempurature=0)\n")
    out, errors, status = mypy.run(["--strict", str(script)])
    assert status == 1 and out.count("error:") == 2, out + errors
