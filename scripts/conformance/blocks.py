"""Matrices in every type and layout, made code by code from format-spec/SPEC.md, section 6: their bytes and their values.

Codes and scales are drawn at random. Values are computed from these, not from the bytes, so that a mistake in packing cannot hide
in the values. Nothing but Python's standard library: the same program makes the same bytes everywhere.
"""
import struct

TYPES = {0: "2bit-sym", 1: "2bit", 2: "3bit", 3: "4bit", 4: "ternary", 6: "f16", 7: "f32", 8: "bf16", 9: "8bit",
         16: "n2", 17: "n3", 18: "n4", 19: "n5", 20: "6bit", 21: "t2", 22: "t3", 23: "x2", 24: "x3", 25: "x4"}
FLOATS = (6, 7, 8)
GRID_BITS = {16: 2, 17: 3, 18: 4, 19: 5, 20: 6}
STEP_BITS = {21: 2, 22: 3, 23: 2, 24: 3, 25: 4}
# Section 7.6: of grid types levels, then the shift; of trellis types A, then B. Not sorted, negative shifts: a reader must not care.
TABLES = {
    16: [-127, -40, 30, 127, -9],
    17: [-120, -80, -47, -20, 5, 33, 127, 90, 7],
    18: [-127, -99, -83, -64, -51, -36, -22, -11, 1, 13, 25, 38, 53, 68, 87, 113, 4],
    19: [*range(-124, 4, 8), *range(4, 132, 8)][:31] + [127, -3],
    20: [-5],
    21: [-14, 27, 9, -59, -24, -4, 35, 26, 25, -39, -33, -17, -65, 57, -7, 13,
         53, -33, 18, -10, -56, 3, 40, -25, -5, 15, 56, -36, 12, 12, -48, 70],
    22: [-17, 24, 10, -33, -40, 3, 39, -13, 20, -51, -26, -16, -61, 47, -2, 44,
         28, 5, 23, -21, -63, -8, 55, -36, -13, 17, 46, -29, 2, 28, -60, 80],
    23: [-50, 66, 18, 21, 51, -29, 16, -13, 1, 3, 20, -32, -9, -59, -15, 42,
         6, 38, 22, -40, 2, -30, 60, 6, -18, -68, -39, -19, 40, -9, -9, 29],
    24: [-72, 71, 22, 26, 53, -31, 4, -13, -4, 0, 12, -18, -25, -55, -22, 40,
         7, 28, 30, -30, -7, -20, 53, 0, -17, -55, -39, -30, 16, -12, -3, 12],
    25: [-74, 69, 17, 26, 53, -34, 3, -13, -8, -3, 7, -23, -22, -57, -16, 42,
         4, 18, 26, -26, -6, -18, 54, -7, -13, -53, -36, -29, 12, -20, -1, 9],
}


class Random:
    """Numbers that are the same in every version of Python (splitmix64)."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = self.state + 0x9E3779B97F4A7C15 & (1 << 64) - 1
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        return (z ^ z >> 31) % n

    def f16(self, signed):
        """A normal number of 2^-8 to 2, now and then 0 or a subnormal; its bits."""
        special = self.below(12)
        bits = 0 if special == 0 else 1 + self.below(1000) if special == 1 else 7 + self.below(9) << 10 | self.below(1024)
        return bits | (self.below(2) << 15 if signed else 0)


def f16(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def f32(x):
    """x rounded to f32. All x here are exact in f64."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def put(data, bit, width, value):
    for i in range(width):
        data[(bit + i) // 8] |= (value >> i & 1) << (bit + i) % 8


def plane(codes, width):
    """Section 6, "code order": n codes of 1, 2 or 4 bits."""
    n = len(codes)
    data = bytearray(n * width // 8)
    for i, code in enumerate(codes):
        if width == 1:
            put(data, i, 1, code)
        else:
            size = n * width // 8
            put(data, 8 * (i % size) + width * (i // size), width, code)
    return bytes(data)


def panel_bits(word):
    """Section 6.1: bit 4j + c of a word becomes bit 8c + j."""
    bits = int.from_bytes(word, "little")
    moved = sum((bits >> 4 * j + c & 1) << 8 * c + j for j in range(8) for c in range(4))
    return moved.to_bytes(4, "little")


def panel_plane(data):
    return b"".join(panel_bits(data[i:i + 4]) for i in range(0, len(data), 4))


class Block:
    """One block of types 0-4 and 9: fields (bits of f16), codes as in plain rows and as in panels, values."""

    def __init__(self, random, t, n, cols):
        with_min = t in (1, 2, 3)
        self.fields = [random.f16(not with_min)] + ([random.f16(True)] if with_min else [])
        d = f16(self.fields[0])
        low = f16(self.fields[1]) if with_min else 0.0
        if t == 4:
            t_codes = [random.below(3) - 1 for _ in range(cols)]
            self.values = [f32(d * code) for code in t_codes]
            t_codes += [0] * (n - cols)  # padding: neither sign nor zero bit would be code 1 in panels
            pad = [i >= cols for i in range(n)]
            sign = [int(code < 0) for code in t_codes]
            zero = [int(code == 0 and not pad[i]) for i, code in enumerate(t_codes)]
            self.plain = plane(sign, 1) + plane(zero, 1)
            self.panel = plane([2 if pad[i] else code + 1 for i, code in enumerate(t_codes)], 2)
            return
        bits = {0: 2, 1: 2, 2: 3, 3: 4, 9: 8}[t]
        codes = [random.below(1 << bits) for _ in range(cols)]
        if t == 9:
            signed = [max(code - 128, -127) for code in codes]
            self.values = [f32(d * q) for q in signed]
            self.plain = self.panel = bytes(q & 255 for q in signed) + bytes(n - cols)
            return
        self.values = [f32(d * (2 * q - 3)) if t == 0 else f32(f32(d * q) + low) for q in codes]
        codes += [0] * (n - cols)
        if t == 2:
            first, second = plane([q & 3 for q in codes], 2), plane([q >> 2 for q in codes], 1)
            self.plain, self.panel = first + second, first + panel_plane(second)
        else:
            self.plain = self.panel = plane(codes, bits)

    def head(self):
        return b"".join(struct.pack("<H", bits) for bits in self.fields)


def grid_block(random, t, r, cols):
    """Section 6.2: (s2 byte, plain codes, panel codes, values)."""
    bits = GRID_BITS[t]
    s2 = random.below(254) - 126  # s = -63 to 63
    s, g = s2 >> 1, s2 & 1
    levels = [2 * q - 64 for q in range(64)] if t == 20 else TABLES[t][:-1]
    codes = [random.below(1 << bits) for _ in range(cols)]
    values = [f32(f16(r) / 4096 * s * (levels[q] + TABLES[t][-1] * g)) for q in codes]
    codes += [0] * (32 - cols)
    if t in (16, 18):
        plain = panel = plane(codes, bits)
    elif t == 20:
        plain = panel = plane([q & 15 for q in codes], 4) + plane([q >> 4 for q in codes], 2)
    else:
        width = bits - 1
        first, second = plane([q & (1 << width) - 1 for q in codes], width), plane([q >> width for q in codes], 1)
        plain, panel = first + second, first + panel_plane(second)
    return bytes([s2 & 255]), plain, panel, values


def trellis_row(random, t, r, cols):
    """Section 6.2: (blocks, values) of a row."""
    k, count, state = STEP_BITS[t], -(-cols // 32), 16 if t >= 23 else 8
    string = [random.below(2) for _ in range(32 * k * count)]
    a, b = TABLES[t][:16], TABLES[t][16:]
    values = [0.0] * (32 * count)
    for u in range(32 * count):
        ends = [k * (u + 1) - state + j for j in range(state)]
        w = sum((string[i] if i >= 0 else 0) << j for j, i in enumerate(ends))
        level = a[w >> 12] + b[(w >> 8 ^ w) & 15] if state == 16 else a[w >> 4] + b[w & 15]
        step = u % 32
        values[u - step + 4 * (step % 8) + step // 8] = f32(f16(r) / 128 * level)
    data = bytearray(len(string) // 8)
    for i, bit in enumerate(string):
        data[i // 8] |= bit << i % 8
    blocks = [bytes(data[4 * k * i:4 * k * (i + 1)]) for i in range(count)]
    return blocks, values[:cols]


def words(codes_of_rows):
    """Section 6.1: word w of all 16 rows, then word w + 1, ..."""
    size = len(codes_of_rows[0])
    return b"".join(codes[w:w + 4] for w in range(0, size, 4) for codes in codes_of_rows)


def floats(random, t, rows, cols):
    values, data = [], b""
    for _ in range(rows * cols):
        if t == 6:
            bits = random.f16(True)
            values.append(f16(bits))
            data += struct.pack("<H", bits)
        else:
            bits = (random.below(2) << 31 | 118 + random.below(12) << 23 | random.below(1 << 23)) & (0xFFFF0000 if t == 8 else 0xFFFFFFFF)
            values.append(struct.unpack("<f", struct.pack("<I", bits))[0])
            data += struct.pack("<I", bits)[2 if t == 8 else 0:]
    return data, values


def matrix(random, t, rows, cols, n, layout):
    """(bytes, values row by row)."""
    if t in FLOATS:
        return floats(random, t, rows, cols)
    panels, values = rows // 16 if layout == 3 else 0, []
    widths = lambda size: [min(size, cols - at) for at in range(0, cols, size)]
    data = b""
    for first in range(0, rows, 16):
        count = min(16, rows - first)
        panel = first // 16 < panels
        if t in STEP_BITS or t in GRID_BITS:
            data += learned(random, t, count, cols, panel, widths(32), values)
            continue
        made = [[Block(random, t, n, width) for width in widths(n)] for _ in range(count)]
        for row in made:
            values += [v for block in row for v in block.values]
        if not panel:
            data += b"".join(block.head() + block.plain for row in made for block in row)
            continue
        for b in range(len(made[0])):
            column = [row[b] for row in made]
            for field in range(len(column[0].fields)):
                data += b"".join(struct.pack("<H", block.fields[field]) for block in column)
            data += words([block.panel for block in column])
    return data, values


def learned(random, t, count, cols, panel, widths, values):
    """The bytes of up to 16 rows; their values are added to `values`."""
    scales, rows = [random.f16(True) for _ in range(count)], []
    for r in scales:
        if t in STEP_BITS:
            blocks, found = trellis_row(random, t, r, cols)
            rows.append([(b"", block, block) for block in blocks])
            values += found
        else:
            made = [grid_block(random, t, r, width) for width in widths]
            rows.append([block[:3] for block in made])
            values += [v for block in made for v in block[3]]
    heads = [struct.pack("<H", r) for r in scales]
    if not panel:
        return b"".join(head + b"".join(s2 + plain for s2, plain, _ in row) for head, row in zip(heads, rows))
    data = b"".join(heads)
    for b in range(len(widths)):
        column = [row[b] for row in rows]
        data += b"".join(s2 for s2, _, _ in column)
        if t in GRID_BITS:
            data += words([panel_codes for _, _, panel_codes in column])
        else:  # byte c of word w is byte K * c + w of the block
            k = STEP_BITS[t]
            data += b"".join(bytes(block[k * c + w] for c in range(4)) for w in range(k) for _, block, _ in column)
    return data
