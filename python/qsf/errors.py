"""What can go wrong. Each class is an exit code of the programs."""
from typing import Any


class QsfError(Exception):
    """Any error of this package. `exit_code` is that of the programs for its class.

    Attributes, each None where it does not apply:
        file: the file or directory, as a str.
        tensor: the tensor, as in Tensor.name.
        offset: bytes from the start of the file.
        expected, found: what should be there and what is, as texts.
    What the operating system said is in __cause__, as an OSError.
    """

    exit_code = 2
    file: str | None
    tensor: str | None
    offset: int | None
    expected: str | None
    found: str | None

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        tensor: str | None = None,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.tensor = tensor
        self.offset = offset
        self.expected = expected
        self.found = found


class UsageError(QsfError, ValueError):
    """The request is wrong: an option, a value, an output that exists (exit code 2)."""


class BadInputError(QsfError):
    """An input is missing, malformed or damaged (exit code 3)."""

    exit_code = 3


class UnsupportedModelError(QsfError):
    """A sound input that this version cannot handle (exit code 4)."""

    exit_code = 4


class OutOfSpaceError(QsfError):
    """Memory or disk space ran out (exit code 5)."""

    exit_code = 5


class OutOfMemoryError(OutOfSpaceError, MemoryError):
    """Memory ran out, or a budget of memory is too small."""


class MissedLimitsError(QsfError):
    """A file was made and misses the limits that were set for it: `file` says where it is kept (exit code 6)."""

    exit_code = 6


class _FromSystem(QsfError):
    """Also an OSError: `errno` and `filename` are set, and the text is that of this package."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingFileError(_FromSystem, BadInputError, FileNotFoundError):
    """A file or directory that is not there."""


class ForbiddenFileError(_FromSystem, BadInputError, PermissionError):
    """A file that may not be read or written."""


class DirectoryError(_FromSystem, BadInputError, IsADirectoryError):
    """A directory in place of a file to read."""


class OutputExistsError(_FromSystem, UsageError, FileExistsError):
    """The output exists and may not be replaced: pass force=True."""


class OutputIsDirectoryError(_FromSystem, UsageError, IsADirectoryError):
    """The output is a directory."""


class UnknownOptionError(UsageError, TypeError):
    """A keyword argument that there is not."""


_ALSO: dict[tuple[str, str], type[QsfError]] = {
    ("BadInputError", "FileNotFoundError"): MissingFileError,
    ("BadInputError", "PermissionError"): ForbiddenFileError,
    ("BadInputError", "IsADirectoryError"): DirectoryError,
    ("UsageError", "FileExistsError"): OutputExistsError,
    ("UsageError", "IsADirectoryError"): OutputIsDirectoryError,
    ("UsageError", "TypeError"): UnknownOptionError,
}


def make(name: str, also: str | None, errno: int | None, message: str, **fields: Any) -> QsfError:
    """The exception of the class `name` that is also one of Python's own, where there is such a class."""
    kind = _ALSO.get((name, also or "")) or globals()[name]
    error: QsfError = kind(message, **fields)
    if isinstance(error, OSError):
        error.errno = errno
        error.filename = fields.get("file")
    return error
