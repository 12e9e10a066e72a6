"""A list of conversions, done by many machines: python -m qsf.batch JOBS --out-dir DIR --engine ray.

The list, the files and results.jsonl are those of qsf-convert --batch (docs/batch.md), and so are the exit codes.
"""
import argparse
import contextlib
import json
import signal
import sys

from qsf._qsf import Batch
from qsf.errors import QsfError
from qsf.job_process import PROGRAM

INTERRUPTED = 130
JOBS_FAILED = 6
USAGE = 2


def parse(words=None):
    parser = argparse.ArgumentParser(prog="python -m qsf.batch", description="Do all conversions that a file lists, on the "
                                     "machines of a cluster. What is done already is skipped.",
                                     epilog="Exit codes: 0 ok, 2 usage, 3 bad input, 5 out of memory or disk, 6 some jobs failed, "
                                     "130 interrupted.")
    parser.add_argument("jobs", metavar="JOBS", help="list of jobs, JSONL or TOML by its name, as for qsf-convert --batch")
    parser.add_argument("--out-dir", metavar="DIR", required=True, help="folder for the files and for results.jsonl, which all "
                        "machines see by the same name, as they do the list and what it names")
    parser.add_argument("--engine", choices=["ray"], default="ray", help="what runs the jobs (default: %(default)s)")
    parser.add_argument("--address", metavar="HOST:PORT", help="the cluster, such as auto or 10.0.0.1:6379 (default: what the "
                        "engine finds, else a cluster of this machine alone)")
    parser.add_argument("--retry", metavar="N", type=retries, default=2, help="how often a job is tried again that failed by an "
                        "error of a disk or network, or whose machine was lost (default: %(default)s)")
    parser.add_argument("--fail-fast", action="store_true", help="after the first job that fails start no other")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser.parse_args(words)


def retries(text):
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError("expected 0 to 100")
    return number


def interrupt(signal_number, frame):
    raise KeyboardInterrupt


def main(words=None):
    args = parse(words)
    try:
        from qsf import ray_engine
    except ImportError as error:
        print(f"error: {error}: --engine ray needs Ray: pip install 'qsf[ray]'", file=sys.stderr)
        return USAGE
    # As the programs do.
    signal.signal(signal.SIGTERM, interrupt)
    try:
        batch = Batch(args.jobs, args.out_dir, PROGRAM, args.retry)
        # Ray says on stdout what happens to nodes.
        with contextlib.redirect_stdout(sys.stderr):
            stopped = ray_engine.run(batch, args.address, args.retry, args.fail_fast)
    except KeyboardInterrupt:
        print("error: interrupted: the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except QsfError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    table, summary = batch.summary()
    print(json.dumps(summary, indent=2) + "\n" if args.json else table, end="")
    left = summary["total"] - summary["done"]
    if stopped:
        print(f"error: interrupted: {summary['done']} of {summary['total']} jobs are done, and the same command does the others",
              file=sys.stderr)
        return INTERRUPTED
    if left:
        print(f"error: {left} of {summary['total']} jobs failed", file=sys.stderr)
        return JOBS_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
