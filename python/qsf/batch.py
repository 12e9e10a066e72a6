"""A list of conversions, done by many machines: python -m qsf.batch JOBS --out-dir DIR --engine ray.

The list, the files and results.jsonl are those of qsf-convert --batch (docs/batch.md), and so are the exit codes.
"""
import argparse
import json
import sys

from qsf import cluster
from qsf._qsf import Batch
from qsf.errors import QsfError
from qsf.job_process import PROGRAM, do_job

JOBS_FAILED = 6


def parse(words=None):
    parser = argparse.ArgumentParser(prog="python -m qsf.batch", description="Do all conversions that a file lists, on the "
                                     "machines of a cluster. What is done already is skipped.",
                                     epilog="Exit codes: 0 ok, 2 usage, 3 bad input, 5 out of memory or disk, 6 some jobs failed, "
                                     "130 interrupted.")
    parser.add_argument("jobs", metavar="JOBS", help="list of jobs, JSONL or TOML by its name, as for qsf-convert --batch")
    parser.add_argument("--out-dir", metavar="DIR", required=True, help="folder for the files and for results.jsonl, which all "
                        "machines see by the same name, as they do the list and what it names")
    cluster.add_arguments(parser, "job", "tried again that failed by an error of a disk or network, or whose machine was lost")
    parser.add_argument("--fail-fast", action="store_true", help="after the first job that fails start no other")
    return parser.parse_args(words)


def main(words=None):
    args = parse(words)
    try:
        cluster.engine()
        cluster.hear_termination()
        batch = Batch(args.jobs, args.out_dir, PROGRAM, args.retry)
        stopped = cluster.run(batch, do_job, args, args.fail_fast)
    except KeyboardInterrupt:
        print("error: interrupted: the same command goes on", file=sys.stderr)
        return cluster.INTERRUPTED
    except QsfError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    table, summary = batch.summary()
    print(json.dumps(summary, indent=2) + "\n" if args.json else table, end="")
    left = summary["total"] - summary["done"]
    if stopped:
        print(f"error: interrupted: {summary['done']} of {summary['total']} jobs are done, and the same command does the others",
              file=sys.stderr)
        return cluster.INTERRUPTED
    if left:
        print(f"error: {left} of {summary['total']} jobs failed", file=sys.stderr)
        return JOBS_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
