"""A Model is run as its options say."""
import json
import subprocess
import sys
import threading

import pytest

import qsf

# Peak of anonymous memory is sampled from outside of the work: the budget is that of the whole process.
BUDGETED = """
import re, sys, threading, time
import qsf

def anonymous():
    return int(re.search(r"RssAnon:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024

most, done = [0], threading.Event()
def watch():
    while not done.is_set():
        most[0] = max(most[0], anonymous())
        time.sleep(0.005)
watcher = threading.Thread(target=watch)
watcher.start()
try:
    model = qsf.Model(sys.argv[1], ram_budget=float(sys.argv[2]), threads=1)
    text = model.generate("Once upon a time", max_tokens=24, temperature=0)
    print(text, end="")
except qsf.OutOfMemoryError as error:
    print(error, end="")
finally:
    done.set()
    watcher.join()
    print(most[0], file=sys.stderr)
"""


def budgeted(path, megabytes):
    call = [sys.executable, "-c", BUDGETED, str(path), str(megabytes)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return done.stdout, int(done.stderr.split()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory")
def test_a_budget_holds_and_changes_no_token(demo, program):
    path = demo / "demo-1m-4bit.qsf"
    refused, _ = budgeted(path, 5)
    enough = float(refused.split("a budget of ")[1].split(" MB is enough")[0])
    printed = json.loads(program("qsf-run", path, "-p", "Once upon a time", "-n", 24, "--temp", 0, "--json",
                                 "--kv-type", "8bit,4bit"))
    for megabytes in (enough + 1, 100, 400):
        text, most = budgeted(path, megabytes)
        assert text == printed["text"], megabytes
        assert most <= megabytes * 1e6, f"{most} bytes within {megabytes} MB"


def test_texts_of_a_model_within_a_budget_wait_for_each_other(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", ram_budget="2GB", ctx_size=64, threads=1)
    alone = model.generate("The king", max_tokens=16, temperature=0)
    texts = []
    work = lambda: texts.append(model.generate("The king", max_tokens=16, temperature=0))
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [alone] * 3
    with pytest.raises(qsf.UsageError, match="64"):
        model.generate("The king", max_tokens=64, temperature=0)


@pytest.mark.parametrize("options, flags", [
    ({"kv_type": "4bit"}, ["--kv-type", "4bit"]),
    ({"activations": "f32"}, ["--activations", "f32"]),
    ({"huge_pages": "off"}, ["--huge-pages", "off"]),
])
def test_options_are_those_of_the_program(demo, program, options, flags):
    path = demo / "demo-1m-4bit.qsf"
    text = qsf.Model(path, **options).generate("Once upon a time", max_tokens=48, temperature=0)
    assert text == json.loads(program("qsf-run", path, "-p", "Once upon a time", "-n", 48, "--temp", 0, "--json", *flags))["text"]


@pytest.mark.parametrize("options, message", [
    ({"kv_tipe": "4bit"}, 'did you mean "kv_type"'),
    ({"kv_type": "5bit"}, "5bit"),
    ({"memory_plan": True}, "memory_plan"),
    ({"ctx_size": 10**6}, "ctx_size"),
    ({"ram_budget": "lots"}, "lots"),
])
def test_options_that_cannot_be_are_refused(demo, options, message):
    with pytest.raises(qsf.UsageError, match=message):
        qsf.Model(demo / "demo-1m-4bit.qsf", **options)
