"""The program of lm-evaluation-harness, which knows the model "qsf" here."""
from lm_eval.__main__ import cli_evaluate

import qsf.lm_eval  # noqa: F401  (it registers the model)

if __name__ == "__main__":
    cli_evaluate()
