"""What can go wrong. Each class is an exit code of the programs."""


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
