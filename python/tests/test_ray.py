"""Batches, and work in parts, on a cluster of three nodes, which are three raylets on this machine. QSF_RAY=1 scripts/test_python
installs Ray."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")
from ray.cluster_utils import Cluster  # noqa: E402

TYPES = ["2bit", "3bit", "4bit", "8bit", "ternary", "n3"]
LONG = 40


@pytest.fixture
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "memory": 2 << 30, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.fixture
def jobs(demo, text, tmp_path):
    """Twelve jobs, half of them fitted to a text, each of which takes seconds."""
    fitted = {"calibration": str(text), "clusters": 64, "effort": "max"}
    lines = [
        {"model": str(demo / "demo-1m"), "output": f"{quant}-{i}.qsf", "quant": quant, **([{}, fitted][i])}
        for quant in TYPES
        for i in range(2)
    ]
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def long_text(text, tmp_path):
    """So long that each of a few parts takes seconds."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i}. {text.read_text()}" for i in range(LONG)))
    return path


def batch(cluster, jobs, out_dir, *flags):
    return command(cluster, "qsf.batch", jobs, "--out-dir", out_dir, *flags)


def split(cluster, *words):
    return command(cluster, "qsf.split", *words)


def command(cluster, module, *words):
    line = [sys.executable, "-m", module, *map(str, words), "--address", cluster.address]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.qsf")}


def records(folder):
    """What does not depend on when and where."""
    of_run = ("seconds", "ended_ms", "peak_rss_bytes", "predicted_peak_rss_bytes", "attempts", "file")
    lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    return {record["output"]: {key: record[key] for key in record if key not in of_run} for record in lines}


def processes():
    """Of each process its parent and its command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(path.name)] = parent, (path / "cmdline").read_text()
        except OSError:
            pass
    return found


def below(pid):
    """Processes that a process and those below it have started, with their command lines."""
    found, known = processes(), {pid}
    for _ in range(len(found)):
        more = {child for child, (parent, _) in found.items() if parent in known} - known
        if not more:
            break
        known |= more
    return {child: found[child][1] for child in known - {pid} if child in found}


def fits_a_job(pid):
    """Whether a worker of a raylet is at a job with a text, which takes seconds."""
    return any("--calibration=" in command for command in below(pid).values())


def kill_node(pid):
    """All of Ray on a node at once, but not the processes of jobs: these are to end by themselves."""
    of_ray = [child for child, command in below(pid).items() if "qsf.job_process" not in command]
    for process in [pid, *of_ray]:
        os.kill(process, signal.SIGKILL)


def kill_a_node_at_work(cluster, what):
    """Kills a node that is at a task whose name begins so; Ray shows the name as that of the process."""
    raylet = cluster.list_all_nodes()[-1].all_processes["raylet"][0].process.pid
    wait_for(lambda: any(f"ray::{what} " in command for command in below(raylet).values()))
    kill_node(raylet)


def changed(path):
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return found


def test_a_node_that_is_killed_while_it_works_costs_no_file_and_no_byte(cluster, jobs, program, tmp_path):
    program("qsf-convert", "--batch", jobs, "--out-dir", tmp_path / "alone")
    process = batch(cluster, jobs, tmp_path / "out", "--json")
    raylet = cluster.list_all_nodes()[-1].all_processes["raylet"][0].process.pid
    # It has done something, and is at something.
    results = tmp_path / "out" / "results.jsonl"
    wait_for(lambda: results.exists() and results.read_text().count("\n") > 2 and fits_a_job(raylet))
    kill_node(raylet)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    summary = json.loads(stdout)
    assert summary["done"] == summary["total"] == 2 * len(TYPES)
    assert "lost with its node" in stderr and max(job["attempts"] for job in summary["jobs"]) == 2
    assert files(tmp_path / "out") == files(tmp_path / "alone")
    assert records(tmp_path / "out") == records(tmp_path / "alone")
    left = [path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".qsf"]
    assert left == ["results.jsonl"]
    # The one machine goes on where the cluster was, and finds nothing to do.
    again = json.loads(program("qsf-convert", "--batch", jobs, "--out-dir", tmp_path / "out", "--json"))
    assert again["skipped"] == summary["total"]


def test_ctrl_c_stops_all_nodes_and_the_same_command_goes_on(cluster, jobs, tmp_path):
    out = tmp_path / "out"
    process = batch(cluster, jobs, out)
    wait_for(lambda: (out / "results.jsonl").exists() and (out / "results.jsonl").read_text())
    process.send_signal(signal.SIGINT)
    stopped = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command" in stderr
    assert time.monotonic() - stopped < 15
    wait_for(lambda: not any("qsf.job_process" in command for _, command in processes().values()), 10)
    stdout, stderr = batch(cluster, jobs, out).communicate(timeout=300)
    assert "skipped" in stdout and len(files(out)) == 2 * len(TYPES), stderr


def test_what_cannot_be_done_fails_with_its_reason_and_the_others_are_done(cluster, demo, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text("{}")
    demo = str(demo / "demo-1m")
    # The text of one takes more memory to read than a node has.
    long = tmp_path / "long.txt"
    long.write_text("Once upon a time. " * 1_500_000)
    lines = [{"model": str(damaged), "output": "a.qsf"}, {"model": demo, "output": "b.qsf"},
             {"model": demo, "output": "c.qsf", "max_size": "1kB"}, {"model": demo, "output": "d.qsf", "eval_text": str(long)}]
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    process = batch(cluster, jobs, tmp_path / "out", "--json")
    stdout, stderr = process.communicate(timeout=120)
    states = {job["output"]: (job["state"], job["exit_code"]) for job in json.loads(stdout)["jobs"]}
    assert process.returncode == 6 and "3 of 4 jobs failed" in stderr
    assert states["d.qsf"] == ("failed", 5) and "the largest node" in stderr
    assert states["a.qsf"][0] == "failed" and states["b.qsf"] == ("done", 0) and states["c.qsf"] == ("rejected", 6)
    assert sorted(path.name for path in (tmp_path / "out").glob("*.qsf")) == ["b.qsf", "c.rejected.qsf"]


def test_a_mistaken_list_is_an_error_before_anything_is_done(cluster, jobs, tmp_path):
    jobs.write_text('{"model": "none", "output": "a.qsf"}\n{"qant": "4bit"}\n')
    _, stderr = (process := batch(cluster, jobs, tmp_path / "out")).communicate(timeout=60)
    assert process.returncode == 2 and "line 1" in stderr and '"qant"' in stderr
    assert not (tmp_path / "out").exists()


def test_an_evaluation_in_parts_has_the_bits_of_one_run_though_a_node_is_killed_at_one(cluster, demo, long_text, program):
    model, base = demo / "demo-1m-3bit.qsf", demo / "demo-1m"
    whole = json.loads(program("qsf-eval", model, "--file", long_text, "--base", base, "--ctx", "256", "--json"))
    process = split(cluster, "evaluate", model, long_text, "--base", base, "--ctx", "256", "--parts", "5", "--json")
    kill_a_node_at_work(cluster, "part")
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert "lost with its node" in stderr
    found = json.loads(stdout)
    assert len(found.pop("parts")) == 5
    assert found.pop("seconds") > 0 and whole.pop("seconds") > 0
    assert found == whole


def test_a_calibration_in_shards_gives_the_bytes_of_the_same_shards_on_one_machine(cluster, demo, long_text, program, tmp_path):
    model, out = demo / "demo-1m", tmp_path / "out.stats"
    text = ("--calibration", long_text, "--calibration-tokens", "60000")
    shards = [tmp_path / f"alone-{i}" for i in range(1, 5)]
    for i, shard in enumerate(shards, 1):
        program("qsf-convert", model, "--stats-only", *text, "--stats-part", f"{i}/4", "--stats-out", shard)
    program("qsf-convert", "--merge-stats", *shards, "--stats-out", tmp_path / "alone")
    process = split(cluster, "calibrate", model, *text, "--shards", "4", "-o", out, "--json")
    kill_a_node_at_work(cluster, "shard")
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert "lost with its node" in stderr
    assert json.loads(stdout) == {"path": str(out), "tokens": 60000, "shards": 4}
    assert out.read_bytes() == (tmp_path / "alone").read_bytes()
    assert [path.name for path in tmp_path.glob("out.stats*")] == ["out.stats"]
    program("qsf-convert", model, tmp_path / "fitted.qsf", "-q", "3bit", "--stats-in", out)


def test_parts_that_cannot_be_made_are_errors_of_the_whole(cluster, demo, text, tmp_path):
    model, out = demo / "demo-1m", tmp_path / "out.stats"
    (tmp_path / "there.stats").write_text("")
    for words, exit_code, says in [
        (("evaluate", model, text, "--parts", "1000"), 2, "make at most"),
        (("evaluate", model, tmp_path / "nowhere", "--parts", "2"), 3, "nowhere"),
        (("evaluate", model, text, "--base", tmp_path / "nowhere", "--parts", "2"), 3, "nowhere"),
        (("calibrate", model, "--calibration", text, "--shards", "1000", "-o", out), 2, "make at most"),
        (("calibrate", model, "--calibration", tmp_path / "nowhere", "--shards", "1", "-o", out), 3, "nowhere"),
        (("calibrate", model, "--calibration", text, "--shards", "2", "-o", tmp_path / "there.stats"), 2, "exists"),
        # Every machine finds that it cannot write; one of them is named.
        (("calibrate", model, "--calibration", text, "--shards", "2", "-o", tmp_path / "none" / "out"), 3, "shard"),
    ]:
        _, stderr = (process := split(cluster, *words)).communicate(timeout=120)
        assert process.returncode == exit_code and says in stderr and "Traceback" not in stderr, (words, stderr)
    assert not out.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["there.stats"]


def test_ctrl_c_stops_all_parts_and_shards_that_are_done_are_not_made_again(cluster, demo, long_text, tmp_path):
    out = tmp_path / "out.stats"
    words = ("calibrate", demo / "demo-1m", "--calibration", long_text, "--calibration-tokens", "60000", "--shards", "6", "-o", out)
    process = split(cluster, *words)
    done = wait_for(lambda: [path for path in tmp_path.glob("out.stats.*-of-6")])
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on" in stderr
    assert not out.exists() and all(path.exists() for path in done)
    made = {path: changed(path) for path in done}
    process = split(cluster, *words)
    while process.poll() is None:
        # They go when the whole is there.
        assert all(changed(path) in (None, made[path]) for path in done)
        time.sleep(0.02)
    stdout, stderr = process.communicate()
    assert process.returncode == 0 and "60000 tokens" in stdout, stderr
