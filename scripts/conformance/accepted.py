"""The files that every reader takes: for each type and layout one, and one for each thing that a file may have."""
import struct

from blocks import FLOATS, TABLES, TYPES, Random, f32, matrix
from file import Tensor

ROWS, PANELS = 0, 3
F16, F32 = 6, 7


class Maker:
    """Tensors of one file, drawn from one seed."""

    def __init__(self, seed, n=64):
        self.random, self.n = Random(seed), n

    def tensor(self, kind, rows, cols, t, layout=ROWS, layer=0, **more):
        layout = ROWS if t in FLOATS else layout
        data, values = matrix(self.random, t, rows, cols, self.n, layout)
        return Tensor(kind, rows, cols, t, data, values, layout, layer=layer, **more)

    def embedding(self, model, t, layout=ROWS):
        return self.tensor(69, model["vocab"], model["hidden"], t, layout, layer=None)

    def final(self, model, *more):
        return [self.tensor(64, 1, model["hidden"], F16, layer=None), *more]


def llama(**more):
    model = dict(architecture="llama", layers=1, hidden=34, heads=1, kv_heads=1, head_dim=2, ffn=2, vocab=17, max_positions=16,
                 norm={"kind": "rms_norm", "epsilon": 1e-5}, activation="silu", gated_ffn=False,
                 position={"kind": "rope", "theta": 10000.0}, tied_head=True, bos=1, stop_tokens=[2])
    return {**model, **more}


def shapes(m):
    """Kind -> rows x cols of the matrices of a layer without gate."""
    q, kv, h, f = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"], m["hidden"], m["ffn"]
    return {0: (q, h), 1: (kv, h), 2: (kv, h), 3: (h, q), 5: (f, h), 6: (h, f)}


def layer(make, m, types, layout=ROWS, number=0, **more):
    """A whole layer; `types`: one type, or kind -> type."""
    of = types if isinstance(types, dict) else dict.fromkeys(shapes(m), types)
    tensors = [make.tensor(kind, *shape, of[kind], layout, number) for kind, shape in shapes(m).items()]
    tensors += [make.tensor(kind, 1, m["hidden"], F32, layer=number) for kind in (7, 8)]
    return dict(tensors=tensors, **more)


def tables(*types):
    """Section GRID."""
    return b"".join(bytes([t, len(TABLES[t])]) + struct.pack(f"{len(TABLES[t])}b", *TABLES[t]) for t in sorted(types))


def simple(seed, t=3, layout=ROWS, model=None, **more):
    """A spec of a model of one layer whose matrices have one type."""
    m, make = model or llama(), Maker(seed, 32)
    spec = dict(model=m, types=TYPES, seed=seed, default_type=t, embedding=make.embedding(m, t, layout),
                layers=[layer(make, m, t, layout)], final=make.final(m), n=32, **more)
    if t >= 16:
        spec.setdefault("tables", tables(t))
    return spec


def outlier_record(number, t, entries):
    """Section 7.8; `entries`: row -> [(column, value)]. Adds the values to those of the tensor."""
    out = struct.pack("<II", number, t.rows)
    out += b"".join(struct.pack("<H", len(entries.get(r, []))) for r in range(t.rows))
    for row in range(t.rows):
        for col, value in entries.get(row, []):
            out += struct.pack("<He", col, value)
            i = row * t.cols + col
            t.values[i] = f32(t.values[i] + struct.unpack("<e", struct.pack("<e", value))[0])
    return out


def blocks(n):
    """All types that have the block size of the header, in panels and with a row that is left."""
    m = llama(hidden=n + 2 if n < 256 else 40, heads=17, kv_heads=17, head_dim=1, ffn=17, position={"kind": "alibi"}, architecture="mpt")
    make = Maker(100 + n, n)
    return dict(model=m, types=TYPES, n=n, embedding=make.embedding(m, 1), final=make.final(m),
                layers=[layer(make, m, {0: 0, 1: 1, 2: 2, 3: 3, 5: 4, 6: 9}, PANELS)])


def chunks():
    """Parts of more than a chunk: LZ4, zstd and raw ones side by side, tensors that go on in the next chunk."""
    m = llama(hidden=64, vocab=17000, heads=8500)
    row, q = struct.pack("<e", 0.5) + bytes([249] * 64), [-3.5] * 64
    column = struct.pack("<e", 0.5) * 16 + bytes([249]) * 1024
    embedding = Tensor(69, 17000, 64, 9, column * 1062 + row * 8, q * 17000, PANELS)
    first = Tensor(0, 17000, 64, 9, row * 17000, q * 17000, layer=0)
    small = Tensor(7, 1, 64, F32, struct.pack("<f", 1.0) * 64, [1.0] * 64, layer=0)
    return dict(model=m, types=TYPES, embedding=embedding, embedding_compression=[2, 3], final=Maker(5).final(m),
                layers=[dict(tensors=[first, small], compression=[1, 3])])


def gpt2():
    """What LLaMA has not: learned positions, biases (kind 13 among them), a head of its own, a norm of the embedding."""
    m = llama(architecture="gpt2", norm={"kind": "layer_norm", "epsilon": 1e-5}, activation="gelu_tanh", position={"kind": "learned"},
              tied_head=False, embedding_norm=True, max_positions=18, stop_tokens=[], pad=0)
    make, h = Maker(7), m["hidden"]
    of = layer(make, m, 9, PANELS, importance=struct.pack("<f", 0.25))
    sizes = {9: 2, 10: 2, 11: 2, 12: h, 13: m["ffn"] + h, 18: h, 19: h}
    of["tensors"] += [make.tensor(kind, 1, cols, F16) for kind, cols in sizes.items()]
    last = [make.tensor(kind, 1, cols, F32, layer=None) for kind, cols in {65: h, 67: m["vocab"], 70: h, 71: h}.items()]
    return dict(model=m, types=TYPES, embedding=make.embedding(m, 3, PANELS), layers=[of], meta_compression=3, errors=True,
                final=[*last, make.tensor(66, m["vocab"], h, 9, PANELS, layer=None), *make.final(m)],
                positions=[make.tensor(68, 18, h, 3, PANELS, layer=None)])


def outliers():
    """Added to blocks in panels, in plain rows and of a learned type; a record without any."""
    spec = simple(11, 18, PANELS)
    tensors = {t.kind: t for t in spec["layers"][0]["tensors"]}
    spec["OUTL"] = outlier_record(0, tensors[0], {}) + outlier_record(5, tensors[5], {1: [(0, 0.1), (33, -300.0)]})
    spec["OUTL"] += outlier_record(6, tensors[6], {0: [(0, 1.0)], 31: [(1, 2.0 ** -24)], 33: [(0, -65504.0), (1, 0.0)]})
    spec["OUTL"] += outlier_record((1 << 24) - 1 << 8 | 69, spec["embedding"], {15: [(0, 3.0)], 16: [(32, -3.0), (33, 7.0)]})
    return spec


def outlier_kinds():
    """Outliers of every kind that may have some, each of one row. No model has all of these."""
    spec, make = simple(40), Maker(41, 32)
    of_layer = (*range(7), *range(23, 30), *range(40, 45), *range(53, 60), 133, 134, 143, 144, 146)
    row = lambda kind, layer: make.tensor(kind, 1, 34, 3, layer=layer)
    spec["layers"] = [dict(tensors=[row(kind, 0) for kind in of_layer])]
    spec["final"] = [row(kind, None) for kind in (66, 72, 73, 75, 76)] + spec["final"]
    spec["positions"] = [row(68, None)]
    no_layer = (1 << 24) - 1 << 8
    tensors = [(t.kind, t) for t in spec["layers"][0]["tensors"]]
    tensors += sorted((no_layer | t.kind, t) for t in [*spec["final"][:-1], *spec["positions"], spec["embedding"]])
    spec["OUTL"] = b"".join(outlier_record(number, t, {0: [(i % 34, 0.5 + i)]}) for i, (number, t) in enumerate(tensors))
    return spec


def unused():
    """Parts that nothing needs: tables of other types, an OUTL and a PART without records, unknown sections; no TCRC, no error measures."""
    sections = [(b"XTRA", b"not for this version", 3), (b"\xff\0 z", b"", 0), (b"EVAL", b'{"ppl": 1.5}', 0)]
    return simple(12, 16, tables=tables(*range(16, 26)), OUTL=b"", PART=b"", sections=sections, no_tcrc=True)


def kinds(flags):
    """Kinds that are not in the list, in a layer and in the final section; one has outliers."""
    spec = simple(13)
    make, m = Maker(14, 32), spec["model"]
    new = [make.tensor(200, 3, 5, F16, flags=flags), make.tensor(201, 17, 34, 3, PANELS, flags=flags), make.tensor(1000, 1, 4, F32, flags=flags)]
    of = spec["layers"][0]["tensors"]
    spec["layers"][0]["tensors"] = [of[0], new[0], *of[1:], *new[1:]]
    spec["final"].append(make.tensor(202, 2, m["vocab"], F16, layer=None, flags=flags))
    spec["OUTL"] = outlier_record(201, new[1], {16: [(33, 1.0)]})
    return spec


def default_type():
    """Headers that name no type: that of the layer index counts."""
    spec = simple(15, 2, PANELS)
    for t in spec["layers"][0]["tensors"]:
        if t.t == 2:
            t.own_type = 255
    spec["layers"][0]["default"] = 2
    return spec


def experts():
    """Two experts of 16 rows in panels, in the second of two layers; the first is dense."""
    m = llama(layers=2, hidden=32, ffn=3, gated_ffn=True, architecture="mixtral",
              experts={"count": 2, "used": 1, "ffn": 16, "normalize_weights": True, "dense_layers": [0]})
    make = Maker(16)
    dense = layer(make, m, 3)
    dense["tensors"].append(make.tensor(4, 3, 32, 3))
    shared = layer(make, m, 17, PANELS, 1)
    shared["tensors"] = [t for t in shared["tensors"] if t.kind not in (5, 6)]
    for kind, rows, cols in ((23, 2, 32), (24, 32, 32), (25, 32, 32), (26, 64, 16)):
        shared["tensors"].append(make.tensor(kind, rows, cols, F16 if kind == 23 else 17, PANELS, 1))
    return dict(model=m, types=TYPES, embedding=make.embedding(m, F16), layers=[dense, shared], final=make.final(m), tables=tables(17))


def clusters(m, count):
    """Section CLUS with one measurement."""
    make, h = Maker(17), m["hidden"]
    centroids = make.tensor(0, count, h, F16).data
    return struct.pack("<6I2I", 1, count, h, m["vocab"], 10, 1, 2, 7) + struct.pack(f"<{count}f", *range(count)) + centroids + bytes(
        i % count for i in range(m["vocab"]))


def exits(m):
    """Section EXIT with one exit, behind layer 0."""
    return struct.pack("<4I", 1, m["hidden"], 10, 1) + struct.pack(f"<2If{m['hidden']}f", 0, 9, 0.5, *[0.25] * m["hidden"])


def sections():
    """Every optional section, and two layers."""
    m, make = llama(layers=2), Maker(18)
    more = [(b"TOKN", b'{"model": {}}' + b" " * 40, 3), (b"CTPL", b"{{ messages }}", 0), (b"CLUS", clusters(m, 3), 0), (b"EXIT", exits(m), 0),
            (b"EVAL", b'{"ppl": 30.5, "unknown": [1]}', 3)]
    return dict(model=m, types=TYPES, embedding=make.embedding(m, 9), final=make.final(m), sections=more, seed=18, errors=True,
                layers=[layer(make, m, 0), layer(make, m, 4, PANELS, 1, importance=struct.pack("<f", 1.5))])


def empty_layer():
    """A layer without tensors. No model runs so, but the file is sound."""
    spec = simple(19)
    spec["layers"] = [dict(tensors=[])]
    return spec


def minimal():
    """As small as a model can be: what docs/format-hexdump.md explains."""
    m = llama(hidden=2, ffn=1, vocab=3, max_positions=4, bos=None, stop_tokens=[2])
    make = Maker(20, 32)
    source = {"name": "model.safetensors", "bytes": 120, "sha256": "0" * 64}
    return dict(model=m, types=TYPES, n=32, seed=20, sources=[source], default_type=3, errors=True, embedding=make.embedding(m, F16),
                layers=[layer(make, m, {0: 3, 1: 3, 2: 3, 3: 3, 5: 3, 6: 3})], final=make.final(m))


def cases():
    """(name, what it is about, whether a program can run it, spec)."""
    for t, name in TYPES.items():
        for layout in (ROWS,) if t in FLOATS else (ROWS, PANELS):
            words = "panels" if layout else "rows"
            yield f"{name}-{words}", f"Type {name} in {words}", True, simple(1000 + 10 * t + layout, t, layout)
    for n in (64, 128, 256):
        yield f"blocks-{n}", f"Types 0 to 4 and 9 in blocks of {n}, in panels", True, blocks(n)
    for name, runs, make in (("chunks", False, chunks), ("gpt2", True, gpt2), ("outliers", True, outliers), ("outlier-kinds", False, outlier_kinds), ("unused", True, unused),
                             ("default-type", True, default_type), ("experts", True, experts), ("sections", True, sections),
                             ("empty-layer", False, empty_layer), ("minimal", True, minimal)):
        yield name, " ".join(make.__doc__.split()), runs, make()
    yield "unknown-kinds", kinds.__doc__ + " Without them the model computes something else", False, kinds(0)
    yield "optional-kinds", kinds.__doc__ + " They are optional", True, kinds(1)
    plain = simple(21, 6)
    plain.update(plain=True, n=64)
    yield "plain", "A plain file (section 9): half of it is under no checksum", True, plain
