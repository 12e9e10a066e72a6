"""Matrices in parts (SPEC.md, sections 5.2 and 7.12): files that every reader takes, and what every reader must refuse of them.

Both lists are in the form of accepted.py and refused.py.
"""
import struct

from accepted import F16, F32, PANELS, ROWS, Maker, layer, llama, outlier_record, tables
from blocks import TYPES
from file import Tensor
from refused import HEADER, at, cut, entry, extend, model

BF16, Q2, Q4, TERNARY, Q8, N3, N4, Q6, T2 = 8, 1, 3, 4, 9, 17, 18, 20, 21
NO_LAYER = (1 << 24) - 1


def record(kind, codes, number=None):
    """Of section PART; `codes`: the part of each row."""
    data = bytearray(struct.pack("<II", NO_LAYER << 8 | kind if number is None else number, len(codes)) + bytes(-(-len(codes) // 4)))
    for row, code in enumerate(codes):
        data[8 + row // 4] |= code << 2 * (row % 4)
    return bytes(data)


class Split:
    """A matrix in parts: its tensors, its record, and its values in the order of its rows."""

    def __init__(self, make, kind, codes, cols, forms, layer=None, repeated=()):
        """`forms`: type and layout of each part; of those in `repeated`, each panel is as the first."""
        self.layer, self.kind, self.codes, self.rows, self.cols = layer, kind, codes, len(codes), cols
        self.tensors = []
        for p, (t, layout) in enumerate(forms):
            rows = codes.count(p)
            draw = repeat if p in repeated else Maker.tensor
            self.tensors.append(draw(make, kind + 256 * p, rows, cols, t, layout, layer))
        left = [[t.values[i:i + cols] for i in range(0, len(t.values), cols)] for t in self.tensors]
        self.values = [value for code in codes for value in left[code].pop(0)]
        assert not any(left)

    def record(self):
        return record(self.kind, self.codes, None if self.layer is None else self.layer << 8 | self.kind)


def repeat(make, kind, rows, cols, t, layout, layer):
    """Panels that are all the same, or rows: what compresses."""
    each = 16 if layout == PANELS else 1
    first = make.tensor(kind, each, cols, t, layout, layer)
    return Tensor(kind, rows, cols, t, first.data * (rows // each), first.values * (rows // each), layout, layer=layer)


def drawn(make, counts):
    """Parts of rows in an order drawn at random; `counts`: rows of each."""
    left, codes = list(counts), []
    while any(left):
        i = make.random.below(sum(left))
        code = next(p for p in range(len(left)) if i < sum(left[:p + 1]))
        left[code] -= 1
        codes.append(code)
    return codes


def spec(m, make, types, splits, embedding, layers, final, **more):
    numbered = sorted(splits, key=lambda s: (NO_LAYER if s.layer is None else s.layer, s.kind))
    of_grid = {t.t for part in (final, *(of["tensors"] for of in layers), [embedding]) for t in part if t.t >= 16}
    if of_grid:
        more["tables"] = tables(*of_grid)
    return dict(model=m, types=TYPES, n=32, embedding=embedding, layers=layers, final=final, matrices=splits,
                PART=b"".join(s.record() for s in numbered), **more)


def embedding():
    """A tied embedding in two parts, both in panels with rows that are left; outliers of another matrix."""
    m, make = llama(vocab=50), Maker(30, 32)
    whole = Split(make, 69, drawn(make, (33, 17)), m["hidden"], [(Q4, PANELS), (Q8, PANELS)])
    of = layer(make, m, Q4, PANELS)
    up = next(t for t in of["tensors"] if t.kind == 5)
    out = outlier_record(5, up, {0: [(33, 2.0)]})
    return spec(m, make, TYPES, [whole], whole.tensors[0], [of], make.final(m, whole.tensors[1]), OUTL=out, errors=True)


def embedding_four():
    """A tied embedding in four parts, of panels in chunks of LZ4, plain rows and floats; the last is optional, which changes nothing."""
    m, make = llama(vocab=74), Maker(31, 32)
    whole = Split(make, 69, drawn(make, (48, 20, 5, 1)), m["hidden"], [(N3, PANELS), (Q2, ROWS), (BF16, ROWS), (F32, ROWS)], repeated=[0])
    whole.tensors[3].flags = 1
    first, *others = whole.tensors
    return spec(m, make, TYPES, [whole], first, [layer(make, m, Q4)], [*reversed(others), *make.final(m)], embedding_compression=1)


def head():
    """A head of its own in three parts, and an embedding whose rows are in other parts."""
    m, make = llama(vocab=50, tied_head=False), Maker(32, 32)
    rows = Split(make, 69, drawn(make, (16, 34)), m["hidden"], [(F16, ROWS), (Q6, PANELS)])
    whole = Split(make, 66, drawn(make, (31, 18, 1)), m["hidden"], [(T2, PANELS), (Q6, ROWS), (Q8, ROWS)])
    final = [rows.tensors[1], whole.tensors[1], *make.final(m), whole.tensors[0], whole.tensors[2]]
    return spec(m, make, TYPES, [rows, whole], rows.tensors[0], [layer(make, m, Q4)], final)


def experts():
    """Stacks of four experts in two to four parts, beside whole ones, in layers compressed by LZ4. Experts of 8 rows are in plain rows."""
    m = llama(layers=2, hidden=32, ffn=8, gated_ffn=True, architecture="mixtral",
              experts={"count": 4, "used": 2, "ffn": 8, "normalize_weights": True})
    make, layers = Maker(34), []
    stack = lambda parts, rows: [part for part in parts for _ in range(rows)]
    gate = Split(make, 24, stack((0, 0, 1, 0), 8), 32, [(Q4, ROWS), (Q8, ROWS)], 0, [0])
    up = Split(make, 25, stack((0, 1, 2, 0), 8), 32, [(Q4, ROWS), (F16, ROWS), (Q8, ROWS)], 1)
    down = Split(make, 26, stack((2, 0, 3, 1), 32), 8, [(N4, PANELS), (Q2, PANELS), (F32, ROWS), (TERNARY, ROWS)], 1, [3])
    for number, others in ((0, [*gate.tensors, make.tensor(25, 32, 32, Q4), repeat(make, 26, 128, 8, Q8, PANELS, 0)]),
                           (1, [down.tensors[3], repeat(make, 24, 32, 32, Q4, ROWS, 1), *up.tensors, *down.tensors[:3]])):
        of = layer(make, m, Q4, PANELS, number, compression=1 + number)
        of["tensors"] = [t for t in of["tensors"] if t.kind not in (5, 6)] + [make.tensor(23, 4, 32, F16, layer=number), *others]
        layers.append(of)
    s = spec(m, make, TYPES, [gate, up, down], make.embedding(m, F16), layers, make.final(m))
    s["n"] = 64
    return s


def accepted():
    for name, make in (("parts-embedding", embedding), ("parts-embedding-four", embedding_four), ("parts-head", head), ("parts-experts", experts)):
        yield name, " ".join(make.__doc__.split()), True, make()


# ---------------------------------------------------------------- What is wrong

def of_tensor(kind, offset, form, *values):
    """Overwrites fields in the header of the tensor of this kind."""
    def edit(data):
        starts = [i for i in range(HEADER, len(data), 64) if struct.unpack_from("<I", data, i)[0] == kind]
        assert len(starts) == 1, (kind, starts)
        struct.pack_into("<" + form, data, starts[0] + offset, *values)
    return edit


def both(*edits):
    def edit(data):
        for change in edits:
            change(data)
    return edit


def codes(kind, change, number=None):
    """The record of a matrix, with `change` of the parts of its rows."""
    def edit(data):
        start, wanted = 0, NO_LAYER << 8 | kind if number is None else number
        while struct.unpack_from("<I", data, start)[0] != wanted:
            start += 8 + -(-struct.unpack_from("<I", data, start + 4)[0] // 4)
        rows = struct.unpack_from("<I", data, start + 4)[0]
        parts = [data[start + 8 + row // 4] >> 2 * (row % 4) & 3 for row in range(rows)]
        parts = change(parts)
        end = start + 8 + -(-rows // 4)
        return data[:start] + record(kind, parts, number) + data[end:]
    return edit


def swapped(a, b):
    """Lets the first rows of two parts change places with their parts: each has as many rows as before."""
    def change(parts):
        i, j = parts.index(a), parts.index(b)
        parts[i], parts[j] = b, a
        return parts
    return change


def moved(old, new):
    """The first row of a part is in another one."""
    def change(parts):
        parts[parts.index(old)] = new
        return parts
    return change


def other(old, new):
    return lambda parts: [new if part == old else part for part in parts]


E, F, H, X = "parts-embedding", "parts-embedding-four", "parts-head", "parts-experts"
HEAD_RECORD = 8 + 13  # bytes of it, before that of the embedding
GATE, UP, DOWN = 24, 256 + 25, 256 + 26  # numbers of the records of X


def refused():
    yield "part-flags", E, "PART with flags 0", "7", "open", dict(sections=entry(b"PART", flags=0))
    yield "part-zstd", E, "PART with compression 3", "7", "open", dict(sections=entry(b"PART", compression=3))
    yield "part-no-record", H, "A part without a record", "5.2", "read", dict(PART=lambda d: d[HEAD_RECORD:])
    yield "part-no-record-embedding", E, "A part of the embedding, and no record at all", "7.3", "read", dict(PART=lambda d: b"")
    yield "part-no-record-layer", X, "A part in a layer without a record", "5.2", "read", dict(PART=lambda d: d[16:])
    yield "part-no-record-plain", "plain", "A part in a plain file", "9", "read", dict(raw0=at(HEADER, "I", 256 + 24))
    yield "part-no-tensor", H, "A record of three parts, the last of which is of an unknown optional kind", "7.12", "read", dict(
        final=both(of_tensor(512 + 66, 14, "H", 1), of_tensor(512 + 66, 0, "I", 900)))
    yield "part-no-matrix", X, "A record of a head that is not there", "7.12", "read", dict(PART=extend(record(66, [0, 1])))
    yield "part-no-layer", X, "A record of a stack in layer 2 of 2", "7.12", "read", dict(PART=extend(record(24, [0, 1], 2 << 8 | 24)))
    yield "part-one", "unused", "A record of a matrix that is one tensor", "7.12", "read", dict(PART=lambda d: record(69, [0] * 17))
    yield "part-four", H, "A part of number 4", "7.12", "read", dict(final=of_tensor(512 + 66, 0, "I", 1024 + 66))
    yield "part-gap", H, "Parts 0, 1 and 3", "7.12", "read", dict(
        final=of_tensor(512 + 66, 0, "I", 768 + 66), PART=codes(66, other(2, 3)))
    yield "part-more", H, "A part that no row is in", "7.12", "read", dict(final=of_tensor(64, 0, "I", 768 + 66))
    yield "part-rows", H, "A row in another part than the tensors have", "7.12", "read", dict(PART=codes(66, moved(0, 1)))
    yield "part-sum", H, "A record of a row less than its parts have", "7.12", "read", dict(
        PART=codes(66, lambda parts: parts[:-1]))
    yield "part-cols", H, "A part of 33 columns of a matrix of 34", "7.12", "read", dict(final=of_tensor(256 + 66, 8, "I", 33))
    yield "part-bits", H, "A bit behind the last row", "7.12", "read", dict(PART=lambda d: at(20, "B", d[20] | 0x10)(d))
    yield "part-order", H, "Records not in ascending order", "7.12", "read", dict(PART=lambda d: d[HEAD_RECORD:] + d[:HEAD_RECORD])
    yield "part-twice", H, "A record that comes twice", "7.12", "read", dict(PART=lambda d: d[:HEAD_RECORD] + d)
    yield "part-kind", X, "A record of a matrix that may have no parts", "7.12", "read", dict(PART=at(0, "I", 23))
    yield "part-of-layer", H, "A record of the head in a layer", "7.12", "read", dict(PART=at(0, "I", 66))
    yield "part-cut", H, "A record that ends behind the section", "7.12", "read", dict(PART=cut(1))
    yield "part-tail", H, "Seven bytes behind the last record", "7.12", "read", dict(PART=extend(b"\xff" * 7))
    yield "part-vocab", E, "An embedding in parts with a row less than vocab", "7.3", "read", dict(
        header=at(32, "I", 51), META=model(vocab=51))
    yield "part-outliers", E, "Outliers of part 0 of a matrix in parts", "5.2", "read", dict(
        OUTL=lambda d: struct.pack("<II", NO_LAYER << 8 | 69, 33) + struct.pack("<H", 1) + bytes(64) + struct.pack("<He", 0, 1.0))
    yield "part-outliers-whole", E, "Outliers of a matrix in parts", "5.2", "read", dict(
        OUTL=lambda d: struct.pack("<II", NO_LAYER << 8 | 69, 50) + struct.pack("<H", 1) + bytes(98) + struct.pack("<He", 0, 1.0))
    yield "part-place", X, "A part of the head in a layer", "5", "read", dict(raw0=of_tensor(256 + 24, 0, "I", 256 + 66))
    yield "part-place-final", H, "A part of experts in the final section", "5", "read", dict(final=of_tensor(512 + 66, 0, "I", 256 + 24))
    yield "part-place-embedding", E, "The token embedding in the final section", "5", "read", dict(final=of_tensor(256 + 69, 0, "I", 69))
    yield "part-number-twice", F, "A part that comes twice", "5", "read", dict(final=of_tensor(768 + 69, 0, "I", 512 + 69))
    yield "part-type", F, "A part of type 10", "5", "read", dict(final=of_tensor(256 + 69, 12, "B", 10))
    yield "part-expert", X, "An expert whose rows are in two parts", "5.2", "run", dict(PART=codes(25, swapped(1, 2), UP))
    yield "part-panels", X, "Two experts of 8 rows in a panel of a part", "6.1", "run", dict(raw1=of_tensor(25, 13, "B", 3))
    yield "expert-panels", X, "Four experts of 8 rows in two panels", "6.1", "run", dict(raw1=of_tensor(24, 13, "B", 3))
    yield "part-shape", H, "A head in parts whose columns are all one less than hidden", "MODEL.md 2", "run", dict(
        final=both(*(of_tensor(256 * p + 66, 8, "I", 33) for p in range(3))))
