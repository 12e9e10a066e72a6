"""A QSF file as bytes, written from format-spec/SPEC.md alone. Any part can be falsified before its checksums are made.

`build(spec, **edit)`: `edit` maps the name of a stage to a function that changes its bytearray (or returns another). CRCs and sizes
are made behind it, so that the reader meets the fault itself and not a wrong checksum. Compressed chunks are made by hand, so that
the bytes depend on no version of a library.
"""
import json
import struct
import zlib

MIB = 1 << 20
NONE = 0xFFFFFFFF


def align(x, n=64):
    return -(-x // n) * n


def crc(data):
    return zlib.crc32(data)


# ---------------------------------------------------------------- Compression

def lz4_block(data):
    """One LZ4 block; matches are sought at the last place where the same four bytes stood."""
    out, seen, anchor, at = bytearray(), {}, 0, 0

    def length(n):
        return bytes([255]) * (n // 255) + bytes([n % 255])

    def sequence(literals, offset=0, match=0):
        token = min(len(literals), 15) << 4 | (min(match - 4, 15) if match else 0)
        out.append(token)
        if len(literals) >= 15:
            out.extend(length(len(literals) - 15))
        out.extend(literals)
        if match:
            out.extend(struct.pack("<H", offset))
            if match - 4 >= 15:
                out.extend(length(match - 19))

    end = len(data) - 12  # the last match begins before, and the last five bytes are literals
    while at < end:
        key = data[at:at + 4]
        before = seen.get(key)
        seen[key] = at
        if before is None or at - before > 65535:
            at += 1
            continue
        match = 4
        while at + match < len(data) - 5 and data[before + match] == data[at + match]:
            match += 1
        sequence(data[anchor:at], at - before, match)
        at += match
        anchor = at
    sequence(data[anchor:])
    return bytes(out)


def zstd_frame(data):
    """One zstd frame (RFC 8878) of raw blocks, and of RLE blocks where a byte comes often."""
    blocks, at = [], 0
    while at < len(data):
        run = 1
        while at + run < len(data) and data[at + run] == data[at] and run < 1 << 17:
            run += 1
        if run >= 16 or not blocks or blocks[-1][0] == 1 or len(blocks[-1][1]) + run > 1 << 17:
            blocks.append((1, data[at:at + 1], run) if run >= 16 else (0, data[at:at + run], run))
        else:
            blocks[-1] = (0, blocks[-1][1] + data[at:at + run], blocks[-1][2] + run)
        at += run
    out = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))  # single segment, content size of four bytes
    for i, (kind, content, size) in enumerate(blocks or [(0, b"", 0)]):
        last = i + 1 >= len(blocks)
        out += struct.pack("<I", last | kind << 1 | size << 3)[:3] + content
    return out


def compress(data, method):
    return data if method == 0 else zstd_frame(data) if method == 3 else lz4_block(data)


# ---------------------------------------------------------------- Parts

class Tensor:
    """A tensor with its header fields; `own_type` is byte 12 where that is not the type."""

    def __init__(self, kind, rows, cols, t, data, values, layout=0, flags=0, own_type=None, layer=None):
        self.kind, self.rows, self.cols, self.t, self.data, self.values = kind, rows, cols, t, data, values
        self.layout, self.flags, self.own_type, self.layer = layout, flags, t if own_type is None else own_type, layer

    def header(self):
        return struct.pack("<3IBBH", self.kind, self.rows, self.cols, self.own_type, self.layout, self.flags)


def group(tensors, lead=b""):
    """Section 2: tensors with their padding; and where each is."""
    raw, spans = bytearray(lead), []
    for t in tensors:
        raw += bytes(align(len(raw) + 16) - 16 - len(raw))
        spans.append(slice(len(raw), len(raw) + 16 + len(t.data)))
        raw += t.header() + t.data
    return bytes(raw), spans


def chunked(raw, methods, size=MIB):
    """(raw size, stored bytes, compression) of each chunk; `methods`: one for all, or a list."""
    pieces = [raw[i:i + size] for i in range(0, len(raw), size)]
    methods = methods if isinstance(methods, list) else [methods] * len(pieces)
    return [(len(piece), compress(piece, m), m) for piece, m in zip(pieces, methods)]


def model_header(spec):
    """Bytes 0-95 without offsets and size."""
    m = spec["model"]
    scaled = {"gpt2": 0, "llama": 1, "mistral": 2, "phi": 3}.get(m["architecture"], 4)
    position = ("learned", "rope", "alibi").index(m["position"]["kind"])
    token = lambda x: NONE if x is None else x
    return struct.pack("<4s11I4BfQQQ4I", b"QSF1", 1, 128, scaled, *(m[k] for k in ("layers", "hidden", "heads", "kv_heads", "vocab",
                       "max_positions", "ffn", "head_dim")), spec.get("default_type", 5), {"silu": 1, "relu": 2}.get(m["activation"], 0),
                       int(m["norm"]["kind"] == "rms_norm"), position, m["position"].get("theta", 0.0), 0, 0, 0, token(m.get("bos")),
                       token((m.get("stop_tokens") or [None])[0]), token(m.get("pad")), 0)


def records(spec, names):
    """META's record of every tensor."""
    types = spec["types"]
    for t in [spec["embedding"], *(t for layer in spec["layers"] for t in layer["tensors"]), *spec["final"], *spec.get("positions", [])]:
        record = {} if t.layer is None else {"layer": t.layer}
        record.update(kind=names(t.kind), rows=t.rows, cols=t.cols, type=types[t.t])
        if spec.get("errors"):
            record.update(cosine=1.0, relative_error=0.0, max_abs_error=0.0)
        yield record


def meta(spec, names):
    options = {"seed": spec.get("seed", 0)}
    provenance = {"tool": "scripts/conformance", "sources": spec.get("sources", []), "options": options}
    root = {"version": 1, "model": spec["model"], "provenance": provenance, "tensors": list(records(spec, names))}
    return json.dumps(root, separators=(",", ":")).encode()


# ---------------------------------------------------------------- The file

def build(spec, names, **edit):
    used = set()

    def do(stage, data):
        data = bytearray(data)
        if stage in edit:
            used.add(stage)
            changed = edit[stage](data)
            data = data if changed is None else changed
        return bytes(data)

    plain, n = spec.get("plain", False), spec.get("n", 64)
    layers, sections, crcs = spec["layers"], [], []
    out = bytearray(128 + 32 * len(layers))

    def add(tag, data, compression=0, flags=0, offset=None):
        if offset is None:
            out.extend(bytes(align(len(out)) - len(out)))
            offset = len(out)
            out.extend(data)
        sections.append(dict(tag=tag, flags=flags, offset=offset, size=len(data), crc=crc(data), compression=compression))
        return offset

    e = spec["embedding"]
    row_bytes = len(e.data) // e.rows
    per = max(1, MIB // row_bytes) if e.layout == 0 else max(16, MIB // row_bytes // 16 * 16)
    chunks = chunked(e.data, spec.get("embedding_compression", 0), per * row_bytes)
    out.extend(bytes(align(len(out) + 16) - 16 - len(out)))
    embedding, at, echk = len(out), len(out) + 16, b""
    for raw, stored, method in chunks:
        echk += struct.pack("<Q4I", at, len(stored), raw, crc(stored), method)
        at += len(stored)
    stored = b"".join(c[1] for c in chunks)
    stored = do("embedding", struct.pack("<4I", e.t | e.layout << 8, len(stored), e.rows, e.cols) + stored)
    out.extend(stored)
    if not plain:
        add(b"EMBD", stored, offset=embedding)
    index = b""
    for i, layer in enumerate(layers):
        raw, spans = group(layer["tensors"])
        raw = do(f"raw{i}", raw)
        crcs += [crc(raw[span]) for span in spans]
        methods = layer.get("compression", 0)
        chunks = chunked(raw, methods)
        entries = do(f"entries{i}", b"".join(struct.pack("<4I", len(s), r, crc(s), m) for r, s, m in chunks))
        head = do(f"table{i}", struct.pack("<IIQ", len(chunks), crc(entries), 0))
        table = head + entries
        stored = do(f"stored{i}", table + bytes(align(len(table)) - len(table)) + b"".join(s for _, s, _ in chunks))
        out.extend(bytes(align(len(out), 4096) - len(out)))
        byte17 = max(methods) if isinstance(methods, list) else methods
        index += struct.pack("<QIIBBHI4sHH", len(out), len(stored), len(raw), layer.get("default", layer["tensors"][0].t if layer["tensors"] else 6),
                             byte17, len(layer["tensors"]), crc(stored), layer.get("importance", b"\0\0\xc0\x7f"), 0, 0)
        out.extend(stored)
    tied = b"\xff" if spec["model"]["tied_head"] else b"\0"
    raw, spans = group(spec["final"], tied)
    raw = do("final", raw)
    crcs += [crc(raw[span]) for span in spans]
    out.extend(bytes(align(len(out)) - len(out)))
    final = len(out)
    out.extend(raw)
    if not plain:
        add(b"FINL", raw, offset=final)
        if spec.get("positions"):
            raw, spans = group(spec["positions"])
            raw = do("POSE", raw)
            crcs += [crc(raw[span]) for span in spans]
            add(b"POSE", raw)
        packed = spec.get("meta_compression", 0)
        add(b"META", compress(do("META", meta(spec, names)), packed), packed)
        if spec.get("tables"):
            add(b"GRID", do("GRID", spec["tables"]))
        if "OUTL" in spec:
            add(b"OUTL", do("OUTL", spec["OUTL"]), flags=1)
        if "PART" in spec:
            add(b"PART", do("PART", spec["PART"]), flags=1)
        add(b"ECHK", do("ECHK", echk))
        if not spec.get("no_tcrc"):
            add(b"TCRC", do("TCRC", b"".join(struct.pack("<I", c) for c in crcs)))
        for tag, data, packed in spec.get("sections", []):
            add(tag, do(tag.decode("latin-1"), compress(data, packed)), packed)
    index = do("index", index)
    out[128:128 + len(index)] = index
    directory = 0
    if not plain:
        add(b"LIDX", index, offset=128)
        sections.sort(key=lambda s: s["offset"])
        if "sections" in edit:
            used.add("sections")
            edit["sections"](sections)
        out.extend(bytes(align(len(out)) - len(out)))
        directory = len(out)
        entries = b"".join(struct.pack("<4sIQQII", *(s[k] for k in ("tag", "flags", "offset", "size", "crc", "compression"))) for s in sections)
        head = do("directory", struct.pack("<4sII", b"QSFD", 1, len(sections)))
        out.extend(head + struct.pack("<I", crc(head + entries)) + entries)
    out = bytearray(do("body", out))
    header = bytearray(model_header(spec))
    struct.pack_into("<QQQ", header, 56, 128, embedding, final)
    struct.pack_into("<I", header, 92, len(out) & NONE)
    header = do("header", header)
    out[:100] = header + struct.pack("<I", crc(header))
    if not plain:
        extension = do("extension", struct.pack("<QHHQI", directory, 0 if n == 64 else n, 0, len(out), 0))
        out[100:128] = extension + struct.pack("<I", crc(extension))
    out = do("file", out)
    assert used == set(edit), set(edit) - used
    return out
