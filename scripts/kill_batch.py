#!/usr/bin/env python3
"""Kills a batch of conversions at random moments, starts it again until it is done, and compares it with one that nobody disturbed.

    kill_batch.py QSF_CONVERT TEXT MODEL_DIR... [--kills 50] [--seed 1] [--copies 24] [--tokens 4096] [--types TYPE,...]

The batch: every one of the types of each model, `copies` times with another matrix in 8 bits (0: once, as the type is), and with
`tokens` above 0 two conversions with a calibration text, which keep a journal. After every kill, what has a final name must be whole: the same bytes as undisturbed. Prints
one JSON object; exit code 0 when every file is the same and the work was at most 1.5 times that of the undisturbed run.

Work is wall time of all runs, killed ones included: a batch that is killed takes its jobs with it. On Linux their processor time is printed,
too: on a machine that does other things it says more.
"""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time


# As Linux numbers it: processes of jobs whose batch was killed become children of this one, so that their time counts.
PR_SET_CHILD_SUBREAPER = 36


def processor_seconds():
    """Processor time of all processes that have ended, orphans included."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime


def run(command, seconds=None):
    """Runs the batch, for so many seconds at most: exit code (None if it was killed), wall time and processor time."""
    started, before = time.monotonic(), processor_seconds()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = child.communicate(timeout=seconds)
        code = child.returncode
        if code not in (0, None):
            sys.exit(f"exit code {code}: {said.decode()}")
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        code = None
    wall = time.monotonic() - started
    return code, wall, processor_seconds() - before


def hashes(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.qsf"))
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("text")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copies", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--types", default="2bit,3bit,4bit,8bit,ternary,2bit-sym,f16,mixed")
    args = parser.parse_args()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    moments = random.Random(args.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kill_batch_"))
    models, text = [os.path.abspath(model) for model in args.models], os.path.abspath(args.text)
    kinds = ("ffn_down", "ffn_up", "ffn_gate", "attn_q", "attn_k", "attn_v", "attn_output")
    others = [{"tensor_type": f"layer {layer} {kind}=8bit"} for kind in kinds for layer in range(4)]
    jobs = [
        {"model": model, "output": f"{number}-{quant}-{i}.qsf", "quant": quant, **other}
        for i, other in enumerate(others[: args.copies] or [{}])
        for number, model in enumerate(models)
        for quant in args.types.split(",")
    ]
    for quant in ("3bit", "n3") if args.tokens else ():
        jobs.append({
            "model": models[0], "output": f"fitted-{quant}.qsf", "quant": quant, "calibration": text,
            "calibration_tokens": args.tokens,
        })
    listed = folder / "jobs.jsonl"
    listed.write_text("".join(json.dumps(job) + "\n" for job in jobs))

    def command(out):
        return [args.program, "--batch", str(listed), "--out-dir", str(folder / out)]

    _, undisturbed_seconds, undisturbed_processor = run(command("undisturbed"))
    expected = hashes(folder / "undisturbed")
    assert len(expected) == len(jobs), f"{len(expected)} of {len(jobs)} files"

    kills, wrong, code = 0, 0, None
    wall = processor = 0.0
    while code is None:
        # As many moments as are wanted, spread over the time that the whole takes.
        limit = moments.uniform(0.02, 2 * undisturbed_seconds / args.kills) if kills < args.kills else None
        code, seconds, processor_time = run(command("killed"), limit)
        wall += seconds
        processor += processor_time
        kills += code is None
        found = hashes(folder / "killed")
        wrong += sum(expected.get(name) != found[name] for name in found)
    work = wall / undisturbed_seconds
    same = hashes(folder / "killed") == expected
    left = sorted(path.name for path in (folder / "killed").iterdir() if path.suffix not in (".qsf",))
    print(json.dumps({
        "jobs": len(jobs), "kills": kills, "same_bytes": same, "wrong_under_final_name": wrong,
        "undisturbed_seconds": round(undisturbed_seconds, 2),
        "seconds_of_all_runs": round(wall, 2), "work": round(work, 3),
        "processor_seconds": [round(undisturbed_processor, 2), round(processor, 2)],
        "processor_work": round(processor / undisturbed_processor, 3), "left": left,
    }))
    sys.exit(0 if same and wrong == 0 and work <= 1.5 else 1)


if __name__ == "__main__":
    main()
