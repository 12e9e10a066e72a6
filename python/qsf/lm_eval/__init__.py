"""Models of qsf in lm-evaluation-harness. Importing this registers the model "qsf"; `python -m qsf.lm_eval` is its program with it:

    python -m qsf.lm_eval --model qsf --model_args pretrained=model.qsf --tasks hellaswag
"""
try:
    import lm_eval.api.registry  # noqa: F401  (says early what is missing)
except ImportError as error:
    raise ImportError("qsf.lm_eval needs lm-evaluation-harness: pip install 'qsf[lm-eval]'") from error

from qsf.lm_eval.model import QsfLM

__all__ = ["QsfLM"]
