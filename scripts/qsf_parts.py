"""Matrices in parts (format-spec/SPEC.md, sections 5.2 and 7.12) for qsf_file.py: which rows are in which tensor."""
import struct
import numpy as np
from qsf_meta import need

PARTED = (24, 25, 26, 66, 69)
PART_IDS = {256 * p + k: (k, p) for k in PARTED for p in (1, 2, 3)}


def part_of(kind):
    """The kind of the matrix, and which part of it a tensor is; 0 also of what has no parts."""
    return PART_IDS.get(kind, (kind, 0))


def parse_parts(raw, place, layers):
    """Section PART: (layer, kind) -> the part of each row."""
    out, at, last = {}, 0, -1
    while at < len(raw):
        where = f"{place}, byte {at}"
        need(at + 8 <= len(raw), where, "no record header")
        number, rows = struct.unpack_from("<II", raw, at)
        kind, layer = number & 255, None if number >> 8 == (1 << 24) - 1 else number >> 8
        need(kind in PARTED and (layer is None) == (kind in (66, 69)) and (layer is None or layer < layers), where, f"number {number}")
        need(number > last, where, f"number {number} after {last}")
        end = at + 8 + -(-rows // 4)
        need(end <= len(raw), where, f"{rows} rows")
        codes = np.frombuffer(raw, np.uint8, end - at - 8, at + 8)
        codes = np.stack([codes >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1).reshape(-1)
        need(not codes[rows:].any(), where, "bits behind the last row")
        named = np.unique(codes[:rows]).tolist()
        need(len(named) >= 2 and named == list(range(len(named))), where, f"parts {named}")
        out[layer, kind] = codes[:rows]
        at, last = end, number
    return out


def check_parts(records, shapes):
    """Each record has the tensors that it names, and each part a record. `shapes`: (layer, id in the header) -> (rows, cols)."""
    for layer, of_id in shapes:
        kind, part = part_of(of_id)
        need(not part or (layer, kind) in records, "PART", f"no record for part {part} of kind {kind} in layer {layer}")
    for (layer, kind), codes in records.items():
        rows, place = np.bincount(codes, minlength=4), f"PART, kind {kind} of layer {layer}"
        found = [shapes.get((layer, 256 * p + kind)) for p in range(4)]
        for p in range(4):
            need((found[p] is None) == (rows[p] == 0), place, f"{rows[p]} rows in part {p}, whose tensor is {found[p]}")
            if found[p] is not None:
                need(found[p] == (rows[p], found[0][1]), place, f"part {p} is {found[p][0]} x {found[p][1]} instead of {rows[p]} x {found[0][1]}")


def rows_in_matrix(records, t):
    """Where the rows of a tensor are in its matrix; None of one that is the whole matrix."""
    kind, part = part_of(t.kind)
    return np.flatnonzero(records[t.layer, kind] == part) if (t.layer, kind) in records else None


def join(records, tensors, values):
    """kind -> values of the whole matrix, of the tensors of a layer, or of all that are in none. `values`: of a tensor."""
    out = {}
    for t in tensors:
        of_tensor, rows = values(t), rows_in_matrix(records, t)
        if rows is None:
            out[t.kind] = of_tensor
            continue
        kind = part_of(t.kind)[0]
        if kind not in out:
            out[kind] = np.zeros((len(records[t.layer, kind]), t.cols), of_tensor.dtype)
        out[kind][rows] = of_tensor
    return out
