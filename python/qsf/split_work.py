"""The parts that qsf.split makes of an evaluation or of a calibration, and what a machine does with one of them.

The engine (qsf.ray_engine) sees a Split as it sees a batch. All parts are needed, so the first that fails ends the work.
"""
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from qsf._qsf import calibrate, evaluate, evaluation_demand, join_parts, merge_statistics, statistics_demand
from qsf.errors import BadInputError, UsageError

# What stands among the names of calibration texts for text that the model writes itself.
SELF = "self"


class Split:
    """Parts that are numbered from 0 and each return something."""

    def __init__(self, count):
        self.count = count
        self.returned = {}
        # Exit code and message of the first part that failed.
        self.failure = None

    def name(self, position):
        return f"part {position + 1}/{self.count}"

    def demand(self):
        """Bytes of memory that a part takes."""
        raise NotImplementedError

    def demands(self, cores):
        memory, threads = self.demand(), max(cores // self.count, 1)
        return [(position, self.name(position), memory, threads) for position in range(self.count)]

    def take(self, position, tries, returned):
        self.returned[position] = returned
        self.note(f"{self.name(position)}: done, {len(self.returned)} of {self.count}")
        return True

    def give_up(self, position, tries, exit_code, error):
        if self.failure is None:
            self.failure = exit_code, f"{self.name(position)}: {error}"

    def note(self, text):
        print(f"note: {text}", file=sys.stderr)


class Evaluation(Split):
    """An evaluation by parts of its chunks. What a part returns is its file."""

    def __init__(self, model, text, base, options, parts):
        super().__init__(parts)
        self.models = {"model": everywhere(model), "text": everywhere(text), "base": base and everywhere(base)}
        self.options = options

    def demand(self):
        memory, chunks = evaluation_demand(**self.models, **self.options)
        if chunks < self.count:
            raise UsageError(f"--parts {self.count}: the text has {chunks} chunks, which make at most {chunks} parts")
        return memory

    def errand(self, position, cores):
        return {**self.models, **self.options, "part": f"{position + 1}/{self.count}", "threads": cores}

    def finish(self):
        """What comes of all parts: for people, and as a dict."""
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for position in range(self.count):
                files.append(Path(folder, f"{position + 1}-of-{self.count}.part"))
                files[-1].write_bytes(self.returned[position])
            return join_parts(files)


def evaluate_part(errand):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "part")
        evaluate(**errand, part_out=file)
        return file.read_bytes()


class Calibration(Split):
    """A calibration by parts of its text. Their statistics are files beside the one that is wanted, and go when that is there."""

    def __init__(self, model, out, options, shards, force):
        super().__init__(shards)
        self.model, self.out, self.force = everywhere(model), os.path.abspath(out), force
        self.options = {**options, "calibration": [text if text == SELF else everywhere(text) for text in options["calibration"]]}

    def name(self, position):
        return f"shard {position + 1}/{self.count}"

    def file(self, position):
        return f"{self.out}.{position + 1}-of-{self.count}"

    def demand(self):
        # Said now, not after the work.
        if os.path.lexists(self.out) and not self.force:
            raise UsageError(f"{self.out}: the file exists; pass --force to replace it")
        self.hashes = {text: hash_of(text) for text in self.options["calibration"] if text != SELF}
        memory, _ = statistics_demand(self.model, self.out, stats_part=f"1/{self.count}", **self.options)
        return memory

    def errand(self, position, cores):
        options = {**self.options, "stats_part": f"{position + 1}/{self.count}", "force": self.force, "threads": cores}
        return {"model": self.model, "out": self.file(position), "texts": self.hashes, "options": options}

    def finish(self):
        files = [self.file(position) for position in range(self.count)]
        merged = merge_statistics(files, self.out, force=self.force)
        for file in files:
            os.remove(file)
        found = {**merged, "shards": self.count}
        return f"{self.out}: statistics of {merged['tokens']} tokens, from {self.count} shards\n", found


def calibrate_part(errand):
    for text, expected in errand["texts"].items():
        # Of an evaluation the parts say so; statistics know their own part of the text only.
        if hash_of(text) != expected:
            raise BadInputError(f"{text}: this machine sees another text under this name", file=text)
    return calibrate(errand["model"], errand["out"], **errand["options"])["tokens"]


def hash_of(path):
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInputError(f"{path}: cannot open: {error.strerror}", file=path) from error


def everywhere(path):
    """The path as another machine, with another working directory, has to be told; names of the hub stay."""
    return os.path.abspath(path) if os.path.exists(path) else path
