"""The typed options are those that there are, and a mistake in a name or a file is an exception of Python's own kind."""
import ast
import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

import qsf

STUB = Path(qsf.__file__).with_suffix(".pyi")
# Of qsf-eval --task, which evaluate_task does: its own options, and those of evaluate that go with no task.
OF_TASKS = {"few_shot", "few_shot_file", "limit", "task_out"}
NOT_OF_TASKS = {"chunks", "part", "part_out", "store", "save_base", "early_exit", "kv_window", "kv_policy"}
# What a job of its own does not have: python/qsf has a function for it, or it prints.
NOT_HERE = {
    "batch", "out-dir", "jobs", "ram", "shard", "retry", "fail-fast", "stats-only", "stats-part", "merge-stats", "show-stats",
    "dry-run", "demo", "demo-dir", "json", "pin", "quiet", "untrusted", "completions", "man", "help", "version",
    # Of qsf-eval: arguments of their own, functions of their own.
    "file", "base", "golden", "join", "memory-plan", "task", "task-file",
    # What is printed.
    "verbose", "no-table",
}


def typed(name):
    """The keys of a TypedDict in the stub."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {statement.target.id for statement in node.body}
    raise AssertionError(name)


@pytest.mark.parametrize("program_name, name", [("qsf-convert", "_Convert"), ("qsf-eval", "_Evaluate")])
def test_typed_options_are_those_of_the_program(program, program_name, name):
    text = program(program_name, "--help")
    # Options stand further to the left than what is said of them.
    known = set(re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)", text, re.M))
    aliases = set(re.findall(r"--([a-z-]+)", " ".join(re.findall(r"alias(?:es)?: ([^\]]*)\]", text))))
    wanted = {option.replace("-", "_") for option in known - NOT_HERE} - OF_TASKS
    assert wanted <= typed(name) <= wanted | {alias.replace("-", "_") for alias in aliases}


def test_options_of_tasks_are_those_of_the_program():
    assert typed("_EvaluateTask") == typed("_Evaluate") - NOT_OF_TASKS | OF_TASKS


def test_a_version_is_that_of_the_programs(program):
    assert program("qsf-run", "--version").split() == ["qsf-run", qsf.__version__]


def test_what_the_system_said_is_an_exception_of_that_kind(demo, tmp_path):
    missing = tmp_path / "none.qsf"
    with pytest.raises(FileNotFoundError) as caught:
        qsf.inspect(missing)
    error = caught.value
    assert isinstance(error, qsf.BadInputError) and (error.errno, error.filename) == (errno.ENOENT, str(missing))
    assert str(error).startswith(str(missing))
    there = tmp_path / "there.qsf"
    there.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="pass force=True to replace it") as caught:
        qsf.convert(demo / "demo-1m", there)
    assert isinstance(caught.value, qsf.UsageError) and there.read_bytes() == b"precious"
    with pytest.raises(IsADirectoryError):
        qsf.convert(demo / "demo-1m", tmp_path)
    with pytest.raises(TypeError, match="qunat: .*did you mean") as caught:
        qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", qunat="4bit")
    assert isinstance(caught.value, qsf.UsageError)


def test_messages_name_arguments(demo, tmp_path):
    with pytest.raises(qsf.UsageError) as caught:
        qsf.convert(demo / "demo-1m-4bit.qsf", tmp_path / "x.qsf")
    assert "allow_requantize=True" in str(caught.value) and "--" not in str(caught.value)
    with pytest.raises(qsf.UsageError, match="max_tokens"):
        qsf.generate(demo / "demo-1m-4bit.qsf", "Once", max_tokens=10**6)


def test_diff_and_report_are_those_of_the_program(demo, tmp_path):
    file = demo / "demo-1m-4bit.qsf"
    found = qsf.diff(demo / "demo-1m", file)
    assert not found["equal"] and len(found["tensors"]) == 38
    assert qsf.diff(file, file)["equal"]
    page, card = tmp_path / "page.html", tmp_path / "card.md"
    made = qsf.report([file], page, card=card, license="mit")
    assert made["files"][0]["type"] == "4bit" and "<html" in page.read_text() and 'license: "mit"' in card.read_text()
    with pytest.raises(FileExistsError):
        qsf.report([file], page)


def module(*words):
    return subprocess.run([sys.executable, "-m", "qsf", *map(str, words)], capture_output=True, text=True)


def test_the_programs_are_in_the_package(program, demo, tmp_path):
    assert module("--version").stdout == f"qsf {qsf.__version__}\n"
    assert module("inspect", demo / "demo-1m-4bit.qsf").stdout == program("qsf-inspect", demo / "demo-1m-4bit.qsf")
    assert module("convert", demo / "demo-1m", tmp_path / "x.qsf").returncode == 0
    program("qsf-convert", demo / "demo-1m", tmp_path / "y.qsf")
    assert (tmp_path / "x.qsf").read_bytes() == (tmp_path / "y.qsf").read_bytes()
    words = ["run", demo / "demo-1m-4bit.qsf", "-p", "Once", "-n", "4", "--temp", "0"]
    assert module(*words).stdout == program("qsf-run", *words[1:])
    different = module("inspect", "diff", demo / "demo-1m", demo / "demo-1m-4bit.qsf")
    assert different.returncode == 1 and different.stdout.endswith("the models differ\n")
    wrong = module("convert", demo / "demo-1m", "--quant", "q4")
    assert wrong.returncode == 2 and "the nearest is n4" in wrong.stderr
    assert module("sing").returncode == 2 and "convert, inspect, eval, run" in module("sing").stderr
    (tmp_path / "jobs.jsonl").write_text('{"model": "%s", "output": "b.qsf"}' % (demo / "demo-1m"))
    batch = module("convert", "--batch", tmp_path / "jobs.jsonl", "--out-dir", tmp_path)
    assert batch.returncode == 0, batch.stderr
    assert (tmp_path / "b.qsf").read_bytes() == (tmp_path / "y.qsf").read_bytes()
