"""QSF: quantized language models in one checksummed file.

convert, inspect, diff, report, evaluate, evaluate_task and generate do what the programs qsf-convert, qsf-inspect, qsf-eval and qsf-run do,
with options of the same names; calibrate and merge_statistics make statistics files, join_evaluation makes one evaluation of parts; open gives
the tensors of a model as NumPy arrays; Model keeps a model in memory. Long work runs without the interpreter's lock and stops at
Ctrl-C. Errors are those of qsf.errors.
"""
from qsf._qsf import (
    Model, Tensor, TensorFile, TextStream, __version__, calibrate, convert, diff, evaluate, evaluate_task,
    inspect, join_parts, merge_statistics, open, report,
)
from qsf.errors import (
    BadInputError,
    MissedLimitsError,
    OutOfMemoryError,
    OutOfSpaceError,
    QsfError,
    UnsupportedModelError,
    UsageError,
)

__all__ = [
    "BadInputError", "MissedLimitsError", "Model", "OutOfMemoryError", "OutOfSpaceError", "QsfError", "Tensor", "TensorFile",
    "TextStream", "UnsupportedModelError", "UsageError", "__version__", "calibrate", "convert", "diff", "evaluate",
    "evaluate_task", "generate", "inspect", "join_evaluation", "merge_statistics", "open", "report",
]


def join_evaluation(parts):
    """The evaluation that files are all parts of, as one run of evaluate gives it, to the last bit; "seconds" is that of all parts
    together, and "parts" says more of each.

    parts: the files that evaluate(..., part="1/4", part_out=...) wrote, in any order.
    """
    return join_parts(parts)[1]


def generate(model, prompt, *, threads=None, **options):
    """The text that continues a prompt, as qsf-run prints it.

    model: a Model, or a path, which is loaded for this call alone (then `threads` says how many threads run it).
    prompt and options: those of Model.generate.
    """
    if isinstance(model, Model):
        if threads is not None:
            raise UsageError("threads: a Model has its own; pass it to Model(path, threads=...)")
    else:
        model = Model(model, threads=threads)
    return model.generate(prompt, **options)
