#!/usr/bin/env python3
"""Writes blocks of every tensor type of ggml with the CRC32 of their values, for the tests of runtime/src/ggml.

    make_ggml_vectors.py OUT                  runtime/src/ggml/testdata/vectors.bin, the fixture of the repository
    make_ggml_vectors.py OUT --blocks 20000   a large one; QSF_GGML_VECTORS=OUT makes the tests read it instead
    make_ggml_vectors.py OUT --ggml LIB       also compares all values with ggml's own C code

LIB is a shared library. In the folder ggml of llama.cpp:

    gcc -O2 -shared -fPIC -ffp-contract=off -Iinclude -Isrc -o LIB src/ggml-quants.c -lm

Needs numpy and gguf (the fixture was written with gguf 0.19.0). Values are those of gguf.quants.dequantize; for types that
it lacks they are computed here, from the definitions in llama.cpp's ggml-common.h. Blocks are random bytes with finite
scales. The same seed gives the same file.

The file, little endian: "GGMLVEC1"; u32 number of types; for each: u32 id, values per block, bytes per block, blocks,
CRC32 of the values (f32), the first 16 values, the blocks. Then u32 number of grids; for each: u32 length of the name,
the name, CRC32 of the points (one byte per value).
"""
import argparse, ctypes, os, struct, sys, zlib
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf import quants

SEED = 20261121
# Where a block has IEEE binary16 numbers. IQ1_M and Q8_K: see random_blocks.
HALVES = {
    "F16": [0], "Q1_0": [0], "Q2_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q8_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0],
    "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0],
    "TQ1_0": [52], "TQ2_0": [64],
}
# Ids, values and bytes per block where the gguf package does not know the type yet, or is wrong: its Q8_1 has the two
# binary32 numbers of before 2024, block_q8_1 has two halves.
CORRECTED = {"Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18), "Q8_1": (9, 32, 36)}
GRIDS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]


def finite_halves(rng, n):
    """Any sign, exponent (also of subnormal numbers) and mantissa, but no infinity or NaN."""
    bits = rng.integers(0, 0x7C00, n, dtype=np.uint16) | (rng.integers(0, 2, n, dtype=np.uint16) << 15)
    return bits.astype("<u2").view(np.uint8).reshape(n, 2)


def finite_floats(rng, n, kind):
    """The same for binary32 and wider."""
    raw = rng.integers(0, 256, (n, np.dtype(kind).itemsize), dtype=np.uint8)
    wild = ~np.isfinite(raw.view(kind)[:, 0])
    raw[wild, -1] ^= 0x20  # another exponent
    return raw


def random_blocks(rng, name, size, n):
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        blocks[:, at:at + 2] = finite_halves(rng, n)
    if name == "IQ1_M":  # four bits of the scale on top of each of four numbers
        half = finite_halves(rng, n).view("<u2")[:, 0]
        for i in range(4):
            top = ((half >> (4 * i)) & 15).astype(np.uint8) << 4
            blocks[:, 49 + 2 * i] = (blocks[:, 49 + 2 * i] & 15) | top
    elif name in ("F32", "F64"):
        blocks = finite_floats(rng, n, "<f4" if name == "F32" else "<f8")
        if name == "F64":  # a third of any size, most out of the range of binary32; the others within it
            values = rng.standard_normal(n) * 2.0 ** rng.integers(-155, 130, n)
            usual = (np.arange(n) % 3 > 0)[:, None]
            blocks = np.where(usual, values.astype("<f8").view(np.uint8).reshape(n, 8), blocks)
    elif name == "BF16":
        blocks = finite_floats(rng, n, "<f4")[:, 2:].copy()
    elif name == "Q8_K":
        scale = (rng.standard_normal(n) * 2.0 ** rng.integers(-140, 110, n)).astype("<f4")
        blocks[:, :4] = scale.view(np.uint8).reshape(n, 4)
    return np.ascontiguousarray(blocks)


def scale_of(blocks):
    return blocks[:, :2].copy().view("<f2").astype(np.float32)


def own_definition(name, blocks):
    """Values of types that gguf.quants lacks, shape (blocks, values); None: it has them."""
    n = len(blocks)
    if name in ("F64", "I8", "I16", "I32", "I64"):
        kind = {"F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}[name]
        with np.errstate(over="ignore"):
            return blocks.view(kind).astype(np.float32)
    if name == "Q1_0":  # bit 1: plus the scale, bit 0: minus
        bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
        return np.where(bits == 1, scale_of(blocks), -scale_of(blocks))
    if name == "Q2_0":  # codes 0 to 3 are -1 to 2
        codes = (blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return (codes.reshape(n, 64).astype(np.float32) - 1) * scale_of(blocks)
    if name == "Q8_1":  # scale, sum, codes
        return blocks[:, 4:].view(np.int8).astype(np.float32) * scale_of(blocks)
    if name == "Q8_K":  # scale, codes, sums
        return blocks[:, :4].copy().view("<f4") * blocks[:, 4:260].view(np.int8).astype(np.float32)
    return None


def values_of(name, length, blocks):
    values = own_definition(name, blocks)
    if values is None:
        with np.errstate(over="ignore"):  # MXFP4 has scales up to 2^127
            values = quants.dequantize(blocks, T[name])
    values = np.ascontiguousarray(values, dtype="<f4").reshape(len(blocks), length)
    assert not np.isnan(values).any(), f"{name}: not a number"
    return values


def compare(library, name, blocks, values):
    """The same blocks by the C code; False when there is none for the type."""
    try:
        function = library["dequantize_row_" + (name[:-1].lower() + "K" if name.endswith("_K") else name.lower())]
    except AttributeError:
        return False
    out = np.empty(values.shape, np.float32)
    function.restype = None
    function(blocks.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(out.size))
    different = int((out.view(np.uint32) != values.view(np.uint32)).sum())
    if different:
        sys.exit(f"{name}: {different} of {out.size} values differ from the C code's")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--blocks", type=int, help="blocks per type, instead of about 1.2 KB")
    parser.add_argument("--ggml", metavar="LIB", help="shared library to compare with")
    options = parser.parse_args()
    library = ctypes.CDLL(os.path.abspath(options.ggml), mode=1) if options.ggml else None  # 1: bind what is called

    types = {t.name: (int(t), *GGML_QUANT_SIZES[t]) for t in T}
    types |= CORRECTED
    out = [b"GGMLVEC1", struct.pack("<I", len(types))]
    for name, (number, length, size) in sorted(types.items(), key=lambda item: item[1]):
        n = options.blocks or max(3, -(-1200 // size))
        rng = np.random.default_rng([SEED, number])
        blocks = random_blocks(rng, name, size, n)
        values = values_of(name, length, blocks)
        by = "here" if own_definition(name, blocks[:1]) is not None else "gguf"
        if library and compare(library, name, blocks, values):
            by += ", C"
        first = (values.tobytes() + bytes(64))[:64]
        out.append(struct.pack("<5I", number, length, size, n, zlib.crc32(values.tobytes())) + first + blocks.tobytes())
        print(f"{name:8} {n} blocks, {values.size} values ({by})")
    out.append(struct.pack("<I", len(GRIDS)))
    for name in GRIDS:
        kind = getattr(quants, name)
        kind.init_grid()
        points = kind.grid.astype(np.int8).tobytes()
        out.append(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", zlib.crc32(points)))
    with open(options.out, "wb") as f:
        f.write(b"".join(out))


main()
