"""Progress, and stopping: by Ctrl-C, by what a callback raises or returns."""
import functools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import qsf


class Enough(Exception):
    pass


def test_progress_is_told_in_the_calling_thread_and_reaches_its_end(demo, tmp_path):
    told = []
    qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", progress=lambda *event: told.append((threading.get_ident(), *event)))
    assert {thread for thread, *_ in told} == {threading.get_ident()}
    stages = {}
    for _, stage, done, total in told:
        # A stage that begins again begins at 0.
        assert done == 0 or stages.get(stage, 0) <= done <= total
        stages[stage] = done
    assert stages and told[-1][2] == told[-1][3] > 0


def test_what_progress_raises_stops_a_conversion_and_leaves_no_file(demo, tmp_path):
    def stop(stage, done, total):
        raise Enough

    with pytest.raises(Enough):
        qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", target_size="500kB", progress=stop)
    assert not (tmp_path / "x.qsf").exists()
    assert not list(tmp_path.glob("*.partial"))


def test_ctrl_c_stops_a_conversion(demo, tmp_path):
    # A process of its own: the signal is for all of one. Again and again, so that there is a conversion whenever it comes.
    script = """
import os, qsf, sys
print("begun", flush=True)
while True:
    qsf.convert(*sys.argv[1:], target_size="500kB", effort="max")
    os.remove(sys.argv[2])
"""
    out = tmp_path / "x.qsf"
    # What is started in the background of a shell ignores the signal, and so do all that it starts.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-c", script, demo / "demo-1m", out], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        # It goes on for ever where the signal does not stop it.
        process.kill()
    assert "KeyboardInterrupt" in errors and process.returncode != 0
    assert time.monotonic() - started < 20 and not out.exists()


def test_other_threads_run_while_a_conversion_does(demo, tmp_path):
    done, beats = threading.Event(), []

    def beat():
        while not done.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    started = time.monotonic()
    qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", target_size="500kB", calibration_tokens=4096)
    elapsed = time.monotonic() - started
    done.set()
    thread.join()
    # Where the lock is held throughout there is no beat at all. Half of them, as the machine may be busy.
    assert len(beats) > elapsed / 0.01 / 8


def test_a_callback_ends_a_text(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", threads=1)
    whole = model.generate("Once upon a time", max_tokens=100, temperature=0)
    pieces = []

    def three(piece):
        pieces.append(piece)
        return len(pieces) < 3

    text = model.generate("Once upon a time", max_tokens=100, temperature=0, on_token=three)
    assert len(pieces) == 3 and text == "".join(pieces) and whole.startswith(text)

    def fail(piece):
        raise Enough

    with pytest.raises(Enough):
        model.generate("Once upon a time", on_token=fail)


def test_a_stream_may_be_left_early(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", threads=1)
    stream = model.stream("Once upon a time", max_tokens=200, temperature=0)
    first = next(stream)
    assert first
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_handler_of_another_signal_runs_and_its_exception_stops_the_work(demo, tmp_path):
    def handler(number, frame):
        raise Enough

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(Enough):
            qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", target_size="500kB", effort="max")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not (tmp_path / "x.qsf").exists()
