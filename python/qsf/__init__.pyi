from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any

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
_Option = str | int | float | bool | PathLike[str] | Sequence[str | PathLike[str]] | None
_Progress = Callable[[str, int, int], object]

def convert(model: _Path, out: _Path, *, progress: _Progress | None = None, **options: _Option) -> dict[str, Any]: ...
def inspect(
    path: _Path, *, tensors: bool = False, verify: bool = False, allow_plain: bool = False
) -> dict[str, Any]: ...
def evaluate(
    model: _Path, text: _Path, base: _Path | None = None, *, progress: _Progress | None = None, **options: _Option
) -> dict[str, Any]: ...
def generate(
    model: Model | _Path,
    prompt: str,
    *,
    threads: int | None = None,
    max_tokens: int | None = None,
    temperature: float = 0.7,
    top_k: int = 40,
    top_p: float = 0.9,
    min_p: float = 0.0,
    seed: int | None = None,
    chat: bool = False,
    system_prompt: str | None = None,
    on_token: Callable[[str], bool | None] | None = None,
) -> str: ...
def open(path: _Path) -> TensorFile: ...

class Model:
    def __init__(self, path: _Path, *, threads: int | None = None) -> None: ...
    def generate(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.7,
        top_k: int = 40,
        top_p: float = 0.9,
        min_p: float = 0.0,
        seed: int | None = None,
        chat: bool = False,
        system_prompt: str | None = None,
        on_token: Callable[[str], bool | None] | None = None,
    ) -> str: ...
    def stream(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.7,
        top_k: int = 40,
        top_p: float = 0.9,
        min_p: float = 0.0,
        seed: int | None = None,
        chat: bool = False,
        system_prompt: str | None = None,
    ) -> TextStream: ...
    def tokenize(self, text: str) -> list[int]: ...
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
