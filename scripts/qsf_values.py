"""Values of QSF files, written from format-spec/SPEC.md, section 6, alone: bytes to numbers for read_qsf.py."""
import numpy as np


def ceil_div(a, b):
    return -(-a // b)


LEARNED = {16: 9, 17: 13, 18: 17, 19: 21, 20: 25, 21: 8, 22: 12, 23: 8, 24: 12, 25: 16}  # bytes of a block of 32 (section 6.2)
COUNTS = {16: 5, 17: 9, 18: 17, 19: 33, 20: 1, 21: 32, 22: 32, 23: 32, 24: 32, 25: 32}  # values of a record of GRID (section 7.6)


def row_bytes(t, cols, n):
    if t in LEARNED:
        return 2 + ceil_div(cols, 32) * LEARNED[t]
    block = {0: 2 + n // 4, 1: 4 + n // 4, 2: 4 + 3 * n // 8, 3: 4 + n // 2, 4: 2 + n // 4, 9: 2 + n}
    return cols * {6: 2, 7: 4, 8: 2}[t] if t in (6, 7, 8) else ceil_div(cols, n) * block[t]


def block_parts(t, raw, rows, cols, n):
    """Splits plain rows of a block type into (list of f16 fields, list of code arrays), each [rows, blocks, 1 or n]."""
    a = np.frombuffer(raw, np.uint8).reshape(rows, ceil_div(cols, n), -1)
    fields = 2 if t in (1, 2, 3) else 1
    f = np.ascontiguousarray(a[..., :2 * fields]).view("<f2")
    c = a[..., 2 * fields:]
    two_bit = lambda c: np.concatenate([c >> s & 3 for s in (0, 2, 4, 6)], axis=-1)
    bits = lambda c: np.unpackbits(c, axis=-1, bitorder="little")
    if t in (0, 1):
        codes = [two_bit(c)]
    elif t == 2:
        codes = [two_bit(c[..., :n // 4]) + 4 * bits(c[..., n // 4:])]
    elif t == 3:
        codes = [np.concatenate([c & 15, c >> 4], axis=-1)]
    elif t == 4:
        codes = [bits(c[..., :n // 8]), bits(c[..., n // 8:])]  # sign plane, zero plane
    else:
        codes = [np.ascontiguousarray(c).view(np.int8)]
    return [f[..., i:i + 1] for i in range(fields)], codes


def panel_parts(t, raw, rows, cols, n):
    """Section 6.1: the same for whole panels of 16 rows. Ternary has one array of codes here: t + 1."""
    fields, blocks = 2 if t in (1, 2, 3) else 1, ceil_div(cols, n)
    a = np.frombuffer(raw, np.uint8).reshape(rows // 16, blocks, -1)
    f = np.ascontiguousarray(a[..., :32 * fields]).view("<f2").reshape(rows // 16, blocks, fields, 16)
    words = a[..., 32 * fields:].reshape(rows // 16, blocks, -1, 16, 4)
    low = words[:, :, :n // 16] if t == 2 else words
    quads = low if t == 9 else np.concatenate([low >> s & (15 if t == 3 else 3) for s in ((0, 4) if t == 3 else (0, 2, 4, 6))], axis=2)
    if t == 2:
        high = words[:, :, n // 16:, None] >> np.arange(8, dtype=np.uint8)[:, None, None] & 1  # [..., word, bit, row, byte]
        quads = quads + 4 * high.reshape(quads.shape)
    by_row = lambda x, width: np.ascontiguousarray(x).reshape(rows, blocks, width)
    codes = by_row(quads.transpose(0, 3, 1, 2, 4), n)  # panel, row, block, quad, code
    return [by_row(f[:, :, i].transpose(0, 2, 1), 1) for i in range(fields)], [codes.view(np.int8) if t == 9 else codes]


def pieces(t, raw, rows, cols, n, layout):
    """(fields, codes) of the panels, where there are any, and of the plain rows."""
    in_panels = rows // 16 * 16 if layout == 3 else 0
    cut = in_panels * row_bytes(t, cols, n)
    if in_panels:
        yield panel_parts(t, raw[:cut], in_panels, cols, n)
    if rows > in_panels:
        yield block_parts(t, raw[cut:], rows - in_panels, cols, n)


def values(t, fields, codes):
    """float32 array of the shape of the codes, rounded as section 6 says (product, then sum, each to f32)."""
    scale, q = fields[0].astype(np.float32), codes[0].astype(np.float32)
    if t == 0:
        q = 2 * q - 3
    elif t == 4:
        q = np.where(codes[1] == 1, np.float32(0), 1 - 2 * q) if len(codes) == 2 else q - 1  # the zero bit wins
    with np.errstate(all="ignore"):
        q *= scale
        if len(fields) == 2:
            q += fields[1].astype(np.float32)
    return q


def learned_rows(t, raw, rows):
    """Section 6.2, plain rows: row scales [rows] and blocks [rows, blocks, bytes]."""
    a = np.frombuffer(raw, np.uint8).reshape(rows, -1)
    return a[:, :2].copy().view("<f2")[:, 0], a[:, 2:].reshape(rows, -1, LEARNED[t])


def learned_panels(t, raw, rows):
    """The same of whole panels, brought back into the order of plain rows."""
    a = np.frombuffer(raw, np.uint8).reshape(rows // 16, -1)
    scales = np.ascontiguousarray(a[:, :32]).view("<f2").reshape(rows)
    blocks = a[:, 32:].reshape(rows // 16, -1, 16 * LEARNED[t])
    lead = 0 if t >= 21 else 16
    words = blocks[..., lead:].reshape(rows // 16, blocks.shape[1], -1, 16, 4).transpose(0, 3, 1, 2, 4)  # panel, row, block, word, byte
    if t >= 21:
        codes = words.transpose(0, 1, 2, 4, 3)
    else:
        codes = words.copy()
        if t in (17, 19):  # bit 8c + j back to bit 4j + c
            bits = np.unpackbits(codes[..., -1, :], axis=-1, bitorder="little").reshape(codes.shape[:3] + (4, 8))
            codes[..., -1, :] = np.packbits(bits.swapaxes(-1, -2).reshape(codes.shape[:3] + (32,)), axis=-1, bitorder="little")
    codes = codes.reshape(rows, blocks.shape[1], -1)
    if lead:
        first = blocks[..., :16].transpose(0, 2, 1).reshape(rows, -1, 1)
        codes = np.concatenate([first, codes], axis=-1)
    return scales, codes


def learned_values(t, scales, blocks, tables):
    """float32 [rows, 32 * blocks]."""
    table = np.array(tables[t], np.int64)
    scales = scales.astype(np.float32)[:, None, None]
    if t >= 21:
        k, (rows, count) = LEARNED[t] // 4, blocks.shape[:2]
        bits = np.unpackbits(blocks.reshape(rows, -1), axis=-1, bitorder="little")
        length = 16 if t >= 23 else 8  # of a state, in bits
        bits = np.concatenate([np.zeros((rows, length), np.uint8), bits], axis=1).astype(np.int64)
        ends = k * (np.arange(32 * count) + 1)  # in `bits`: `length` later, and the window starts as much before
        states = sum(bits[:, ends + j] << j for j in range(length))
        first, second = (states >> 12, (states >> 8 ^ states) & 15) if length == 16 else (states >> 4, states & 15)
        levels = (table[:16][first] + table[16:][second]).reshape(rows, count, 32)
        step = [8 * (i % 4) + i // 4 for i in range(32)]
        return (scales / np.float32(128) * levels[..., step].astype(np.float32)).reshape(rows, -1)
    s2, c = blocks[..., :1].view(np.int8).astype(np.int64), blocks[..., 1:]
    two_bit = lambda c: np.concatenate([c >> s & 3 for s in (0, 2, 4, 6)], axis=-1)
    four_bit = lambda c: np.concatenate([c & 15, c >> 4], axis=-1)
    bits = lambda c: np.unpackbits(c, axis=-1, bitorder="little")
    codes = {16: lambda: two_bit(c), 17: lambda: two_bit(c[..., :8]) + 4 * bits(c[..., 8:]), 18: lambda: four_bit(c),
             19: lambda: four_bit(c[..., :16]) + 16 * bits(c[..., 16:]),
             20: lambda: four_bit(c[..., :16]) + 16 * two_bit(c[..., 16:])}[t]()
    levels = 2 * codes.astype(np.int64) - 64 if t == 20 else table[:-1][codes]
    d = scales / np.float32(4096) * (s2 >> 1).astype(np.float32)
    return (d * (levels + table[-1] * (s2 & 1)).astype(np.float32)).reshape(len(blocks), -1)


def learned_pieces(t, raw, rows, cols, layout):
    """(row scales, blocks) of the panels, where there are any, and of the plain rows."""
    in_panels = rows // 16 * 16 if layout == 3 else 0
    cut = in_panels * row_bytes(t, cols, 32)
    if in_panels:
        yield learned_panels(t, raw[:cut], in_panels)
    if rows > in_panels:
        yield learned_rows(t, raw[cut:], rows - in_panels)


def decode(t, raw, rows, cols, n, layout, tables):
    """Tensor data -> float32 array [rows, cols]. `tables`: type -> values of its record in GRID."""
    if t in LEARNED:
        parts = learned_pieces(t, raw, rows, cols, layout)
        return np.concatenate([learned_values(t, *part, tables) for part in parts])[:, :cols]
    if t == 8:
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(rows, cols)
    if t in (6, 7):
        return np.frombuffer(raw, {6: "<f2", 7: "<f4"}[t]).astype(np.float32).reshape(rows, cols)
    parts = [values(t, *piece).reshape(-1, ceil_div(cols, n) * n) for piece in pieces(t, raw, rows, cols, n, layout)]
    return np.concatenate(parts)[:, :cols]
