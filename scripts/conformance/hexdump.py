#!/usr/bin/env python3
"""Explains every byte of a small QSF file: makes docs/format-hexdump.md of tests/conformance/minimal.qsf.

    hexdump.py          write the page
    hexdump.py --check  fail if the page is another

It goes through the file byte by byte and fails where one is left. Needs Python's standard library alone. "Section N" means SPEC.md.
"""
import json
import os
import struct
import sys

from blocks import TYPES
from make import ROOT, kind_names

FILE = os.path.join(ROOT, "tests", "conformance", "minimal.qsf")
PAGE = os.path.join(ROOT, "docs", "format-hexdump.md")
NONE = 0xFFFFFFFF
HEAD = """# A small file, byte by byte

`scripts/conformance/hexdump.py` made this page of `tests/conformance/minimal.qsf`, a
model of one layer, two columns and three tokens. Its weights are random. Sections are
those of [SPEC.md](../format-spec/SPEC.md).

The first column is the offset in the file, the second the bytes, the third their meaning.
"""


class Page:
    """Lines of the page, and how far the file is explained."""

    def __init__(self, data):
        self.data, self.at, self.lines = data, 0, []

    def part(self, title):
        if self.lines:
            self.lines.append("```")
        self.lines += ["", f"## {title}", "", "```text"]

    def line(self, data, what):
        text = [data[i:i + 8].hex(" ") for i in range(0, len(data), 8)] or [""]
        for i, piece in enumerate(text):
            self.lines.append(f"{self.at + 8 * i:>5}  {piece:<23}  {what if i == 0 else ''}".rstrip())

    def take(self, count, what):
        data = self.data[self.at:self.at + count]
        assert len(data) == count
        self.line(data, what)
        self.at += count
        return data

    def field(self, form, name, words=None):
        """One number; `words` says what it means."""
        value, = struct.unpack_from("<" + form, self.data, self.at)
        more = words(value) if words else ""
        shown = "" if form == "4s" else f": {value:#010x}" if "CRC" in name else f": {value}"
        self.take(struct.calcsize("<" + form), f"{name}{shown}{', ' + more if more else ''}")
        return value

    def zeros(self, until, why):
        count = until - self.at
        assert not any(self.data[self.at:until])
        if count:
            self.lines.append(f"{self.at:>5}  {'00 ...':<23}  {count} zeros: {why}")
            self.at = until

    def text(self, count, width=56):
        """Characters, as they stand."""
        text = self.data[self.at:self.at + count].decode()
        assert text.isascii()
        for i in range(0, count, width):
            self.lines.append(f"{self.at + i:>5}  {text[i:i + width]}")
        self.at += count


def type_name(value):
    return TYPES.get(value & 255, "mixed" if value == 5 else "?")


def token(value):
    return "none" if value == NONE else ""


def header(p):
    p.part("File header (section 3)")
    p.field("4s", "magic: QSF1")
    p.field("I", "version")
    p.field("I", "header size")
    p.field("I", "architecture", lambda v: ("GPT-2", "LLaMA", "Mistral", "Phi", "other")[v])
    for name in ("layers", "hidden", "heads", "kv_heads", "vocab", "max_positions", "ffn", "head_dim"):
        p.field("I", name)
    p.field("B", "default type", type_name)
    p.field("B", "activation", lambda v: ("GELU", "SiLU", "ReLU")[v])
    p.field("B", "normalization", lambda v: ("LayerNorm", "RMSNorm")[v])
    p.field("B", "positions", lambda v: ("learned", "rotary", "ALiBi")[v])
    p.field("f", "rope theta")
    index, embedding, final = (p.field("Q", f"offset of the {name}") for name in ("layer index", "embedding", "final section"))
    for name in ("bos", "eos", "pad"):
        p.field("I", name, token)
    p.field("I", "file size, low")
    p.field("I", "CRC of bytes 0-95")
    directory = p.field("Q", "offset of the directory")
    p.field("H", "block size")
    p.field("H", "reserved")
    p.field("Q", "file size")
    p.field("I", "reserved")
    p.field("I", "CRC of bytes 100-123")
    return index, embedding, final, directory


def layer_index(p):
    p.part("Layer index (section 4)")
    offset = p.field("Q", "offset of layer 0")
    stored, raw = p.field("I", "stored size"), p.field("I", "raw size")
    p.field("B", "default type", type_name)
    p.field("B", "compression", lambda v: "none")
    count = p.field("H", "tensors")
    p.field("I", "CRC of the stored layer")
    p.field("f", "importance", lambda v: "unknown")
    p.field("H", "stored size, high")
    p.field("H", "raw size, high")
    return offset, stored, raw, count


def embedding(p, start, size, n):
    p.part("Embedding section (section 7.3)")
    p.zeros(start, "the section begins at a multiple of 64, and 48")
    p.field("I", "type", type_name)
    p.field("I", "size of what follows")
    p.field("I", "rows"), p.field("I", "columns")
    p.take(start + size - p.at, "all rows, one after the other")


def tensor(p, base, names, n):
    end = p.at - base
    p.zeros(base + (end + 16 + 63) // 64 * 64 - 16, "the data behind the header is aligned")
    kind = p.field("I", "kind", names)
    rows, cols = p.field("I", "rows"), p.field("I", "columns")
    t = p.field("B", "type", type_name)
    p.field("B", "layout", lambda v: "panels" if v else "rows")
    p.field("H", "flags")
    if t != 3:
        width = {6: 2, 7: 4}[t]
        p.take(rows * cols * width, f"{rows * cols} values of {names(kind)}")
        return
    for row in range(rows):
        for block in range(-(-cols // n)):
            p.field("e", f"row {row}: scale")
            p.field("e", "min")
            p.take(n // 2, f"{n} codes of 4 bits, of which {min(n, cols - block * n)} count")


def layer(p, offset, stored, raw, count, names, n):
    p.part("Layer 0: chunk table (section 4.1)")
    p.zeros(offset, "layers begin at multiples of 4096")
    chunks = p.field("I", "chunks")
    p.field("I", "CRC of the entries")
    p.field("Q", "reserved")
    for i in range(chunks):
        p.field("I", f"chunk {i}: stored size"), p.field("I", "raw size"), p.field("I", "CRC of the stored bytes")
        p.field("I", "compression", lambda v: "none")
    p.zeros(offset + stored - raw, "chunk 0 begins at a multiple of 64")
    p.part("Layer 0: tensors (section 5)")
    base = p.at
    for _ in range(count):
        tensor(p, base, names, n)
    assert p.at == base + raw


def final(p, start, size, names, n):
    p.part("Final section (section 7.4)")
    p.zeros(start, "sections begin at multiples of 64")
    p.take(1, "the head is the token embedding")
    while p.at < start + size:
        tensor(p, start, names, n)


def echk(p, size):
    for i in range(size // 24):
        p.field("Q", f"chunk {i}: offset")
        p.field("I", "stored size"), p.field("I", "raw size"), p.field("I", "CRC of the stored bytes")
        p.field("I", "compression", lambda v: "none")


def directory(p, start, size):
    p.part("Section directory (section 7)")
    p.zeros(start, "sections begin at multiples of 64")
    p.field("4s", "magic: QSFD")
    p.field("I", "version")
    count = p.field("I", "entries")
    p.field("I", "CRC of the 12 bytes before and of the entries")
    for i in range(count):
        p.field("4s", f"tag {p.data[p.at:p.at + 4].decode()}")
        p.field("I", "flags")
        p.field("Q", "offset"), p.field("Q", "stored size"), p.field("I", "CRC of the stored bytes")
        p.field("I", "compression", lambda v: "none" if v == 0 else "zstd")
    assert p.at == size


def page():
    with open(FILE, "rb") as f:
        data = f.read()
    names, p = kind_names(), Page(data)
    n = struct.unpack_from("<H", data, 108)[0]
    at = struct.unpack_from("<Q", data, 100)[0]
    sections = {}
    for i in range(struct.unpack_from("<I", data, at + 8)[0]):
        tag, _, offset, size = struct.unpack_from("<4sIQQ", data, at + 16 + 32 * i)
        sections[tag.decode()] = offset, size
    header(p)
    where = layer_index(p)
    embedding(p, *sections["EMBD"], n)
    layer(p, *where, names, n)
    final(p, *sections["FINL"], names, n)
    start, size = sections["META"]
    p.part("META (section 8)")
    p.zeros(start, "sections begin at multiples of 64")
    json.loads(data[start:start + size])
    p.text(size)
    for tag, words in (("ECHK", "chunks of the embedding, section 7.1"), ("TCRC", "CRCs of tensors, section 7.2")):
        start, size = sections[tag]
        p.part(f"{tag} ({words})")
        p.zeros(start, "sections begin at multiples of 64")
        if tag == "ECHK":
            echk(p, size)
        else:
            for i in range(size // 4):
                p.field("I", f"CRC of tensor {i}")
    directory(p, at, len(data))
    return HEAD + "\n".join(line.rstrip() for line in p.lines) + "\n```\n"


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        with open(PAGE) as f:
            same = f.read() == text
        print("docs/format-hexdump.md is as it should be" if same else "docs/format-hexdump.md is another than scripts/conformance/hexdump.py makes")
        return int(not same)
    with open(PAGE, "w") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
