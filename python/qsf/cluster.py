"""What the command lines share that have a cluster do their work: options, signals, and the engine."""
import argparse
import contextlib
import signal
import sys

from qsf.errors import UsageError

INTERRUPTED = 130


def add_arguments(parser, what, retried):
    """The options of a command whose pieces of work, each a `what`, are done by the machines of a cluster."""
    parser.add_argument("--engine", choices=["ray"], default="ray", help=f"what runs each {what} (default: %(default)s)")
    parser.add_argument("--address", metavar="HOST:PORT", help="the cluster, such as auto or 10.0.0.1:6379 (default: what the "
                        "engine finds, else a cluster of this machine alone)")
    parser.add_argument("--retry", metavar="N", type=retries, default=2, help=f"how often a {what} is {retried} (default: "
                        "%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def retries(text):
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError("expected 0 to 100")
    return number


def engine():
    """The engine, which not everybody has."""
    try:
        from qsf import ray_engine
    except ImportError as error:
        raise UsageError(f"{error}: --engine ray needs Ray: pip install 'qsf[ray]'") from error
    return ray_engine


def hear_termination():
    """SIGTERM does what Ctrl-C does, as in the programs."""
    signal.signal(signal.SIGTERM, interrupt)


def interrupt(signal_number, frame):
    raise KeyboardInterrupt


def run(work, do_errand, args, fail_fast):
    """Has a cluster do the work (see qsf.ray_engine); tells whether it was interrupted."""
    # Ray says on stdout what happens to nodes.
    with contextlib.redirect_stdout(sys.stderr):
        return engine().run(work, do_errand, args.address, args.retry, fail_fast)
