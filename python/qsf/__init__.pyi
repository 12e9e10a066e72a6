from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from qsf.errors import (
    BadInputError as BadInputError,
    MissedLimitsError as MissedLimitsError,
    OutOfMemoryError as OutOfMemoryError,
    OutOfSpaceError as OutOfSpaceError,
    QsfError as QsfError,
    UnsupportedModelError as UnsupportedModelError,
    UsageError as UsageError,
)

_Path = str | PathLike[str]
_Paths = _Path | Sequence[_Path]
# As on the command line: "24MB"; a number alone is megabytes.
_Size = str | int | float
_Type = str | Literal[2, 3, 4, 8]
_Progress = Callable[[str, int, int], object]
# A text, or its token ids.
_Text = str | Sequence[int] | npt.NDArray[np.integer[Any]]
_OnToken = Callable[[str], bool | None]
# Dicts with "role", "content" and what else a chat template knows; JSON schemas of what may be called.
_Messages = Iterable[dict[str, Any]] | Iterable[dict[str, str]]
_Tools = Iterable[dict[str, Any]]

class _Convert(TypedDict, total=False):
    merge_lora: _Paths | None
    embed_lora: _Paths | None
    quant: _Type | None
    quant_type: _Type | None
    tensor_type: str | Sequence[str] | None
    outliers: str | None
    min_cosine: float | None
    block_size: Literal[32, 64, 128, 256] | None
    q_group_size: Literal[32, 64, 128, 256] | None
    group_size: Literal[32, 64, 128, 256] | None
    compress: Literal["none", "lz4", "lz4hc", "zstd"] | None
    layout: Literal["panels", "rows"] | None
    target_size: _Size | None
    target_bpw: float | None
    gguf_types: str | Sequence[str] | None
    plan: _Path | None
    save_plan: _Path | None
    to: Literal["qsf", "gguf", "hf", "compressed-tensors", "mlx"] | None
    dtype: Literal["f32", "f16", "bf16"] | None
    shard_size: _Size | None
    split_size: _Size | None
    imatrix: _Path | None
    calibration: _Paths | None
    calibration_tokens: int | None
    effort: Literal["low", "normal", "high", "max"] | None
    chat_template: bool | None
    stats_in: _Paths | None
    stats_out: _Path | None
    clusters: int | None
    early_exit: bool | None
    eval: _Path | None
    eval_text: _Path | None
    eval_chunks: int | None
    max_kld: float | None
    max_ppl_increase: str | float | None
    max_size: _Size | None
    skip_tokenizer_check: bool | None
    force: bool | None
    allow_requantize: bool | None
    revision: str | None
    upload: str | None
    private: bool | None
    threads: int | None

class _Calibrate(TypedDict, total=False):
    calibration: _Paths | None
    calibration_tokens: int | None
    chat_template: bool | None
    stats_in: _Paths | None
    stats_part: str | None
    force: bool | None
    revision: str | None
    threads: int | None

class _Evaluate(TypedDict, total=False):
    ctx_size: int | None
    ctx: int | None
    chunks: int | None
    part: str | None
    part_out: _Path | None
    force: bool | None
    store: bool | None
    save_base: _Path | None
    activations: Literal["int8", "int8-128", "f32"] | None
    head: str | None
    quality: float | None
    early_exit: float | None
    lora: _Paths | None
    no_lora: bool | None
    ram_budget: _Size | None
    io: Literal["mmap", "pread", "direct"] | None
    kv_type: str | None
    kv_window: int | None
    kv_policy: Literal["window", "h2o"] | None
    device: Literal["cpu", "gpu", "auto"] | None
    threads: int | None

class _EvaluateTask(TypedDict, total=False):
    few_shot: int | None
    few_shot_file: _Path | None
    limit: int | None
    task_out: _Path | None
    force: bool | None
    ctx_size: int | None
    ctx: int | None
    activations: Literal["int8", "int8-128", "f32"] | None
    head: str | None
    quality: float | None
    lora: _Paths | None
    no_lora: bool | None
    ram_budget: _Size | None
    io: Literal["mmap", "pread", "direct"] | None
    kv_type: str | None
    device: Literal["cpu", "gpu", "auto"] | None
    threads: int | None

# Defaults are in the documentation of Model.stream.
class _Sampling(TypedDict, total=False):
    max_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    repeat_last_n: int
    stop: str | Sequence[str] | None
    ignore_eos: bool

class _Generation(_Sampling, total=False):
    chat: bool
    system_prompt: str | None

__version__: str

def convert(
    model: _Path, out: _Path, *, progress: _Progress | None = None, **options: Unpack[_Convert]
) -> dict[str, Any]: ...
def inspect(
    path: _Path, *, tensors: bool = False, verify: bool = False, allow_plain: bool = False
) -> dict[str, Any]: ...
def diff(a: _Path, b: _Path, *, progress: _Progress | None = None) -> dict[str, Any]: ...
def report(
    files: Sequence[_Path],
    out: _Path,
    *,
    card: _Path | None = None,
    base_model: str | None = None,
    license: str | None = None,
    force: bool = False,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def evaluate(
    model: _Path,
    text: _Path,
    base: _Path | None = None,
    *,
    progress: _Progress | None = None,
    **options: Unpack[_Evaluate],
) -> dict[str, Any]: ...
def evaluate_task(
    model: _Path,
    task: Literal["hellaswag", "winogrande", "arc", "piqa", "mmlu", "truthfulqa_mc", "lambada"],
    task_file: _Path,
    base: _Path | None = None,
    *,
    progress: _Progress | None = None,
    **options: Unpack[_EvaluateTask],
) -> dict[str, Any]: ...
def calibrate(
    model: _Path, out: _Path, *, progress: _Progress | None = None, **options: Unpack[_Calibrate]
) -> dict[str, Any]: ...
def merge_statistics(files: Sequence[_Path], out: _Path, *, force: bool = False) -> dict[str, Any]: ...
def join_evaluation(parts: Sequence[_Path]) -> dict[str, Any]: ...
def generate(
    model: Model | _Path,
    prompt: str,
    *,
    threads: int | None = None,
    on_token: _OnToken | None = None,
    **options: Unpack[_Generation],
) -> str: ...
def open(path: _Path) -> TensorFile: ...

class Model:
    def __init__(
        self,
        path: _Path,
        *,
        verbose: bool = False,
        threads: int | None = None,
        ram_budget: str | float | None = None,
        huge_pages: Literal["auto", "off"] | None = None,
        ctx_size: int | None = None,
        kv_type: str | None = None,
        kv_window: int | None = None,
        kv_policy: str | None = None,
        lora: _Paths | None = None,
        no_lora: bool | None = None,
        activations: str | None = None,
        quality: float | None = None,
        early_exit: float | None = None,
        head: str | None = None,
        device: Literal["cpu", "auto"] | None = None,
    ) -> None: ...
    def generate(self, prompt: str, *, on_token: _OnToken | None = None, **options: Unpack[_Generation]) -> str: ...
    def stream(self, prompt: str, **options: Unpack[_Generation]) -> TextStream: ...
    def batch_generate(
        self,
        prompts: Sequence[_Text],
        *,
        sequences: int = 64,
        progress: _Progress | None = None,
        **options: Unpack[_Generation],
    ) -> list[str]: ...
    # Shape (tokens, vocabulary).
    def logits(self, text: _Text) -> npt.NDArray[np.float32]: ...
    # Shapes (continuations,): log-likelihoods, and whether greedy decoding gives them.
    def score(
        self, contexts: _Text | Sequence[_Text], continuations: _Text | Sequence[_Text]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]: ...
    # Shape (prompts, labels), without labels (prompts, vocabulary).
    def classify(
        self,
        prompts: Sequence[_Text],
        labels: Sequence[str] | None = None,
        *,
        progress: _Progress | None = None,
    ) -> npt.NDArray[np.float32]: ...
    # Shape (hidden,), of a list (texts, hidden).
    def embed(
        self, texts: _Text | Sequence[_Text], *, pooling: Literal["last", "mean"] = "last"
    ) -> npt.NDArray[np.float32]: ...
    def attention(
        self, text: _Text, *, layers: Sequence[int] | None = None
    ) -> dict[str, npt.NDArray[np.float32]]: ...
    def chat(
        self,
        messages: _Messages,
        *,
        tools: _Tools | None = None,
        on_token: _OnToken | None = None,
        **options: Unpack[_Sampling],
    ) -> str: ...
    def chat_stream(
        self, messages: _Messages, *, tools: _Tools | None = None, **options: Unpack[_Sampling]
    ) -> TextStream: ...
    def chat_text(
        self, messages: _Messages, *, tools: _Tools | None = None, prompt_reply: bool = True
    ) -> str: ...
    @property
    def chat_template(self) -> str | None: ...
    @property
    def config(self) -> dict[str, Any]: ...
    @property
    def context(self) -> int: ...
    @property
    def start_token(self) -> int | None: ...
    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]: ...
    def detokenize(self, ids: Sequence[int], *, skip_special: bool = True) -> str: ...

class TextStream(Iterator[str]):
    def __next__(self) -> str: ...
    def close(self) -> None: ...

class TensorFile:
    @property
    def path(self) -> str: ...
    @property
    def config(self) -> dict[str, Any]: ...
    def keys(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, name: str) -> Tensor: ...

class Tensor:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def type(self) -> str: ...
    @property
    def layout(self) -> str | None: ...
    @property
    def block_size(self) -> int | None: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def values(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float32]: ...
    def codes(self) -> npt.NDArray[np.int8]: ...
    def scales(self) -> npt.NDArray[np.float16]: ...
    def mins(self) -> npt.NDArray[np.float16] | None: ...
    def outliers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]: ...
    def raw(self) -> npt.NDArray[np.uint8] | None: ...
