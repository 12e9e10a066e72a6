"""Models of qsf in lm-evaluation-harness. Importing this registers the model "qsf"; `python -m qsf.lm_eval` is its program with it:

    python -m qsf.lm_eval --model qsf --model_args pretrained=model.qsf --tasks hellaswag
"""
try:
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise ImportError("qsf.lm_eval needs lm-evaluation-harness: pip install 'qsf[lm-eval]'") from error

from qsf.lm_eval.model import QsfLM

register_model("qsf")(QsfLM)

__all__ = ["QsfLM"]
