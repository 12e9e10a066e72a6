from typing import Any

import qsf

# A model of lm-evaluation-harness, which has no types: its TemplateLM is the base class.
class QsfLM:
    model: qsf.Model
    def __init__(
        self,
        pretrained: str,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = None,
        device: str | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        **options: Any,
    ) -> None: ...
    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]: ...
    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]: ...
    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]: ...
