"""The files that every reader must refuse: each is one of the accepted files with one thing wrong, its checksums made again.

A case is (name, base, why, section of SPEC.md, when, edits of `build`). `when` is what finds it: "open" opening the file, "read" reading
or verifying its parts, "verify" only verifying. Of "run" the file is sound, and only who runs it refuses.
"""
import json
import struct


def at(offset, form, *values):
    """Overwrites fields."""
    return lambda data: struct.pack_into("<" + form, data, offset, *values)


def flip(offset, bit=1):
    def edit(data):
        data[offset] ^= bit
    return edit


def cut(count):
    return lambda data: data[:-count]


def extend(more):
    return lambda data: data + more


def entry(name, **fields):
    """Fields of a section in the directory."""
    def edit(sections):
        next(s for s in sections if s["tag"] == name).update(fields)
    return edit


def shift(tag, other):
    """Lets a section begin where another does."""
    def edit(sections):
        of = {s["tag"]: s for s in sections}
        of[tag]["offset"], of[tag]["size"], of[tag]["crc"] = of[other]["offset"], of[other]["size"], of[other]["crc"]
    return edit


def twice(tag):
    def edit(sections):
        sections.append(dict(next(s for s in sections if s["tag"] == tag)))
    return edit


def text(old, new):
    """Another text in META."""
    def edit(data):
        assert data.count(old) == 1, (old, data.count(old))
        return data.replace(old, new)
    return edit


def model(**fields):
    """Other fields in META's model."""
    def edit(data):
        root = json.loads(data)
        root["model"].update(fields)
        return bytearray(json.dumps(root, separators=(",", ":")).encode())
    return edit


HEADER = 48  # of the first tensor of a raw layer
SECOND = 176  # header of the second tensor, behind kind 0 of 2 x 34 in 4bit
Q4 = "4bit-rows"  # the base of most


def file_cases():
    yield "magic", Q4, "The magic is not QSF1", "3", "open", dict(file=at(0, "4s", b"QSF2"))
    yield "header-crc", Q4, "A bit of the header is flipped", "3", "open", dict(file=flip(17))
    yield "version", Q4, "Version 2", "3", "open", dict(header=at(4, "I", 2))
    yield "header-size", Q4, "A header of 256 bytes", "3", "open", dict(header=at(8, "I", 256))
    yield "truncated", Q4, "The last byte is missing", "3", "open", dict(file=cut(1))
    yield "appended", Q4, "A byte follows the directory", "3", "open", dict(file=extend(b"\0"))
    yield "size-low", Q4, "Bytes 92-95 are not the size of the file", "3", "open", dict(header=at(92, "I", 77))
    yield "extension-crc", Q4, "A bit of the extension is flipped", "3", "open", dict(file=flip(108))
    yield "reserved-110", Q4, "Reserved bytes 110-111 are not zero", "3", "open", dict(extension=at(10, "H", 1))
    yield "reserved-120", Q4, "Reserved bytes 120-123 are not zero", "3", "open", dict(extension=at(20, "I", 1))
    yield "block-size", Q4, "Blocks of 48", "3", "open", dict(extension=at(8, "H", 48))
    yield "architecture", Q4, "Architecture 5", "3", "open", dict(header=at(12, "I", 5))
    yield "default-type-10", Q4, "Default type 10", "3", "open", dict(header=at(48, "B", 10))
    yield "activation", Q4, "Activation 3", "3", "open", dict(header=at(49, "B", 3))
    yield "normalization", Q4, "Normalization 2", "3", "open", dict(header=at(50, "B", 2))
    yield "position", Q4, "Position encoding 3", "3", "open", dict(header=at(51, "B", 3))
    yield "directory-crc", Q4, "A bit of the directory is flipped", "7", "open", dict(file=flip(-1))
    yield "directory-version", Q4, "A directory of version 2", "7", "open", dict(directory=at(4, "I", 2))
    yield "directory-count", Q4, "One entry too many", "7", "open", dict(directory=at(8, "I", 9))
    yield "tag-twice", Q4, "TCRC comes twice", "7", "open", dict(sections=twice(b"TCRC"))
    yield "flags", Q4, "META with flags 1", "7", "open", dict(sections=entry(b"META", flags=1))
    yield "unknown-flags", "unused", "An unknown section with flags 1", "7", "open", dict(sections=entry(b"XTRA", flags=1))
    yield "outl-flags", "outliers", "OUTL with flags 0", "7", "open", dict(sections=entry(b"OUTL", flags=0))
    yield "section-lz4", Q4, "META compressed by LZ4", "7", "open", dict(sections=entry(b"META", compression=1))
    yield "tcrc-zstd", Q4, "TCRC with compression 3", "7", "open", dict(sections=entry(b"TCRC", compression=3))
    yield "section-end", Q4, "TCRC ends behind the directory offset", "7", "open", dict(sections=entry(b"TCRC", size=4096))
    yield "section-overflow", Q4, "Offset + size is above 2^64 - 1", "7", "open", dict(sections=entry(b"TCRC", offset=(1 << 64) - 8, size=16))
    yield "no-lidx", Q4, "LIDX has another name", "7", "open", dict(sections=entry(b"LIDX", tag=b"LIDY"))
    yield "embd-offset", Q4, "EMBD is not where the header says", "7", "open", dict(header=at(64, "Q", 4096))
    yield "overlap", Q4, "TCRC stands inside of ECHK", "2", "open", dict(sections=shift(b"TCRC", b"ECHK"))
    yield "lidx-crc", Q4, "A bit of the layer index is flipped", "4", "open", dict(file=flip(128 + 24))
    yield "layer-offset", Q4, "A layer at no multiple of 4096", "4", "open", dict(index=at(0, "Q", 4160))
    yield "layer-outside", Q4, "A layer that ends behind the file", "4", "open", dict(index=at(28, "H", 1))
    yield "index-type", Q4, "A layer of default type 5", "4", "open", dict(index=at(16, "B", 5))
    yield "index-compression", Q4, "A layer of compression 4", "4", "open", dict(index=at(17, "B", 4))
    yield "grid-type", "n3-rows", "A table of type 9", "7.6", "open", dict(GRID=at(0, "B", 9))
    yield "grid-count", "n3-rows", "A table of 8 values for n3", "7.6", "open", dict(GRID=at(1, "B", 8))
    yield "grid-128", "n3-rows", "A value -128 in a table", "7.6", "open", dict(GRID=at(3, "b", -128))
    yield "grid-sum", "t2-rows", "A and B of a trellis type add up to 182", "7.6", "open", dict(GRID=at(2, "b", 112))
    yield "grid-sum-16", "x4-rows", "A of a trellis type with a state of 16 bits has 102, B has -54 to 54", "7.6", "open", dict(GRID=at(3, "b", 102))
    yield "grid-type-26", "n3-rows", "A table of type 26", "7.6", "open", dict(GRID=at(0, "B", 26))
    yield "grid-order", "unused", "n3 before n2", "7.6", "open", dict(GRID=lambda d: d[7:18] + d[:7] + d[18:])


def layer_cases():
    yield "layer-crc", Q4, "A bit of a layer is flipped", "4", "read", dict(file=flip(4096 + 80))
    yield "chunk-count", Q4, "A chunk table of 2 chunks", "4.1", "read", dict(table0=at(0, "I", 2))
    yield "table-crc", Q4, "The CRC of the chunk table is wrong", "4.1", "read", dict(table0=flip(4))
    yield "table-reserved", Q4, "Reserved bytes of the chunk table are not zero", "4.1", "read", dict(table0=at(8, "Q", 1))
    yield "table-padding", Q4, "A byte between chunk table and chunk is not zero", "4.1", "read", dict(stored0=flip(40))
    yield "chunk-raw-size", Q4, "A chunk that is a byte larger than the layer", "4.1", "read", dict(entries0=lambda d: at(4, "I", struct.unpack_from("<I", d, 4)[0] + 1)(d))
    yield "chunk-stored-size", Q4, "A raw chunk of another stored than raw size", "4.1", "read", dict(entries0=lambda d: at(0, "I", struct.unpack_from("<I", d)[0] - 1)(d))
    yield "chunk-crc", Q4, "The CRC of a chunk is wrong", "4.1", "read", dict(entries0=flip(8))
    yield "chunk-compression", Q4, "Compression 4", "4.1", "read", dict(entries0=at(12, "I", 4))
    yield "chunk-lz4", Q4, "A raw chunk that says LZ4: it would not shrink", "4.1", "read", dict(entries0=at(12, "I", 1))
    yield "layer-tail", Q4, "A byte behind the last chunk", "4.1", "read", dict(stored0=extend(b"\0"))
    yield "tensor-flags", Q4, "A tensor with flags 2", "5", "read", dict(raw0=at(HEADER + 14, "H", 2))
    yield "tensor-type-10", Q4, "A tensor of type 10", "5", "read", dict(raw0=at(HEADER + 12, "B", 10))
    yield "tensor-type-5", Q4, "A tensor of type 5", "5", "read", dict(raw0=at(HEADER + 12, "B", 5))
    yield "tensor-layout", Q4, "Layout 1", "5", "read", dict(raw0=at(HEADER + 13, "B", 1))
    yield "float-panels", "f16-rows", "An f16 tensor in panels", "5", "read", dict(raw0=at(HEADER + 13, "B", 3))
    yield "tensor-rows", Q4, "A tensor without rows", "5", "read", dict(raw0=at(HEADER + 4, "I", 0))
    yield "tensor-data", Q4, "A tensor that is larger than its layer", "5", "read", dict(raw0=at(HEADER + 4, "I", 1 << 31))
    yield "kind-twice", Q4, "Kind 0 comes twice", "5", "read", dict(raw0=at(SECOND, "I", 0))
    yield "kind-place", Q4, "The head in a layer", "5", "read", dict(raw0=at(HEADER, "I", 66))
    yield "optional-type", "optional-kinds", "An unknown optional kind of type 26", "5.1", "read", dict(raw0=at(SECOND + 12, "B", 26))
    yield "tensor-padding", Q4, "A byte before the first tensor is not zero", "2", "read", dict(raw0=flip(5))
    yield "tensor-count", Q4, "The index has a tensor less than the layer", "10", "read", dict(index=at(18, "H", 7))
    yield "no-grid", "n3-rows", "A learned type without table", "7.6", "read", dict(sections=entry(b"GRID", tag=b"GRIE"))


def section_cases():
    yield "final-flag", Q4, "The flag of the final section is 1", "7.4", "read", dict(final=at(0, "B", 1))
    yield "final-default", Q4, "A tensor of the final section without type", "7.4", "read", dict(final=at(HEADER + 12, "B", 255))
    yield "final-tail", Q4, "A byte behind the last tensor of the final section", "7.4", "read", dict(final=extend(b"\0"))
    yield "final-meta", Q4, "The flag of the final section is not tied_head of META", "7.4", "verify", dict(META=model(tied_head=False))
    yield "pose-kind", "gpt2", "An unknown kind in POSE", "7.5", "read", dict(POSE=at(HEADER, "I", 999))
    yield "no-pose", "gpt2", "Positions are learned, and there is no POSE", "7.5", "verify", dict(sections=entry(b"POSE", tag=b"POSF"))
    yield "meta-json", Q4, "META is no JSON", "8", "read", dict(META=cut(1))
    yield "meta-version", Q4, "META of version 2", "8", "read", dict(META=text(b'{"version":1', b'{"version":2'))
    yield "meta-missing", Q4, "META without provenance", "8", "read", dict(META=text(b'"provenance"', b'"provenence"'))
    yield "meta-twice", Q4, "A field that comes twice", "8", "read", dict(META=text(b'"hidden":34', b'"hidden":34,"hidden":34'))
    yield "meta-fraction", Q4, "An integer with a fraction", "8", "read", dict(META=text(b'"hidden":34', b'"hidden":34.0'))
    yield "meta-type", Q4, "A record of type mixed", "8", "read", dict(META=lambda d: d.replace(b'"type":"4bit"', b'"type":"mixed"', 1))
    yield "meta-infinite", "minimal", "An error measure beyond f64", "8", "read", dict(META=lambda d: d.replace(b'"cosine":1.0', b'"cosine":1e999', 1))
    yield "meta-header", Q4, "ffn is another than in the header", "8.1", "read", dict(META=model(ffn=3))
    yield "meta-theta", Q4, "theta is another than in the header", "8.1", "read", dict(META=model(position={"kind": "rope", "theta": 10001.0}))
    yield "model-limit", Q4, "kv_heads does not divide heads", "MODEL.md 1", "read", dict(header=at(28, "I", 3), META=model(kv_heads=3))
    yield "embedding-type", Q4, "An embedding of type 10", "7.3", "read", dict(embedding=at(0, "I", 10))
    yield "embedding-bits", Q4, "Bits from 16 of the type of the embedding", "7.3", "read", dict(embedding=at(0, "I", 3 | 1 << 16))
    yield "embedding-panels", "f16-rows", "An f16 embedding in panels", "7.3", "read", dict(embedding=at(0, "I", 6 | 3 << 8))
    yield "embedding-size", Q4, "The size in the header of the embedding is wrong", "7.3", "read", dict(embedding=at(4, "I", 1))
    yield "embedding-rows", Q4, "Rows of the embedding are not vocab", "7.3", "read", dict(embedding=at(8, "I", 16))
    yield "echk-raw", Q4, "A chunk of the embedding of another raw size", "7.1", "read", dict(ECHK=at(12, "I", 36))
    yield "echk-count", Q4, "A chunk too many in ECHK", "7.1", "read", dict(ECHK=lambda d: d + d)
    yield "echk-offset", Q4, "A chunk of the embedding that begins elsewhere", "7.1", "read", dict(ECHK=lambda d: at(0, "Q", struct.unpack_from("<Q", d)[0] + 1)(d))
    yield "echk-crc", Q4, "The CRC of a chunk of the embedding is wrong", "7.1", "read", dict(ECHK=flip(16))
    yield "embd-crc", Q4, "A bit of the embedding is flipped", "7.3", "read", dict(file=flip(208 + 40))
    yield "outl-kind", "outliers", "Outliers of a norm", "7.8", "read", dict(OUTL=at(0, "I", 7))
    yield "outl-rows", "outliers", "Outliers of a row too few", "7.8", "read", dict(OUTL=lambda d: at(4, "I", 1)(d) or d[:10] + d[12:])
    yield "outl-infinite", "outliers", "An infinite outlier", "7.8", "read", dict(OUTL=at(26, "H", 0x7C00))
    yield "outl-column", "outliers", "Two outliers of one weight", "7.8", "read", dict(OUTL=at(28, "H", 0))
    yield "outl-wide", "outliers", "An outlier in column 34 of 34", "7.8", "read", dict(OUTL=at(28, "H", 34))
    yield "outl-tensor", "outliers", "Outliers of a tensor that is not there", "7.8", "read", dict(OUTL=at(0, "I", 4))
    yield "outl-order", "outliers", "Records not in ascending order", "7.8", "read", dict(OUTL=at(0, "I", 5))
    yield "clus-version", "sections", "CLUS of version 2", "ANNEX CLUS", "verify", dict(CLUS=at(0, "I", 2))
    yield "clus-cluster", "sections", "A token of a cluster that is not there", "ANNEX CLUS", "verify", dict(CLUS=lambda d: flip(len(d) - 1, 4)(d))
    yield "exit-layer", "sections", "An exit behind the last layer", "ANNEX EXIT", "verify", dict(EXIT=at(16, "I", 1))
    yield "exit-nan", "sections", "A weight that is not a number", "ANNEX EXIT", "verify", dict(EXIT=at(28, "I", 0x7FC00000))
    yield "tcrc-wrong", Q4, "A CRC of TCRC is wrong", "7.2", "verify", dict(TCRC=flip(4))
    yield "tcrc-long", Q4, "A CRC too many in TCRC", "7.2", "verify", dict(TCRC=extend(b"\0" * 4))
    yield "padding", Q4, "A byte between two parts is not zero", "2", "verify", dict(body=flip(4095))


def run_cases():
    yield "model-unknown", Q4, "A field of model that is not known", "8.1", "read", dict(META=model(new_field=True))
    yield "value-unknown", Q4, "A value of model that is not known", "8.1", "read", dict(META=model(residual="hyper"))
    yield "kind-missing", Q4, "A kind that the model needs is optional, unknown and so not there", "MODEL.md 2", "run", dict(
        raw0=lambda d: struct.pack_into("<I", d, HEADER, 900) or at(HEADER + 14, "H", 1)(d))
    yield "kind-shape", Q4, "attn_q is 1 x 128 instead of 2 x 34", "MODEL.md 2", "run", dict(raw0=at(HEADER + 4, "II", 1, 128))
    yield "kind-unused", Q4, "A known kind that the model does not use", "MODEL.md 2", "run", dict(raw0=at(HEADER, "I", 27))


def cases():
    yield from file_cases()
    yield from layer_cases()
    yield from section_cases()
    yield from run_cases()
