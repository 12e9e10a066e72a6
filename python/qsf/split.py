"""The work on one model, done by many machines: python -m qsf.split evaluate MODEL TEXT --parts N, and
python -m qsf.split calibrate MODEL --calibration TEXT --shards N -o STATS.

The figures are those of qsf-eval, to the last bit; the statistics are what qsf-convert --stats-in takes (docs/batch.md).
"""
import argparse
import json
import sys

from qsf import cluster
from qsf.errors import QsfError
from qsf.split_work import Calibration, Evaluation, calibrate_part, evaluate_part

EXIT_CODES = "Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory or disk, 130 interrupted."
RETRIED = "tried again whose machine was lost"
GOES_ON = ": the same command goes on behind the shards that are done"


def parse(words=None):
    parser = argparse.ArgumentParser(prog="python -m qsf.split", description="Share the work on one model among the machines of a "
                                     "cluster, which all see models and texts by the same names.", epilog=EXIT_CODES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("evaluate", help="what qsf-eval does, by parts of the text", epilog=EXIT_CODES,
                                  description="Perplexity of a model on a text, and its distance from a base, as qsf-eval gives them, "
                                  "to the last bit.")
    command.add_argument("model", metavar="MODEL", help="QSF file, HuggingFace directory or GGUF file")
    command.add_argument("text", metavar="TEXT", help="text to evaluate on")
    command.add_argument("--base", metavar="MODEL2", help="model to measure the divergence from")
    command.add_argument("--ctx", metavar="N", type=int, help="tokens per chunk (default: 512)")
    command.add_argument("--chunks", metavar="N", type=int, help="chunks to evaluate (default: all of the text)")
    command.add_argument("--parts", metavar="N", type=count, required=True, help="tasks to make of it")
    cluster.add_arguments(command, "part", RETRIED)

    command = commands.add_parser("calibrate", help="what qsf-convert --stats-only does, by parts of the text", epilog=EXIT_CODES,
                                  description="Statistics of the inputs of a model's matrices on a text, in a file for qsf-convert "
                                  "--stats-in.")
    command.add_argument("model", metavar="MODEL", help="HuggingFace directory, GGUF file or QSF file")
    command.add_argument("--calibration", metavar="TEXT", nargs="+", required=True, help="text or JSONL files")
    command.add_argument("--calibration-tokens", metavar="N", type=int, help="tokens to use (default: as qsf-convert)")
    command.add_argument("--chat-template", action="store_true", help="conversations go through the model's chat template")
    command.add_argument("--shards", metavar="N", type=count, required=True, help="tasks to make of it")
    command.add_argument("-o", "--out", metavar="STATS", required=True, help="statistics file to write, in a folder that all "
                         "machines see; meanwhile those of shards are beside it")
    command.add_argument("-f", "--force", action="store_true", help="replace it, and files of shards, if they exist")
    cluster.add_arguments(command, "shard", RETRIED)
    return parser.parse_args(words)


def count(text):
    number = int(text)
    if not 1 <= number <= 100_000:
        raise argparse.ArgumentTypeError("expected 1 to 100000")
    return number


def split(args):
    """The work that a command line asks for, and what a machine does with an errand of it."""
    if args.command == "evaluate":
        options = {"ctx": args.ctx, "chunks": args.chunks}
        return Evaluation(args.model, args.text, args.base, options, args.parts), evaluate_part
    options = {"calibration": args.calibration, "calibration_tokens": args.calibration_tokens, "chat_template": args.chat_template}
    return Calibration(args.model, args.out, options, args.shards, args.force), calibrate_part


def main(words=None):
    args = parse(words)
    try:
        cluster.engine()
        cluster.hear_termination()
        work, do_errand = split(args)
        stopped = cluster.run(work, do_errand, args, fail_fast=True)
        if not stopped and work.failure is None:
            text, found = work.finish()
            print(json.dumps(found, indent=2) + "\n" if args.json else text, end="")
            return 0
    except KeyboardInterrupt:
        stopped = True
    except QsfError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if stopped:
        print(f"error: interrupted{GOES_ON if args.command == 'calibrate' else ''}", file=sys.stderr)
        return cluster.INTERRUPTED
    exit_code, error = work.failure
    print(f"error: {error}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
