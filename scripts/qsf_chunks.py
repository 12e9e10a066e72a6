"""Chunks of QSF files, written from format-spec/SPEC.md, sections 4.1 and 7, alone: checksums, padding and decompression."""
import shutil, subprocess, tempfile, zlib
from collections import namedtuple
import numpy as np
from qsf_meta import Damage, need
from qsf_values import ceil_div

COMPRESSION = {0: "none", 1: "lz4", 2: "lz4-hc", 3: "zstd"}
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
