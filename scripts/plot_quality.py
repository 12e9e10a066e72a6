#!/usr/bin/env python3
"""Draws size against KL divergence as an SVG, from CSV with the columns tool, type, megabytes, kld.

    plot_quality.py docs/data/llama-53m.csv docs/llama-53m.svg "llama-53m, held-out text"

A logarithmic axis for the divergence; a mark for each file, and a line for each tool whose files are choices for a size
(those in whose type a size stands). Standard library only.
"""
import csv
import math
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 520, 80, 30, 50, 60
COLORS = {"QSF": "#0b6bcb", "llama.cpp": "#b5541c", "ik_llama.cpp": "#6b7a1e"}
MARKS = {"QSF": "circle", "llama.cpp": "square", "ik_llama.cpp": "diamond"}


def mark(kind, x, y, color, title):
    shape = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"',
        "square": f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"',
        "diamond": f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"',
    }[kind]
    return f'{shape} fill="{color}"><title>{escape(title)}</title></{shape[1:].split()[0]}>'


def draw(rows, title):
    sizes, divergences = [r["megabytes"] for r in rows], [r["kld"] for r in rows]
    low, high = math.floor(min(sizes) / 5) * 5, math.ceil(max(sizes) / 5) * 5
    bottom, top = math.floor(math.log10(min(divergences))), math.ceil(math.log10(max(divergences)))
    across = lambda v: LEFT + (v - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    down = lambda v: TOP + (top - math.log10(v)) / (top - bottom) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" font-size="13">',
           f"<title>{escape(title)}</title>",
           # Its own ground, so that it can be read on light and dark pages.
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="26" font-size="16" fill="#222">{escape(title)}</text>']
    for size in range(low, high + 1, 5):
        x = across(size)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" fill="#444">{size}</text>')
    for power in range(bottom, top + 1):
        for factor in (1, 2, 5) if power < top else (1,):
            value = factor * 10.0**power
            y = down(value)
            out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e4e4e4"/>')
            out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle" fill="#222">file size, MB</text>')
    out.append(f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" fill="#222">mean KL divergence, nats</text>')
    for i, tool in enumerate(dict.fromkeys(r["tool"] for r in rows)):
        own = [r for r in rows if r["tool"] == tool]
        color, kind = COLORS.get(tool, "#555"), MARKS.get(tool, "circle")
        chosen = sorted((r["megabytes"], r["kld"]) for r in own if any(c.isdigit() for c in r["type"]) and "MB" in r["type"])
        if len(chosen) > 1:
            points = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in chosen)
            out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        for r in own:
            text = f'{tool} {r["type"]}: {r["megabytes"]:.2f} MB, {r["kld"]:.5f} nats'
            out.append(mark(kind, across(r["megabytes"]), down(r["kld"]), color, text))
        x, y = WIDTH - RIGHT - 150, TOP + 24 + 24 * i
        out.append(mark(kind, x, y - 4, color, tool))
        out.append(f'<text x="{x + 14}" y="{y}" fill="#222">{escape(tool)}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    with open(sys.argv[1], newline="", encoding="utf-8") as f:
        rows = [dict(r, megabytes=float(r["megabytes"]), kld=float(r["kld"])) for r in csv.DictReader(f)]
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(draw(rows, sys.argv[3]))


if __name__ == "__main__":
    main()
