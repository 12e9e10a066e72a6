"""The process of one job of a batch: python -P -m qsf.job_process WORDS is qsf-convert --batch-worker WORDS.

It talks with the one that started it by stdin and stdout, and ends with it.
"""
import sys

from qsf._qsf import job_process, run_errand

# Not the folder that it runs in, which is that of the list: a file there could have the name of a module.
PROGRAM = [sys.executable, "-P", "-m", "qsf.job_process"]


def do_job(errand):
    """Does a job that another machine has an errand of, in such a process, and gives its record."""
    return run_errand(errand, PROGRAM)


if __name__ == "__main__":
    sys.exit(job_process(sys.argv[1:]))
