#!/usr/bin/env python3
"""Makes tests/conformance: small QSF files with the values that they decode to, and files that must be refused.

    make.py               write tests/conformance
    make.py --check       fail if what is there is something else
    make.py --refused DIR write each file that must be refused into DIR

Written from format-spec/SPEC.md alone, with Python's standard library alone. The same program makes the same bytes everywhere.
"""
import argparse
import json
import os
import re
import struct
import sys
import zlib

import accepted
import parts
import refused
from blocks import TYPES
from file import build

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
UNKNOWN = {200: "new_vector", 201: "new_matrix", 202: "new_end"}
MOST_FLOATS = 4000  # of a tensor with more only the CRC is stored


def kind_names():
    """The table of section 5."""
    with open(os.path.join(ROOT, "format-spec", "SPEC.md")) as f:
        section = f.read().split("\n## 5 ")[1].split("\n### ")[0]
    names = {int(kind): name for kind, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", section, re.M)}
    names.update({256 * p + kind: f"{names[kind]}.{p}" for kind in (24, 25, 26, 66, 69) for p in (1, 2, 3)})
    return lambda kind: names.get(kind) or UNKNOWN.get(kind, f"new_{kind}")


def tensors_of(spec):
    """In the order of META."""
    yield spec["embedding"]
    for part in (*(layer["tensors"] for layer in spec["layers"]), spec["final"], spec.get("positions", [])):
        yield from part


def describe(name, about, runs, spec, names):
    """(entry of accepted.json, bytes of the .f32 file)."""
    floats, rows = bytearray(), []
    for t in tensors_of(spec):
        data = floats_of(t)
        row = dict(layer=t.layer, kind=t.kind, name=names(t.kind), rows=t.rows, cols=t.cols, type=TYPES[t.t], layout=t.layout,
                   values_crc32=f"{zlib.crc32(data):08x}")
        if t.flags:
            row["optional"] = True
        if len(t.values) <= MOST_FLOATS and has_floats(name, t.kind):
            row["values_at"] = len(floats)
            floats += data
        rows.append(row)
    entry = dict(name=name, about=about, runs=runs, tensors=rows)
    if "matrices" in spec:
        entry["matrices"] = [dict(layer=x.layer, kind=x.kind, name=names(x.kind), rows=x.rows, cols=x.cols, parts=len(x.tensors),
                                  values_crc32=f"{zlib.crc32(floats_of(x)):08x}") for x in spec["matrices"]]
    return entry, bytes(floats)


def floats_of(matrix):
    return struct.pack(f"<{len(matrix.values)}f", *matrix.values)


def has_floats(name, kind):
    """Whether values are kept: of the files of one type those of the embedding and of ffn_down, which fill neither blocks nor panels."""
    return kind in (6, 69) if re.search("-(rows|panels)$", name) else not name.startswith("blocks")


def differences(base, data):
    """[offset, hexadecimal bytes] of what is another in `data`; bytes behind the end of `base` too."""
    out, at = [], 0
    same = lambda i: i < len(base) and base[i] == data[i]
    while at < len(data):
        if same(at):
            at += 1
            continue
        end = at + 1
        while end < len(data) and not all(same(i) for i in range(end, min(end + 4, len(data)))):
            end += 1
        out.append([at, data[at:end].hex()])
        at = end
    return out


def lines(items):
    """JSON with a line for each item."""
    return ("[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items) + "\n]\n").encode()


def make():
    """name -> bytes of every file, and name -> bytes of every refused one."""
    names, files, listing, specs, bad = kind_names(), {}, [], {}, {}
    for name, about, runs, spec in (*accepted.cases(), *parts.accepted()):
        specs[name] = spec
        files[f"{name}.qsf"] = build(spec, names)
        entry, floats = describe(name, about, runs, spec, names)
        listing.append(entry)
        if floats:
            files[f"{name}.f32"] = floats
    files["accepted.json"] = lines(listing)
    listing = []
    for name, base, why, section, when, edits in (*refused.cases(), *parts.refused()):
        good, data = files[f"{base}.qsf"], build(specs[base], names, **edits)
        assert data != good and name not in bad, name
        bad[name] = data
        listing.append(dict(name=name, base=base, why=why, section=section, when=when, size=len(data), edits=differences(good, data)))
    files["refused.json"] = lines(listing)
    return files, bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--check", action="store_true")
    p.add_argument("--refused", metavar="DIR")
    p.add_argument("--out", metavar="DIR", default=os.path.join(ROOT, "tests", "conformance"))
    args = p.parse_args()
    files, bad = make()
    if args.refused:
        os.makedirs(args.refused, exist_ok=True)
        for name, data in bad.items():
            with open(os.path.join(args.refused, name + ".qsf"), "wb") as f:
                f.write(data)
        return 0
    os.makedirs(args.out, exist_ok=True)
    there = {name for name in os.listdir(args.out) if not name.endswith(".md")}
    if args.check:
        read = lambda name: open(os.path.join(args.out, name), "rb").read()
        wrong = sorted(there ^ set(files)) + sorted(name for name in there & set(files) if read(name) != files[name])
        print(f"not as scripts/conformance makes them: {', '.join(wrong)}" if wrong else f"{len(files)} files as they should be")
        return int(bool(wrong))
    for name in there - set(files):
        os.remove(os.path.join(args.out, name))
    for name, data in files.items():
        with open(os.path.join(args.out, name), "wb") as f:
            f.write(data)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes; {len(bad)} to refuse")
    return 0


if __name__ == "__main__":
    sys.exit(main())
