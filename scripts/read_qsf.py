#!/usr/bin/env python3
"""Independent reader and checker of QSF files, written from format-spec/SPEC.md alone.

    read_qsf.py FILE                      check everything, decode everything, list all tensors
    read_qsf.py FILE --json               the same as one JSON object
    read_qsf.py FILE --lint               also check the rules for writers that readers need not check
    read_qsf.py FILE --compare MODEL_DIR  measure the conversion error again and compare it with META
    read_qsf.py FILE --logits 1,2,3       check everything, run the model (qsf_forward.py) and print the logits as JSON
    read_qsf.py FILE --expected FILE      run the model on recorded token ids and compare with recorded logits

Exit codes: 0 ok; 1 --compare, --lint or --expected found a disagreement; 2 usage, or a file or decompressor is missing; 3 damaged
or refused, with the place of the first damage. Needs Python >= 3.9 and numpy; `lz4` and `zstandard` (or the `zstd` tool) only for files
that use them. "Section N" in comments means section N of SPEC.md. Memory: about one layer or embedding, decoded.
"""
import argparse, json, mmap, os, shutil, struct, subprocess, sys, tempfile, zlib
from collections import namedtuple
import numpy as np
import qsf_forward
from qsf_meta import (MODEL_DEFAULTS, MODEL_OPTIONAL, NONE, NORM_DEFAULTS, ROPE_DEFAULTS, ROPE_OPTIONAL, TYPES, Damage,
                      check_dimensions, need, parse_meta, with_defaults)
from qsf_values import COUNTS, LEARNED, ceil_div, decode, learned_pieces, pieces, row_bytes

COMPRESSION = {0: "none", 1: "lz4", 2: "lz4-hc", 3: "zstd"}
KINDS = dict(enumerate("""attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down attn_norm ffn_norm attn_q_bias
    attn_k_bias attn_v_bias attn_output_bias ffn_biases q_norm k_norm post_attn_norm post_ffn_norm attn_norm_bias
    ffn_norm_bias ffn_gate_bias ffn_up_bias ffn_down_bias router expert_gate expert_up expert_down shared_gate
    shared_up shared_down attn_sinks rope_factors""".split()))
KINDS.update(enumerate("""final_norm final_norm_bias head head_bias positions token_embedding embedding_norm
    embedding_norm_bias""".split(), start=64))
MIB, SECTION_LIMIT = 1 << 20, 1 << 28
Tensor = namedtuple("Tensor", "layer kind rows cols type layout flags offset crc data own_type")  # data: quantized bytes
Chunk = namedtuple("Chunk", "offset stored raw crc compression")  # offset in the file


class Missing(Exception):
    """A decompressor is not installed."""


def align(x, n=64):
    return ceil_div(x, n) * n


def check_zero(data, place, start):
    """Padding must be zero; `start` is where `data` begins, for the message."""
    bad = np.flatnonzero(np.frombuffer(data, np.uint8))
    need(not len(bad), place, f"padding byte at {start + int(bad[0]) if len(bad) else 0} is not zero")


def check_crc(data, crc, place):
    found = zlib.crc32(data)
    need(found == crc, place, f"CRC32 is {found:08x}, recorded is {crc:08x}")


# ---------------------------------------------------------------- Compression (sections 4.1 and 7)

def zstd_frame(data, limit, place):
    """Decompresses exactly one zstd frame, to at most `limit` bytes."""
    try:
        import zstandard
    except ImportError:
        zstandard = None
    out = bytearray()
    if zstandard:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            for i in range(0, len(data), 1024):  # small steps bound the memory that a hostile frame can take
                need(not frame.eof, place, "bytes behind the zstd frame")
                out += frame.decompress(data[i:i + 1024])
                need(len(out) <= limit, place, f"decompresses to more than {limit} bytes")
        except zstandard.ZstdError as e:
            raise Damage(f"{place}: {e}") from None
        need(frame.eof and not frame.unused_data, place, "not exactly one zstd frame")
    elif shutil.which("zstd"):
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.seek(0)
            with subprocess.Popen(["zstd", "-dcq"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
                out += p.stdout.read(limit + 1)
                p.stdout.close()
                need(len(out) <= limit, place, f"decompresses to more than {limit} bytes")
                need(p.wait() == 0, place, "zstd refuses the frame")
    else:
        raise Missing("this file needs the Python package zstandard, or the tool zstd")
    return bytes(out)


def chunk_sizes(c, place):
    """The conditions on a chunk's compression id and sizes; nothing is decompressed before they hold."""
    need(c.compression in COMPRESSION, place, f"compression {c.compression} is unknown")
    if c.compression == 0:
        need(c.stored == c.raw, place, "stored and raw size differ, but it is not compressed")
    else:
        need(c.stored < c.raw <= 255 * c.stored, place, f"sizes {c.stored} -> {c.raw} are not allowed")


def chunk_bytes(view, c, place):
    data = view[c.offset:c.offset + c.stored]
    check_crc(data, c.crc, place)
    if c.compression == 0:
        return data
    if c.compression == 3:
        out = zstd_frame(data, c.raw, place)
    else:
        try:
            import lz4.block
        except ImportError:
            raise Missing("this file needs the Python package lz4") from None
        try:
            out = lz4.block.decompress(bytes(data), uncompressed_size=c.raw)
        except lz4.block.LZ4BlockError as e:
            raise Damage(f"{place}: {e}") from None
    need(len(out) == c.raw, place, f"decompresses to {len(out)} bytes instead of {c.raw}")
    return out


# ---------------------------------------------------------------- The file

def check_layout(t, layout, place):
    """Section 5: layouts 0 (rows) and 3 (panels), the latter of block types only."""
    need(layout == 0 or layout == 3 and t not in (6, 7, 8), place, f"layout {layout} of type {t}")


def chunk_rows(layout, rb):
    """Section 7.3: rows of a chunk of the embedding."""
    p = max(1, MIB // rb)
    return p if layout == 0 else max(16, p // 16 * 16)


class Reader:
    """Opens and checks a file in the order of section 10. `view` is the whole file, mapped."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.size = os.fstat(f.fileno()).st_size
            need(self.size >= 128, "header", f"the file has only {self.size} bytes")
            self.view = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        self.sections, self.records, self.meta, self.runnable = {}, [], None, True
        self._header()
        if self.extended:
            self._directory()
        self._index()
        self._tables()
        self._outliers()
        self._regions()
        if self.extended:
            self.model, self.records, self.meta = parse_meta(self.section("META"))
            self._agreement()
        else:
            self.model = self._plain_model()

    def _header(self):
        v = self.view
        need(bytes(v[:4]) == b"QSF1", "header, offset 0", "no QSF magic")
        check_crc(v[:96], struct.unpack_from("<I", v, 96)[0], "header, bytes 0-95")
        names = ("version header_size architecture layers hidden heads kv_heads vocab max_positions ffn head_dim default_type "
                 "activation norm position theta index_offset embedding_offset final_offset bos eos pad size_low").split()
        h = self.header = dict(zip(names, struct.unpack_from("<11I4Bf3Q4I", v, 4)))
        self.theta_bits = bytes(v[52:56])
        need(h["version"] == 1, "header, offset 4", f"version {h['version']}")
        need(h["header_size"] == 128, "header, offset 8", f"header size {h['header_size']}")
        self.extended, self.n = any(v[100:128]), 64
        if self.extended:
            self.directory_offset, n, r1, size, r2, crc = struct.unpack_from("<QHHQII", v, 100)
            check_crc(v[100:124], crc, "header, bytes 100-123")
            need(r1 == 0 and r2 == 0, "header, offsets 110 and 120", "reserved field is not zero")
            need(size == self.size, "header, offset 112", f"file size should be {size}, is {self.size}")
        need(h["size_low"] == self.size % (1 << 32), "header, offset 92", f"file size should be {h['size_low']} mod 2^32, is {self.size}")
        if self.extended:
            need(n in (0, 32, 64, 128, 256), "header, offset 108", f"block size {n}")
            self.n = n or 64
        for k, high in (("architecture", 4), ("activation", 2), ("position", 2), ("norm", 1)):
            need(h[k] <= high, "header", f"{k} is {h[k]}")
        need(h["default_type"] in TYPES or h["default_type"] == 5, "header", f"default type is {h['default_type']}")
        h["kv_heads"] = h["kv_heads"] or h["heads"]

    def _directory(self):
        d = self.directory_offset
        need(d + 16 <= self.size, "directory", "not inside the file")
        magic, version, count, crc = struct.unpack_from("<4s3I", self.view, d)
        need(magic == b"QSFD", f"directory, offset {d}", "no magic")
        need(count <= 4096 and d + 16 + 32 * count == self.size, f"directory, offset {d + 8}", f"count {count} does not fit")
        found = zlib.crc32(self.view[d + 16:], zlib.crc32(self.view[d:d + 12]))
        need(found == crc, f"directory, offset {d}", f"CRC32 is {found:08x}, recorded is {crc:08x}")
        need(version == 1, f"directory, offset {d + 4}", f"version {version}")
        for at in range(d + 16, self.size, 32):
            tag, flags, offset, stored, crc, compression = struct.unpack_from("<4sIQQII", self.view, at)
            tag, place = tag.decode("latin-1"), f"directory entry at {at}"
            need(offset + stored <= min(d, (1 << 64) - 1), place, f"{tag} is not inside the file, before the directory")
            need(tag not in self.sections, place, f"tag {tag} comes twice")
            need(flags == (tag == "OUTL"), place, f"{tag} has flags {flags}")
            in_place = tag in ("LIDX", "EMBD", "FINL", "ECHK", "TCRC", "POSE", "GRID", "OUTL", "CLUS", "EXIT")
            need(compression == 0 or compression == 3 and not in_place, place, f"{tag} has compression {compression}")
            self.sections[tag] = Chunk(offset, stored, None, crc, compression)

    def _index(self):
        h, at, count = self.header, self.header["index_offset"], self.header["layers"]
        need(at + 32 * count <= self.size, "layer index", "not inside the file")
        if self.extended:
            for tag, k in (("LIDX", "index_offset"), ("EMBD", "embedding_offset"), ("FINL", "final_offset")):
                need(tag in self.sections, "directory", f"no {tag}")
                need(self.sections[tag].offset == h[k], "directory", f"{tag} is not where the header says")
            need(self.sections["LIDX"].stored == 32 * count, "directory", "LIDX has the wrong size")
            self.section("LIDX")
        self.layers = []
        for i in range(count):
            offset, stored, raw, t, comp, tensors, crc, importance, s_high, r_high = struct.unpack_from("<QIIBBHIfHH", self.view, at + 32 * i)
            e = dict(offset=offset, stored=stored | s_high << 32, raw=raw | r_high << 32, type=t, compression=comp,
                     tensors=tensors, crc=crc, importance=None if importance != importance else importance)
            place = f"layer index, entry {i} at {at + 32 * i}"
            need(offset % 4096 == 0, place, f"offset {offset} is no multiple of 4096")
            need(t in TYPES, place, f"type {t}")
            need(comp in COMPRESSION, place, f"compression {comp}")
            need(offset + e["stored"] <= self.size, place, "layer is not inside the file")
            self.layers.append(e)

    def _tables(self):
        """Section 7.6: type -> values."""
        self.tables = {}
        raw, at = (bytes(self.section("GRID")), 0) if "GRID" in self.sections else (b"", 0)
        while at < len(raw):
            place, t = f"GRID at {self.sections['GRID'].offset}, byte {at}", raw[at]
            need(t in LEARNED and t > max(self.tables, default=0), place, f"type {t}")
            need(at + 2 <= len(raw) and raw[at + 1] == COUNTS[t] and at + 2 + COUNTS[t] <= len(raw), place, "wrong count")
            values = struct.unpack_from(f"{COUNTS[t]}b", raw, at + 2)
            need(-128 not in values, place, "value -128")
            if t >= 21:
                a, b = values[:16], values[16:]
                need(max(0, *a) + max(0, *b) <= 127 and min(0, *a) + min(0, *b) >= -127, place, "sums beyond 127")
            self.tables[t], at = values, at + 2 + COUNTS[t]

    def _outliers(self):
        """Section 7.8: (layer, kind) -> (rows, row, column and value of each outlier)."""
        self.outliers, last = {}, -1
        raw, at = (bytes(self.section("OUTL")), 0) if "OUTL" in self.sections else (b"", 0)
        while at < len(raw):
            place = f"OUTL at {self.sections['OUTL'].offset}, byte {at}"
            need(at + 8 <= len(raw), place, "no record header")
            number, rows = struct.unpack_from("<II", raw, at)
            kind, layer = number & 255, None if number >> 8 == (1 << 24) - 1 else number >> 8
            need(kind in (*range(7), *range(23, 30), 66, 68, 69) and (layer is None) == (kind >= 64), place, f"number {number}")
            need(number > last, place, f"number {number} after {last}")
            need(at + 8 + 2 * rows <= len(raw), place, f"{rows} rows")
            counts = np.frombuffer(raw, "<u2", rows, at + 8).astype(np.int64)
            first, total = at + 8 + 2 * rows, int(counts.sum())
            need(first + 4 * total <= len(raw), place, f"{total} outliers")
            entries = np.frombuffer(raw, [("col", "<u2"), ("value", "<f2")], total, first)
            row, col = np.repeat(np.arange(rows), counts), entries["col"].astype(np.int64)
            need((np.diff(row * 65536 + col) > 0).all(), place, "columns are not in ascending order")
            need(np.isfinite(entries["value"]).all(), place, "a value is not finite")
            self.outliers[layer, kind] = rows, row, col, entries["value"].astype(np.float32)
            at, last = first + 4 * total, number

    def values(self, t):
        """Section 6, and what section 7.8 adds: float32 [rows, cols]."""
        out = decode(t.type, t.data, t.rows, t.cols, self.n, t.layout, self.tables)
        if (t.layer, t.kind) in self.outliers:
            _, row, col, value = self.outliers[t.layer, t.kind]
            out = np.array(out)
            out[row, col] += value
        return out

    def check_outliers(self, t):
        if (t.layer, t.kind) in self.outliers:
            rows, _, col, _ = self.outliers[t.layer, t.kind]
            need(rows == t.rows and t.type not in (6, 7, 8) and (col < t.cols).all(), "OUTL", f"does not fit layer {t.layer} {KINDS[t.kind]}")

    def known_type(self, t, place):
        need(t in TYPES, place, f"type {t}")
        need(t not in LEARNED or t in self.tables, place, f"type {t} without its table in GRID")

    def _regions(self):
        """No two parts overlap. Keeps the regions for the check of the padding between them."""
        r = [(0, 128, "header")] + [(e["offset"], e["offset"] + e["stored"], f"layer {i}") for i, e in enumerate(self.layers)]
        if self.extended:
            r += [(s.offset, s.offset + s.stored, tag) for tag, s in self.sections.items() if s.stored]
            r.append((self.directory_offset, self.size, "directory"))
        self.regions = sorted(r)
        for a, b in zip(self.regions, self.regions[1:]):
            need(a[1] <= b[0], f"offset {b[0]}", f"{a[2]} and {b[2]} overlap")

    def _agreement(self):
        """Section 8.1: META and the header must say the same."""
        m, h = self.model, self.header
        want = {k: m[k] for k in "layers hidden heads kv_heads vocab max_positions ffn head_dim".split()}
        want["architecture"] = {"gpt2": 0, "llama": 1, "mistral": 2, "phi": 3}.get(m["architecture"], 4)
        want["activation"] = {"silu": 1, "relu": 2}.get(m["activation"], 0)
        want["norm"] = int(m["norm"]["kind"] == "rms_norm")
        want["position"] = ("learned", "rope", "alibi").index(m["position"]["kind"])
        for k, v in (("bos", m["bos"]), ("eos", (m["stop_tokens"] or [None])[0]), ("pad", m["pad"])):
            want[k] = NONE if v is None else v
        for k, v in want.items():
            need(h[k] == v, "META", f"{k} disagrees with the header: {v}, {h[k]}")
        need(struct.pack("<f", m["position"].get("theta", 0.0)) == self.theta_bits, "META", "theta disagrees with the header")
        need(want["position"] != 0 or "POSE" in self.sections, "directory", "positions are learned, but POSE is missing")

    def _plain_model(self):
        """Section 9. gated_ffn and tied_head follow from the tensors, see `tensors`."""
        h = self.header
        m = {k: h[k] for k in "layers hidden heads kv_heads vocab max_positions ffn head_dim".split()}
        m["architecture"] = ("gpt2", "llama", "mistral", "phi", "other")[h["architecture"]]
        m["norm"] = dict(kind=("layer_norm", "rms_norm")[h["norm"]], epsilon=float(np.float32(1e-5)), **NORM_DEFAULTS)
        m["activation"] = ("gelu_tanh", "silu", "relu")[h["activation"]]
        m["position"] = dict(kind=("learned", "rope", "alibi")[h["position"]])
        m["bos"], m["pad"] = (None if h[k] == NONE else h[k] for k in ("bos", "pad"))
        m["stop_tokens"] = [] if h["eos"] == NONE else [h["eos"]]
        with_defaults(m, MODEL_DEFAULTS, MODEL_OPTIONAL)
        if h["position"] == 1:
            m["position"].update(theta=h["theta"], **with_defaults({}, ROPE_DEFAULTS, ROPE_OPTIONAL))
        self.runnable = h["architecture"] != 4 and h["position"] != 2
        if self.runnable:  # no limits are checked for a model that cannot be run
            check_dimensions(m)
            if h["position"] == 1:
                need(0 < h["theta"] < float("inf"), "header, offset 52", "theta is not a positive number")
                need(m["head_dim"] % 2 == 0, "model.head_dim", "odd, but positions are rotary")
        return m

    def section(self, tag):
        """Content of a section: CRC, then decompression (META, TOKN and CTPL only: section 7)."""
        need(tag in self.sections, "directory", f"no {tag}")
        s = self.sections[tag]
        place = f"{tag} at {s.offset}"
        data = self.view[s.offset:s.offset + s.stored]
        check_crc(data, s.crc, place)
        compressed = s.compression == 3 and tag in ("META", "TOKN", "CTPL")
        return zstd_frame(data, SECTION_LIMIT, place) if compressed else data

    def clusters(self):
        """Section 7.9: None, or a dict with centroids, leads and the cluster of each token as arrays."""
        if "CLUS" not in self.sections:
            return None
        raw, h, place = self.section("CLUS"), self.header, f"CLUS at {self.sections['CLUS'].offset}"
        need(len(raw) >= 24, place, f"only {len(raw)} bytes")
        version, count, cols, tokens, positions, measured = struct.unpack_from("<6I", raw)
        need(version == 1, place, f"version {version}")
        need(1 <= count <= 1 << 16, place, f"{count} clusters")
        need(cols == h["hidden"] and tokens == h["vocab"], place, f"{tokens} tokens of {cols} columns disagree with the header")
        need(measured <= count, place, f"{measured} measurements")
        width = 1 if count <= 256 else 2
        size = 24 + 8 * measured + 4 * count + 2 * count * cols + width * tokens
        need(len(raw) == size, place, f"{len(raw)} bytes instead of {size}")
        contained = list(struct.iter_unpack("<2I", raw[24:24 + 8 * measured]))
        for (p, n), (q, m) in zip([(0, 0)] + contained, contained):
            need(p < q <= count, place, f"{q} clusters probed after {p}")
            need(positions >= 1 and n <= m <= positions, place, f"{m} of {positions} positions contained after {n}")
        at = 24 + 8 * measured
        leads = np.frombuffer(raw, "<f4", count, at)
        centroids = np.frombuffer(raw, "<f2", count * cols, at + 4 * count).reshape(count, cols)
        ids = np.frombuffer(raw, "<u1" if width == 1 else "<u2", tokens, at + 4 * count + 2 * count * cols)
        need(np.isfinite(leads).all() and np.isfinite(centroids).all(), place, "a number that is not finite")
        need((ids < count).all(), place, "a token in a cluster that is not there")
        return dict(positions=positions, contained=contained, leads=leads, centroids=centroids, cluster_of=ids)

    def early_exits(self):
        """Section 7.10: None, or a dict with the layers, how many positions agreed there, biases and weights."""
        if "EXIT" not in self.sections:
            return None
        raw, h, place = self.section("EXIT"), self.header, f"EXIT at {self.sections['EXIT'].offset}"
        need(len(raw) >= 16, place, f"only {len(raw)} bytes")
        version, cols, positions, count = struct.unpack_from("<4I", raw)
        need(version == 1, place, f"version {version}")
        need(cols == h["hidden"], place, f"{cols} columns disagree with the header")
        need(1 <= count < h["layers"], place, f"{count} exits")
        need(len(raw) == 16 + count * (12 + 4 * cols), place, f"{len(raw)} bytes")
        records = np.frombuffer(raw, np.dtype([("layer", "<u4"), ("agreeing", "<u4"), ("bias", "<f4"), ("weights", "<f4", (cols,))]), count, 16)
        layers = records["layer"].astype(np.int64)
        need((np.diff(layers) > 0).all() and layers[-1] <= h["layers"] - 2, place, f"layers {layers.tolist()}")
        need((records["agreeing"] <= positions).all(), place, "more positions agree than there are")
        need(np.isfinite(records["bias"]).all() and np.isfinite(records["weights"]).all(), place, "a number that is not finite")
        return dict(positions=positions, layers=layers, agreeing=records["agreeing"], biases=records["bias"], weights=records["weights"])

    def layer_chunks(self, i):
        """Section 4.1: the checked chunk table of layer i."""
        e, place = self.layers[i], f"layer {i} at {self.layers[i]['offset']}"
        data = self.view[e["offset"]:e["offset"] + e["stored"]]
        check_crc(data, e["crc"], place)
        need(len(data) >= 16, place, "no chunk table")
        count, crc, reserved = struct.unpack_from("<IIQ", data)
        need(count == ceil_div(e["raw"], MIB), place, f"{count} chunks for {e['raw']} bytes")
        pos = align(16 + 16 * count)
        need(pos <= len(data), place, "chunk table does not fit")
        check_crc(data[16:16 + 16 * count], crc, place + ", chunk table")
        need(reserved == 0, place, "reserved bytes are not zero")
        check_zero(data[16 + 16 * count:pos], place, e["offset"] + 16 + 16 * count)
        chunks = []
        for k in range(count):
            stored, raw, crc, compression = struct.unpack_from("<4I", data, 16 + 16 * k)
            c = Chunk(e["offset"] + pos, stored, raw, crc, compression)
            need(raw == min(MIB, e["raw"] - k * MIB), f"{place}, chunk {k}", f"raw size {raw}")
            chunk_sizes(c, f"{place}, chunk {k}")
            pos += stored
            need(pos <= len(data), f"{place}, chunk {k}", "ends behind the layer")
            chunks.append(c)
        need(pos == len(data), place, f"chunks end at {pos}, layer at {len(data)}")
        return chunks

    def walk(self, raw, place, belong, end=0, count=None, default=None, layer=None, tail=False):
        """Section 5: the tensors in a raw layer or section. belong: kinds that may be there. count None: as many as fill it. tail: more may follow."""
        out = []
        while len(out) < count if count is not None else end < len(raw):
            at = align(end + 16) - 16
            where = f"{place}, tensor {len(out)} at {at}"
            need(at < len(raw), where, "no header before the end")
            check_zero(raw[end:at], where, end)
            need(at + 16 <= len(raw), where, "header does not fit")
            kind, rows, cols, own, layout, flags = struct.unpack_from("<3IBBH", raw, at)
            t = default if own == 255 and default is not None else own
            need(flags in (0, 1), where, f"flags {flags}")
            need(kind in KINDS or flags == 1, where, f"kind {kind}")
            need(kind not in KINDS or kind in belong, where, f"{KINDS.get(kind)} does not belong here")
            need(all(kind != x.kind for x in out), where, f"kind {kind} comes twice")
            self.known_type(t, where)
            check_layout(t, layout, where)
            need(rows >= 1 and cols >= 1, where, "no rows or columns")
            end = at + 16 + rows * row_bytes(t, cols, self.n)
            need(end <= len(raw), where, "data does not fit")
            out.append(Tensor(layer, kind, rows, cols, t, layout, flags, at, zlib.crc32(raw[at:end]), raw[at + 16:end], own))
        need(tail or end == len(raw), place, f"{len(raw) - end} bytes left after the last tensor")
        return out

    def layer(self, i):
        chunks, place = self.layer_chunks(i), f"layer {i} at {self.layers[i]['offset']}"
        raw = memoryview(b"".join(chunk_bytes(self.view, c, f"{place}, chunk {k}") for k, c in enumerate(chunks)))
        return self.walk(raw, place, range(32), count=self.layers[i]["tensors"], default=self.layers[i]["type"], layer=i)

    def final(self):
        at = self.header["final_offset"]
        raw = self.section("FINL") if self.extended else self.view[at:]
        place = f"final section at {at}"
        need(len(raw) >= 1 and raw[0] in (0, 255), place, "flag byte is neither 0 nor 255")
        self.model.setdefault("tied_head", raw[0] == 255)
        need(self.model["tied_head"] == (raw[0] == 255), place, "flag byte disagrees with tied_head in META")
        count = None if self.extended else 1 + (self.header["norm"] == 0) + (raw[0] == 0)
        return self.walk(raw, place, (64, 65, 66, 67, 70, 71), end=1, count=count, tail=not self.extended)

    def positions(self):
        if "POSE" not in self.sections:
            return []
        place = f"POSE at {self.sections['POSE'].offset}"
        out = self.walk(self.section("POSE"), place, (68,), count=1)
        need(out[0].kind == 68, place, f"kind {out[0].kind}")
        return out

    def embedding(self):
        """Section 7.3: the whole embedding as one Tensor, all chunks checked."""
        h, at = self.header, self.header["embedding_offset"]
        place = f"embedding at {at}"
        end = at + len(self.section("EMBD")) if self.extended else self.size
        need(at + 16 <= end, place, "header does not fit")
        t, size, rows, cols = struct.unpack_from("<4I", self.view, at)
        layout, t = t >> 8, t & 255
        self.known_type(t, place)
        check_layout(t, layout, place)
        need(rows == h["vocab"] and cols == h["hidden"] and rows and cols, place, f"shape {rows} x {cols} disagrees with the header")
        rb = row_bytes(t, cols, self.n)
        stored = end - at - 16 if self.extended else rows * rb
        need(size == min(stored, NONE), place, f"size {size} instead of {stored}")
        if not self.extended:
            need(at + 16 + stored <= end, place, "rows are not inside the file")
            raw = self.view[at + 16:at + 16 + stored]
        else:
            table, per = self.section("ECHK"), chunk_rows(layout, rb)
            need(len(table) == 24 * ceil_div(rows, per), "ECHK", f"{len(table)} bytes for {rows} rows")
            chunks, pos = [], at + 16
            for k, c in enumerate(struct.iter_unpack("<Q4I", table)):
                c, where = Chunk(*c), f"ECHK, chunk {k}"
                need(c.compression in COMPRESSION, where, f"compression {c.compression} is unknown")
                need(c.offset == pos, where, f"offset {c.offset} instead of {pos}")
                need(c.raw == min(per, rows - k * per) * rb, where, f"raw size {c.raw}")
                chunk_sizes(c, where)
                pos += c.stored
                need(pos <= end, where, "ends behind EMBD")
                chunks.append(c)
            need(pos == end, "ECHK", f"chunks end at {pos}, EMBD at {end}")
            raw = memoryview(b"".join(chunk_bytes(self.view, c, f"{place}, chunk {k}") for k, c in enumerate(chunks)))
        return Tensor(None, 69, rows, cols, t, layout, 0, at, None, raw, t)

    def tensors(self):
        """Every tensor in the order of META: embedding, layers, final section, positions."""
        yield self.embedding()
        for i in range(len(self.layers)):
            tensors = self.layer(i)
            if i == 0:
                self.model.setdefault("gated_ffn", any(t.kind == 4 for t in tensors))
            yield from tensors
        yield from self.final()
        yield from self.positions()

    def verify(self):
        """All checks of "when verifying" in section 10. Yields every tensor on the way; exhaust it."""
        crcs, left = [], set(self.outliers)
        for t in self.tensors():
            self.check_outliers(t)
            left.discard((t.layer, t.kind))
            if t.crc is not None:
                crcs.append(t.crc)
            yield t
        if "TCRC" in self.sections:
            table = self.section("TCRC")
            need(len(table) == 4 * len(crcs), "TCRC", f"{len(table)} bytes for {len(crcs)} tensors")
            for k, (c,) in enumerate(struct.iter_unpack("<I", table)):
                need(c == crcs[k], f"TCRC, tensor {k}", f"CRC32 is {crcs[k]:08x}, recorded is {c:08x}")
        need(not left, "OUTL", f"no tensor for {sorted(left, key=str)}")
        for tag in self.sections:
            self.section(tag)
        self.clusters()
        self.early_exits()
        if self.extended:
            for a, b in zip(self.regions, self.regions[1:]):
                check_zero(self.view[a[1]:b[0]], f"between {a[2]} and {b[2]}", a[1])


# ---------------------------------------------------------------- Rules for writers that readers need not check

def lint_learned(t, name):
    for scales, blocks in learned_pieces(t.type, t.data, t.rows, t.cols, t.layout):
        if not np.isfinite(scales).all():
            yield f"{name}: row scale is not finite"
        if t.type < 21 and ((blocks[..., 0].view(np.int8) >> 1) == -64).any():
            yield f"{name}: block scale -64"


def lint_tensor(r, t):
    name = f"layer {t.layer} {KINDS.get(t.kind, t.kind)}"
    if t.kind == 13:
        yield f"{name}: writers write kinds 21 and 22"
    if t.own_type == 255 or t.flags:
        yield f"{name}: type is not explicit, or flags are not 0"
    if t.type in (6, 7, 8):
        return
    if t.type in LEARNED:
        yield from lint_learned(t, name)
        return
    for f16s, codes in pieces(t.type, t.data, t.rows, t.cols, r.n, t.layout):
        planes = len(codes) == 2
        padding = 2 if t.type == 4 and not planes else 0  # section 6.1: what zero bits become
        if not all(np.isfinite(f).all() for f in f16s):
            yield f"{name}: scale or min is not finite"
        if t.cols % r.n and any((c[:, -1, t.cols % r.n:] != padding).any() for c in codes):
            yield f"{name}: padding codes are not {padding}"
        if planes and (codes[0] & codes[1]).any():
            yield f"{name}: sign bit where the zero bit is set"
        if t.type == 4 and not planes and (codes[0] == 3).any():
            yield f"{name}: code 3"
        if t.type == 9 and (codes[0] == -128).any():
            yield f"{name}: code -128"


def lint_file(r, listing):
    if not r.extended:
        return ["plain file"]
    out, order = [], ["header", "LIDX", "EMBD"] + [f"layer {i}" for i in range(len(r.layers))]
    order += [t for t in ("FINL", "POSE", "META", "TOKN", "CTPL", "GRID", "OUTL", "ECHK", "TCRC", "CLUS", "EXIT", "EVAL") if t in r.sections] + ["directory"]
    if [x[2] for x in r.regions] != order:
        out.append(f"parts are not in order: {[x[2] for x in r.regions]}")
    if "TCRC" not in r.sections:
        out.append("no TCRC")
    if r.header["index_offset"] != 128 or r.directory_offset % 64:
        out.append("layer index is not at 128, or directory is not aligned")
    if [s.offset for s in r.sections.values()] != sorted(s.offset for s in r.sections.values()):
        out.append("directory is not sorted by offset")
    for tag, s in r.sections.items():
        if (s.offset + 16 * (tag == "EMBD")) % 64:
            out.append(f"{tag} is not aligned")
        if s.compression and tag not in ("META", "TOKN", "CTPL", "EVAL"):
            out.append(f"{tag} is compressed")
        elif s.compression and len(r.section(tag)) <= s.stored:
            out.append(f"{tag} is compressed, but not smaller")
    if r.model["position"]["kind"] != "rope" and r.theta_bits != bytes(4):
        out.append("rope theta without rotation")
    if "POSE" in r.sections and r.model["position"]["kind"] != "learned":
        out.append("POSE, but positions are not learned")
    for i, e in enumerate(r.layers):
        chunks = r.layer_chunks(i)
        raw = all(c.compression == 0 for c in chunks)
        if raw != (e["compression"] == 0) or not raw and 100 * sum(c.stored for c in chunks) > 98 * e["raw"]:
            out.append(f"layer {i}: compression id, or compression that does not save 2 %")
    if len(r.records) != len(listing):
        return out + [f"META has {len(r.records)} records for {len(listing)} tensors"]
    for t, rec in zip(listing, r.records):
        if any(rec.get(k) != t[k] for k in ("layer", "kind", "rows", "cols", "type")):
            out.append(f"META's record of layer {t['layer']} {t['kind']} disagrees with the file")
    return out


# ---------------------------------------------------------------- Running the model (sections 5 and 8.1)

def kind_faults(m, listing):
    """Tensors that the model needs and the file has not, or that it does not use, or of another shape; experts that end inside a panel.
    listing: (layer, kind, rows, cols, layout)."""
    parts = {}
    for layer, kind, rows, cols, layout in listing:
        parts.setdefault(layer, {})[kind] = rows, cols
        if layout == 3 and kind in (24, 25, 26) and m["experts"] and rows % (16 * m["experts"]["count"]):
            yield f"layer {layer} {KINDS[kind]}: experts that are not whole panels"
    for layer in [None, *range(m["layers"])]:
        must, may = qsf_forward.tensor_kinds(m, layer)
        have = {k: v for k, v in parts.get(layer, {}).items() if k in KINDS}  # unknown ones are optional
        where = "" if layer is None else f"layer {layer} "
        for k in must.keys() - have.keys():
            yield f"{where}{KINDS[k]}: missing"
        for k, shape in have.items():
            want = must.get(k) or may.get(k)
            if want is None:
                if k != 68:  # section 7.5: not used, but allowed
                    yield f"{where}{KINDS[k]}: the model does not use it"
            elif want != shape:
                yield f"{where}{KINDS[k]}: shape {shape[0]} x {shape[1]} instead of {want[0]} x {want[1]}"


def run(r, ids, context, last):
    """Logits of the last positions, after all checks."""
    faults = list(kind_faults(r.model, [(t.layer, t.kind, t.rows, t.cols, t.layout) for t in r.verify()]))
    need(r.runnable, "header", "architecture or position encoding of a plain file that cannot be run")
    need(not faults, "model", "; ".join(faults))
    need(r.extended or r.model["position"]["kind"] != "learned", "model", "a plain file has no place for learned positions")
    floats = lambda tensors: {t.kind: r.values(t).astype(np.float64) for t in tensors if t.kind in KINDS}
    rest = floats([r.embedding(), *r.final(), *r.positions()])
    return qsf_forward.logits(r.model, ids, rest, (floats(r.layer(i)) for i in range(len(r.layers))), context, last)


def token_ids(text):
    """Numbers with commas between them, or @FILE: the same, or a JSON array, in a file."""
    if text.startswith("@"):
        with open(text[1:]) as f:
            text = f.read()
    return [int(x) for x in text.strip().strip("[]").replace(",", " ").split()]


def main_run(p, args):
    """--logits and --expected: one line of JSON, exit code 1 if the logits are not those expected."""
    try:
        want = nll = None
        if args.expected:
            f = Safetensors(args.expected)
            ids, want, nll = f.get("input_ids").astype(int).ravel().tolist(), f.get("logits_last8"), f.get("nll")
        else:
            ids = token_ids(args.logits)
    except (OSError, ValueError, KeyError, struct.error) as e:
        p.error(f"cannot read token ids: {e!r}")
    try:
        r = Reader(args.file)
        if not ids or min(ids) < 0 or max(ids) >= r.model["vocab"]:
            p.error("no token ids, or ids outside of the vocabulary")
        if args.context is not None and args.context < len(ids):
            p.error("context shorter than the sequence")
        if r.model["position"]["kind"] == "learned" and len(ids) > r.model["max_positions"]:
            p.error("more token ids than learned positions")  # the other kinds are defined beyond max_positions too
        out = run(r, ids, args.context, len(ids) if args.expected else min(args.last, len(ids)))
    except Damage as e:
        print(json.dumps(dict(file=args.file, damage=str(e))))
        return 3
    except (Missing, OSError) as e:
        p.error(str(e))
    if want is None:
        print(json.dumps(dict(file=args.file, ids=ids, context=args.context or len(ids), logits=out.tolist())))
        return 0
    top = out[:-1].max(axis=-1, keepdims=True)
    ours = (top + np.log(np.exp(out[:-1] - top).sum(axis=-1, keepdims=True)))[:, 0] - out[np.arange(len(ids) - 1), ids[1:]]
    deviation = max(float(np.abs(out[-len(want):] - want).max() / np.abs(want).max()), float(np.abs(ours - nll).max() / np.abs(nll).max()))
    print(json.dumps(dict(file=args.file, positions=len(ids), relative_deviation=deviation)))
    return int(not deviation <= args.tolerance)


# ---------------------------------------------------------------- Comparison with the original model

class Safetensors:
    """All *.safetensors of a model folder, or one file: u64 length, JSON header, data. Arrays come as float32."""

    def __init__(self, path):
        folder, name = (path, "model.safetensors") if os.path.isdir(path) else os.path.split(path)
        index, files, self.where = os.path.join(path, "model.safetensors.index.json"), [name], {}
        if os.path.exists(index):
            with open(index) as f:
                files = sorted(set(json.load(f)["weight_map"].values()))
        for name in (os.path.join(folder, f) for f in files):
            with open(name, "rb") as f:
                size, = struct.unpack("<Q", f.read(8))
                for k, v in json.loads(f.read(size)).items():
                    if k != "__metadata__":
                        self.where[k] = name, 8 + size + v["data_offsets"][0], v["dtype"], v["shape"]

    def get(self, name):
        path, at, dtype, shape = self.where[name]
        a = np.fromfile(path, {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "I32": "<i4"}[dtype], int(np.prod(shape)), offset=at)
        a = (a.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else a.astype(np.float32)
        return a.reshape(shape)


LLAMA = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm",
         "final_norm": "norm", "head": "lm_head", "token_embedding": "embed_tokens"}
GPT2 = {"attn_q": "attn.c_attn", "attn_k": "attn.c_attn", "attn_v": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj", "attn_norm": "ln_1", "ffn_norm": "ln_2", "final_norm": "ln_f", "positions": "wpe",
        "head": "lm_head", "token_embedding": "wte"}


def original(source, layer, kind):
    """The original of a tensor, as [outputs, inputs] or [1, values]."""
    base, suffix = (kind[:-5], ".bias") if kind.endswith("_bias") else (kind, ".weight")
    gpt2 = any(k.endswith("h.0.attn.c_attn.weight") for k in source.where)
    name = (GPT2 if gpt2 else LLAMA)[base] + suffix
    if layer is not None:
        name = f"{'h' if gpt2 else 'layers'}.{layer}.{name}"
    name = next(p + name for p in ("", "transformer.", "model.") if p + name in source.where)
    a = source.get(name)
    if gpt2 and layer is not None:
        if a.ndim == 2:
            a = a.T  # GPT-2's Conv1D stores [inputs, outputs]
        if base in ("attn_q", "attn_k", "attn_v"):
            a = np.split(a, 3)[("attn_q", "attn_k", "attn_v").index(base)]
    return a if a.ndim == 2 else a.reshape(1, -1)


def measure(a, b):
    """(cosine, relative error, largest absolute difference) of original a and stored b, in f64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    d, na, nb = a - b, np.linalg.norm(a), np.linalg.norm(b)
    cosine = float((a * b).sum() / (na * nb)) if na and nb else float(na == nb)
    return cosine, float(np.linalg.norm(d) / na) if na else float(np.linalg.norm(d) > 0), float(np.abs(d).max())


# ---------------------------------------------------------------- Command line

def main():
    p = argparse.ArgumentParser(description="Independent reader and checker of QSF files")
    p.add_argument("file")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.add_argument("--lint", action="store_true", help="also check rules for writers; exit code 1 if one is broken")
    p.add_argument("--compare", metavar="MODEL_DIR", help="compare with the safetensors; exit code 1 if META is off by more than 1e-4")
    p.add_argument("--logits", metavar="IDS", help="check everything, run the model in float64 on these token ids (1,2,3 or @FILE) and print the logits as JSON")
    p.add_argument("--last", type=int, default=1, metavar="N", help="--logits: of the last N positions, default 1")
    p.add_argument("--context", type=int, metavar="L", help="length of the context, L of section 8.1; default: number of ids")
    p.add_argument("--expected", metavar="FILE", help="run the model on `input_ids` of these safetensors; exit code 1 if logits or losses deviate from `logits_last8` or `nll`")
    p.add_argument("--tolerance", type=float, default=1e-5, metavar="X", help="--expected: largest deviation, relative to the largest value; default 1e-5")
    args = p.parse_args()
    if args.logits and args.expected or args.last < 1 or args.context is not None and args.context < 1:
        p.error("--logits or --expected; --last and --context are at least 1")
    if args.logits or args.expected:
        return main_run(p, args)
    try:
        source = Safetensors(args.compare) if args.compare else None
    except (OSError, ValueError, KeyError, struct.error) as e:
        p.error(f"cannot read the model in {args.compare}: {e!r}")
    listing, shapes, remarks = [], [], []
    try:
        r = Reader(args.file)
        for i, t in enumerate(r.verify()):
            row = dict(layer=t.layer, kind=KINDS.get(t.kind, f"unknown {t.kind}"), rows=t.rows, cols=t.cols, type=TYPES[t.type], layout=t.layout,
                       offset=t.offset, crc32=None if t.crc is None else f"{t.crc:08x}")
            shapes.append((t.layer, t.kind, t.rows, t.cols, t.layout))
            if args.lint:
                remarks += lint_tensor(r, t)
            decoded = r.values(t)
            row.update(min=float(decoded.min()), max=float(decoded.max()), values_crc32=f"{zlib.crc32(np.ascontiguousarray(decoded)):08x}")
            if source:
                name, keys = f"layer {t.layer} {row['kind']}", ("cosine", "relative_error", "max_abs_error")
                try:
                    a = original(source, t.layer, row["kind"])
                except (KeyError, StopIteration):
                    a = np.zeros((0, 0))
                if a.shape != decoded.shape:
                    remarks.append(f"{name}: no original of shape {t.rows} x {t.cols} found")
                else:
                    row.update(zip(keys, measure(a, decoded)))
                    rec = r.records[i] if i < len(r.records) else {}
                    row["meta"] = {k: rec.get(k) for k in keys}
                    for k in keys if r.extended else ():
                        if not (isinstance(rec.get(k), (int, float)) and abs(rec[k] - row[k]) <= 1e-4 * max(1, abs(row[k]))):
                            remarks.append(f"{name}: {k} is {row[k]:.7g}, META has {rec.get(k)}")
            listing.append(row)
        if args.lint:
            remarks += kind_faults(r.model, shapes)
        remarks += lint_file(r, listing) if args.lint or source else []
    except Damage as e:
        print(json.dumps(dict(file=args.file, damage=str(e))) if args.json else f"DAMAGED {args.file}: {e}")
        return 3
    except (Missing, OSError) as e:
        p.error(str(e))
    unvouched = [] if r.extended else ["layer index", "embedding", "final section"]
    parts = [dict(name=c, offset=a, size=b - a) for a, b, c in r.regions]
    if args.json:
        print(json.dumps(dict(file=args.file, size=r.size, extended=r.extended, block_size=r.n, model=r.model, parts=parts,
              provenance=r.meta and r.meta["provenance"], layers=r.layers, tensors=listing, not_vouched_for=unvouched, remarks=remarks)))
        return int(bool(remarks))
    print(f"{args.file}: {r.size} bytes, {'extended' if r.extended else 'plain'}, block size {r.n}\n{json.dumps(r.model)}")
    for x in parts:
        print(f"  {x['offset']:>12} {x['size']:>12}  {x['name']}")
    for t in listing:
        line = f"{'' if t['layer'] is None else t['layer']:>3} {t['kind']:<19} {t['rows']:>6} x {t['cols']:<6} {t['type']:<8} {t['layout']} {t['min']:>11.5g} {t['max']:>11.5g}"
        if "cosine" in t:
            line += f"  cosine {t['cosine']:.6f}  relative error {t['relative_error']:.6f}"
        print(line + f"  {t['values_crc32']}")
    print("\n".join(remarks + [f"Checked: every checksum and padding byte, {len(listing)} tensors decoded" if r.extended else
                               f"Checked; not vouched for (no checksum): {', '.join(unvouched)}"]))
    return int(bool(remarks))


if __name__ == "__main__":
    sys.exit(main())
