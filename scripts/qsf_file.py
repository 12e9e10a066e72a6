"""QSF files, opened and checked, written from format-spec/SPEC.md alone. "Section N" in comments means section N of that text."""
import mmap, os, struct, zlib
from collections import namedtuple
import numpy as np
from qsf_chunks import COMPRESSION, Chunk, align, check_crc, check_zero, chunk_bytes, chunk_sizes, zstd_frame
from qsf_meta import (MODEL_DEFAULTS, MODEL_OPTIONAL, NONE, NORM_DEFAULTS, ROPE_DEFAULTS, ROPE_OPTIONAL, TYPES,
                      check_dimensions, need, parse_meta, with_defaults)
from qsf_parts import PART_IDS, PARTED, check_parts, parse_parts, part_of
from qsf_values import COUNTS, LEARNED, ceil_div, decode, row_bytes

KINDS = dict(enumerate("""attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down attn_norm ffn_norm attn_q_bias
    attn_k_bias attn_v_bias attn_output_bias ffn_biases q_norm k_norm post_attn_norm post_ffn_norm attn_norm_bias
    ffn_norm_bias ffn_gate_bias ffn_up_bias ffn_down_bias router expert_gate expert_up expert_down shared_gate
    shared_up shared_down attn_sinks rope_factors router_bias router_choice_bias expert_gate_bias expert_up_bias
    expert_down_bias shared_router ffn_act_above ffn_act_below mixer_in mixer_gate mixer_step mixer_beta mixer_output
    mixer_conv mixer_conv_bias mixer_decay mixer_step_bias mixer_skip mixer_norm mixer_in_bias mixer_output_bias attn_gate
    attn_q_down attn_kv_down attn_k_up attn_v_up per_layer_gate per_layer_up per_layer_norm layer_scale attn_sub_norm
    ffn_sub_norm""".split()))
KINDS.update(enumerate("""final_norm final_norm_bias head head_bias positions token_embedding embedding_norm
    embedding_norm_bias per_layer_embedding per_layer_projection per_layer_projection_norm
    stream_projection stream_return""".split(), start=64))
KINDS.update(enumerate("""router_norm expert_norm post_side_norm post_expert_norm expert_scale
    mixer_select mixer_step_up mixer_step_norm mixer_b_norm mixer_c_norm stream_router stream_router_norm stream_prediction
    stream_correction stream_scale laurel_down laurel_up laurel_norm mixer_gate_down""".split(), start=128))
KINDS.update({part: f"{KINDS[kind]}.{p}" for part, (kind, p) in PART_IDS.items()})
OF_LAYERS = [kind for kind in KINDS if not 64 <= kind % 256 < 128]
OF_MODEL = [kind for kind in KINDS if 64 <= kind % 256 < 128 and kind not in (68, 69)]
# Section 7.8: what may have outliers.
MATRICES = (*range(7), *range(23, 30), *range(40, 45), *range(53, 60), 66, 68, 69, 72, 73, 75, 76, 133, 134, 143, 144, 146)
MIB = 1 << 20
Tensor = namedtuple("Tensor", "layer kind rows cols type layout flags offset crc data own_type")  # data: quantized bytes


def check_layout(t, layout, place):
    """Section 5: layouts 0 (rows) and 3 (panels), the latter of block types only."""
    need(layout == 0 or layout == 3 and t not in (6, 7, 8), place, f"layout {layout} of type {t}")


def chunk_rows(layout, rb):
    """Section 7.3: rows of a chunk of the embedding."""
    p = max(1, MIB // rb)
    return p if layout == 0 else max(16, p // 16 * 16)


def section_limit(tag, stored):
    """Section 7: what a zstd section of this many stored bytes may hold."""
    return min(1 << (24 if tag == "META" else 28), max(MIB, 64 * stored))


class Reader:
    """Opens and checks a file in the order of section 10. `view` is the whole file, mapped."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.size = os.fstat(f.fileno()).st_size
            need(self.size >= 128, "header", f"the file has only {self.size} bytes")
            self.view = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        self.sections, self.records, self.meta, self.runnable, self.names = {}, [], None, True, {}
        self._header()
        if self.extended:
            self._directory()
        self._index()
        self._tables()
        raw, place = (self.section("PART"), f"PART at {self.sections['PART'].offset}") if "PART" in self.sections else (b"", "")
        self.parts = parse_parts(raw, place, len(self.layers))
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
            need(flags == (tag in ("OUTL", "PART", "LORA")), place, f"{tag} has flags {flags}")
            in_place = tag in ("LIDX", "EMBD", "FINL", "ECHK", "TCRC", "POSE", "GRID", "OUTL", "PART", "CLUS", "EXIT", "LORA")
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
            matrix = kind in MATRICES and (layer is None) == (64 <= kind < 128)
            need(matrix or kind not in KINDS, place, f"number {number}")
            need(number > last, place, f"number {number} after {last}")
            need((layer, kind) not in self.parts, place, f"number {number} is of a matrix in parts")
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
            fits = rows == t.rows and t.type not in (6, 7, 8) and (col < t.cols).all()
            need(fits, "OUTL", f"does not fit {self.name(t)}")

    def kind_name(self, t):
        """Of an unknown kind the name that META has, and its number (section 8)."""
        if t.kind in KINDS:
            return KINDS[t.kind]
        return self.names.get((t.layer, t.kind), "kind") + f" {t.kind}"

    def name(self, t):
        return ("" if t.layer is None else f"layer {t.layer} ") + self.kind_name(t)

    def name_unknown(self, tensors, layer):
        """Section 8: within a layer, the i-th unknown name of META belongs to the i-th tensor of unknown kind."""
        unknown = [t for t in tensors if t.kind not in KINDS]
        names = [r["kind"] for r in self.records if r.get("layer") == layer and r["kind"] not in KINDS.values()]
        self.names.update(((layer, t.kind), name) for t, name in zip(unknown, names))

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
        want["activation"] = {"silu": 1, "relu": 2, "relu2": 2, "xielu": 2}.get(m["activation"], 0)
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
        """Content of a section: CRC, then decompression (META, TOKN, CTPL and EVAL only: section 10)."""
        need(tag in self.sections, "directory", f"no {tag}")
        s = self.sections[tag]
        place = f"{tag} at {s.offset}"
        data = self.view[s.offset:s.offset + s.stored]
        check_crc(data, s.crc, place)
        compressed = s.compression == 3 and tag in ("META", "TOKN", "CTPL", "EVAL")
        data = zstd_frame(data, section_limit(tag, s.stored), place) if compressed else data
        need(tag != "META" or len(data) <= 1 << 24, place, f"{len(data)} bytes")
        return data

    def clusters(self):
        """ANNEX.md, CLUS: None, or a dict with centroids, leads and the cluster of each token as arrays."""
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
        """ANNEX.md, EXIT: None, or a dict with the layers, how many positions agreed there, biases and weights."""
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

    def adapters(self):
        """ANNEX.md, LORA: (layer or None, kind, expert or None, what is added to the matrix as two arrays) of every update."""
        if "LORA" not in self.sections:
            return []
        raw, place, none, found = self.section("LORA"), f"LORA at {self.sections['LORA'].offset}", 0xFFFFFFFF, []
        need(len(raw) >= 16, place, f"only {len(raw)} bytes")
        version, count, total, names = struct.unpack_from("<4I", raw)
        need(version == 1, place, f"version {version}")
        need(count >= 1, place, "no adapter")
        record, name = 16 + 16 * count, 16 + 16 * count + 32 * total
        at = name + names
        need(at <= len(raw), place, f"only {len(raw)} bytes")
        for length, updates, scale, reserved in struct.iter_unpack("<2IfI", raw[16:record]):
            need(np.isfinite(scale) and reserved == 0 and updates >= 1, place, "an impossible record of an adapter")
            need(name + length <= 16 + 16 * count + 32 * total + names, place, "a name behind the names")
            bytes(raw[name:name + length]).decode("utf-8", "surrogateescape")
            name, before = name + length, (-1,)
            for _ in range(updates):
                need(record + 32 <= 16 + 16 * count + 32 * total, place, "fewer updates than the adapters say")
                layer, kind, expert, rank, outputs, inputs, t, reserved = struct.unpack_from("<8I", raw, record)
                need(layer == none or layer < len(self.layers), place, f"layer {layer}")
                need(kind in KINDS and kind < 256 and min(rank, outputs, inputs) >= 1 and t in (6, 7) and reserved == 0, place, f"an impossible record at byte {record}")
                need((layer, kind, expert) > before, place, "updates are not ascending")
                record, before, width = record + 32, (layer, kind, expert), 2 if t == 6 else 4
                need(at + 4 * rank + rank * (inputs + outputs) * width <= len(raw), place, "values behind the end")
                factors, at = np.frombuffer(raw, "<f4", rank, at).astype(np.float64), at + 4 * rank
                values = np.frombuffer(raw, f"<f{width}", rank * (inputs + outputs), at).astype(np.float64)
                at += rank * (inputs + outputs) * width
                need(np.isfinite(factors).all() and np.isfinite(values).all(), place, "a number that is not finite")
                down, up = values[:rank * inputs].reshape(rank, inputs), values[rank * inputs:].reshape(rank, outputs)
                found.append((None if layer == none else layer, kind, None if expert == none else expert, up.T * factors, down))
        need(record == 16 + 16 * count + 32 * total and name == record + names and at == len(raw), place, "counts that disagree")
        return found

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
        """Section 5: the tensors in a raw layer or section. belong: known kinds that may be there. count None: as many as
        fill it. tail: more may follow."""
        out, seen = [], set()
        while len(out) < count if count is not None else end < len(raw):
            at = align(end + 16) - 16
            where = f"{place}, tensor {len(out)} at {at}"
            need(at < len(raw), where, "no header before the end")
            check_zero(raw[end:at], where, end)
            need(at + 16 <= len(raw), where, "header does not fit")
            kind, rows, cols, own, layout, flags = struct.unpack_from("<3IBBH", raw, at)
            t = default if own == 255 and default is not None else own
            need(flags in (0, 1), where, f"flags {flags}")
            need(kind not in KINDS or kind in belong, where, f"{KINDS.get(kind)} does not belong here")
            need(kind not in seen, where, f"kind {kind} comes twice")
            seen.add(kind)
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
        return self.walk(raw, place, OF_LAYERS, count=self.layers[i]["tensors"], default=self.layers[i]["type"], layer=i)

    def final(self):
        at = self.header["final_offset"]
        raw = self.section("FINL") if self.extended else self.view[at:]
        place = f"final section at {at}"
        need(len(raw) >= 1 and raw[0] in (0, 255), place, "flag byte is neither 0 nor 255")
        self.model.setdefault("tied_head", raw[0] == 255)
        need(self.model["tied_head"] == (raw[0] == 255), place, "flag byte disagrees with tied_head in META")
        count = None if self.extended else 1 + (self.header["norm"] == 0) + (raw[0] == 0)
        return self.walk(raw, place, OF_MODEL, end=1, count=count, tail=not self.extended)

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
        whole = self.parts.get((None, 69))
        fits = rows == h["vocab"] if whole is None else rows < h["vocab"] == len(whole)
        need(fits and cols == h["hidden"] and rows and cols, place, f"shape {rows} x {cols} disagrees with the header")
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
            self.name_unknown(tensors, i)
            yield from tensors
        last = self.final()
        self.name_unknown(last, None)
        yield from last
        yield from self.positions()

    def verify(self):
        """All checks of "when verifying" in section 10. Yields every tensor on the way; exhaust it."""
        crcs, left, parted = [], set(self.outliers), {}
        for t in self.tensors():
            if part_of(t.kind)[0] in PARTED:
                parted[t.layer, t.kind] = t.rows, t.cols
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
        check_parts(self.parts, parted)
        need(not left, "OUTL", f"no tensor for {sorted(left, key=str)}")
        for tag in self.sections:
            self.section(tag)
        self.clusters()
        self.early_exits()
        self.adapters()
        if self.extended:
            for a, b in zip(self.regions, self.regions[1:]):
                check_zero(self.view[a[1]:b[0]], f"between {a[2]} and {b[2]}", a[1])
