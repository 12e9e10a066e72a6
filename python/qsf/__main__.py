"""The programs qsf-convert, qsf-inspect, qsf-eval and qsf-run: python -m qsf PROGRAM ..., with nothing else to install."""
import sys

from qsf._qsf import __version__, run_program

PROGRAMS = ("convert", "inspect", "eval", "run")
USAGE = """Usage: python -m qsf PROGRAM ...

  convert  HuggingFace or GGUF models to QSF files (qsf-convert)
  inspect  what is in models, and whether files are whole (qsf-inspect)
  eval     perplexity, and the divergence from a base model (qsf-eval)
  run      text from a model (qsf-run)

python -m qsf PROGRAM --help shows the options."""


def be(program, words):
    """Is a program, and gives its exit code."""
    # Without the folder that it runs in, where a file could have the name of a module.
    return run_program(program, words, [sys.executable, "-P", "-m", "qsf", program])


def convert():
    return be("convert", sys.argv[1:])


def inspect():
    return be("inspect", sys.argv[1:])


def evaluate():
    return be("eval", sys.argv[1:])


def run():
    return be("run", sys.argv[1:])


def main():
    words = sys.argv[1:]
    if words and words[0] in PROGRAMS:
        return be(words[0], words[1:])
    if words in (["--version"], ["-V"]):
        print("qsf", __version__)
        return 0
    if words in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    given = f"there is no program {words[0]!r}" if words else "no program given"
    print(f"error: {given}: expected {', '.join(PROGRAMS)}; python -m qsf --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
