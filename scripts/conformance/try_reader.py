#!/usr/bin/env python3
"""Tries the second reader (scripts/qsf_file.py) on tests/conformance: every value of the accepted files, every refusal of the others.

Needs NumPy, lz4 and zstandard. Prints what is wrong; exit code 1 if anything is.
"""
import json
import os
import struct
import sys
import tempfile
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "tests", "conformance")
sys.path.insert(0, os.path.join(HERE, ".."))
from qsf_file import Reader  # noqa: E402
from qsf_lint import kind_faults  # noqa: E402
from qsf_meta import TYPES, Damage  # noqa: E402
from qsf_parts import join  # noqa: E402


def load(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        return f.read()


def faults_of(r):
    """What keeps a program from running a file, after all checks."""
    faults = list(kind_faults(r, [(t, r.name(t)) for t in r.verify()]))
    return faults + ([] if r.runnable else ["a plain file that cannot be run"])


def try_accepted(case):
    r = Reader(os.path.join(FOLDER, case["name"] + ".qsf"))
    floats = load(case["name"] + ".f32") if any("values_at" in t for t in case["tensors"]) else b""
    found = list(r.verify())
    if len(found) != len(case["tensors"]):
        yield f"{len(found)} tensors instead of {len(case['tensors'])}"
    for t, want in zip(found, case["tensors"]):
        is_known = r.kind_name(t) in (want["name"], f"{want['name']} {t.kind}") or not r.extended
        have = dict(layer=t.layer, kind=t.kind, rows=t.rows, cols=t.cols, type=TYPES[t.type], layout=t.layout)
        if not is_known or any(want[k] != v for k, v in have.items()) or bool(t.flags) != want.get("optional", False):
            yield f"{r.name(t)} is {have}, not {want}"
        data = np.ascontiguousarray(r.values(t)).tobytes()
        if f"{zlib.crc32(data):08x}" != want["values_crc32"]:
            yield f"{r.name(t)}: other values"
        if "values_at" in want and data != floats[want["values_at"]:want["values_at"] + len(data)]:
            yield f"{r.name(t)}: values are not those of the .f32 file"
    for want in case.get("matrices", []):
        whole = join(r.parts, [t for t in found if t.layer == want["layer"]], r.values)[want["kind"]]
        if whole.shape != (want["rows"], want["cols"]) or f"{zlib.crc32(np.ascontiguousarray(whole).tobytes()):08x}" != want["values_crc32"]:
            yield f"{want['name']}: other values once its parts are one"
    if len(r.parts) != len(case.get("matrices", [])):
        yield f"{len(r.parts)} matrices in parts"
    faults = faults_of(r)
    if bool(faults) == case["runs"]:
        yield f"runs: {case['runs']}, faults: {faults}"


def refused_bytes(case):
    data = bytearray(load(case["base"] + ".qsf"))
    data = data[:case["size"]] + bytes(case["size"] - len(data[:case["size"]]))
    for at, text in case["edits"]:
        edit = bytes.fromhex(text)
        data[at:at + len(edit)] = edit
    return data


def try_refused(case, path):
    with open(path, "wb") as f:
        f.write(refused_bytes(case))
    try:
        faults = faults_of(Reader(path))
    except (Damage, struct.error) as e:
        if case["when"] == "run" or isinstance(e, struct.error):
            yield f"refused too early: {e!r}"
        return
    if case["when"] != "run" or not faults:
        yield f"not refused: {case['why']}"


def main():
    wrong = 0
    accepted, refused = json.loads(load("accepted.json")), json.loads(load("refused.json"))
    with tempfile.TemporaryDirectory() as folder:
        for case in accepted + refused:
            tried = try_accepted(case) if "tensors" in case else try_refused(case, os.path.join(folder, case["name"]))
            try:
                for what in tried:
                    wrong += 1
                    print(f"{case['name']}: {what}")
            except Damage as e:
                wrong += 1
                print(f"{case['name']}: refused: {e}")
    print(f"{len(accepted)} files accepted, {len(refused)} refused" if not wrong else f"{wrong} disagreements")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
