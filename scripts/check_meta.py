#!/usr/bin/env python3
"""Validates META of QSF files against format-spec/schema/meta.schema.json.

    check_meta.py FILE...

Each file's META must be valid, and must not be any more once one thing in it is wrong: a schema that accepts everything proves
nothing. Exit code 1 if not so. Needs Python >= 3.9 and the package jsonschema; numpy, and zstandard or the tool zstd, to read the files.
"""
import copy
import json
import os
import sys

import jsonschema
from qsf_file import Reader

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format-spec", "schema", "meta.schema.json")


def without(*path):
    def change(meta):
        for key in path[:-1]:
            meta = meta[key]
        del meta[path[-1]]
    return change


def put(value, *path):
    def change(meta):
        for key in path[:-1]:
            meta = meta[key]
        meta[path[-1]] = value
    return change


WRONG = {
    "another version": put(2, "version"),
    "no model": without("model"),
    "no provenance": without("provenance"),
    "no options": without("provenance", "options"),
    "sources that are no list": put({}, "provenance", "sources"),
    "an unknown field of model": put(True, "model", "new_field"),
    "an unknown field of norm": put(1, "model", "norm", "groups"),
    "a field of model left out": without("model", "head_dim"),
    "no layers": put(0, "model", "layers"),
    "a width that is text": put("64", "model", "hidden"),
    "a width with a fraction": put(64.5, "model", "hidden"),
    "an unknown activation": put("mish", "model", "activation"),
    "an unknown kind of position": put({"kind": "sinusoidal"}, "model", "position"),
    "a rotary position without base": put({"kind": "rope"}, "model", "position"),
    "a scaling without its factor": put({"kind": "rope", "theta": 1.0, "scaling": {"kind": "linear"}}, "model", "position"),
    "experts without their number": put({"used": 1, "ffn": 1, "normalize_weights": True}, "model", "experts"),
    "a tensor without kind": without("tensors", 0, "kind"),
    "a tensor of an unknown type": put("1bit", "tensors", 0, "type"),
    "a mixed tensor": put("mixed", "tensors", 0, "type"),
    "an error that is text": put("small", "tensors", 0, "relative_error"),
    "rows below zero": put(-1, "tensors", 0, "rows"),
}


def main():
    with open(SCHEMA) as f:
        schema = json.load(f)
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    validator, faults = validator(schema), []
    for path in sys.argv[1:]:
        meta = Reader(path).meta
        if meta is None:
            continue  # a plain file
        faults += [f"{path}: {'/'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(meta)]
        for what, change in WRONG.items():
            wrong = copy.deepcopy(meta)
            change(wrong)
            if validator.is_valid(wrong):
                faults.append(f"{path}: valid with {what}")
    print("\n".join(faults) if faults else f"META of {len(sys.argv) - 1} files is valid, and nothing wrong is")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
