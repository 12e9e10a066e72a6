#!/usr/bin/env python3
"""Draws size against KL divergence as an SVG, from CSV with the columns tool, type, megabytes, kld.

    plot_quality.py docs/data/llama-53m.csv docs/llama-53m.svg "Title" "Line below the title"

A logarithmic axis for the divergence; a mark for each file, with its type; and for each tool a line through those of its
files that no smaller file of the tool beats. An arrow shows, at one size, how far the first tool of the list of colors is
below the best of the others. Standard library only.
"""
import csv
import math
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 560, 84, 24, 84, 64
COLORS = {"QSF": "#0b6bcb", "llama.cpp": "#b5541c", "ik_llama.cpp": "#6b7a1e"}
MARKS = {"QSF": "circle", "llama.cpp": "square", "ik_llama.cpp": "diamond"}
INK, GREY, GRID = "#1a1a1a", "#555555", "#e6e6e6"
# Room that a label of the size below takes.
LABEL, LETTER, LINE = 10.5, 6.0, 11


def mark(kind, x, y, color, title):
    shape = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5"',
        "square": f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"',
        "diamond": f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"',
    }[kind]
    return f'{shape} fill="{color}"><title>{escape(title)}</title></{shape[1:].split()[0]}>'


def text(x, y, content, anchor="start", size=13, color=INK, weight="normal"):
    style = f'font-size="{size}" fill="{color}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(content)}</text>'


def frontier(rows):
    """The files that no file of the same tool, at most as large, beats."""
    best, found = math.inf, []
    for row in sorted(rows, key=lambda r: (r["megabytes"], r["kld"])):
        if row["kld"] < best:
            best = row["kld"]
            found.append(row)
    return found


class Chart:
    """Axes, and what they make of sizes and divergences."""

    def __init__(self, rows):
        sizes, divergences = [r["megabytes"] for r in rows], [r["kld"] for r in rows]
        steps = (step * 10**power for power in range(6) for step in (5, 10, 20))
        self.step = next(step for step in steps if max(sizes) - min(sizes) <= 10 * step)
        self.low = math.floor(min(sizes) / self.step) * self.step
        self.high = math.ceil(max(sizes) / self.step) * self.step
        self.bottom, self.top = math.log10(min(divergences)) - 0.12, math.log10(max(divergences)) + 0.12
        self.taken = []

    def x(self, size):
        return LEFT + (size - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    def y(self, divergence):
        return TOP + (self.top - math.log10(divergence)) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)

    def axes(self):
        middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        for size in range(self.low, self.high + 1, self.step):
            x = self.x(size)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="{GRID}"/>'
            yield text(x, HEIGHT - BOTTOM + 20, str(size), "middle", color=GREY)
        for power in range(math.floor(self.bottom), math.ceil(self.top) + 1):
            for value in (10.0**power, 2 * 10.0**power, 5 * 10.0**power):
                if self.bottom <= math.log10(value) <= self.top:
                    y = self.y(value)
                    yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>'
                    yield text(LEFT - 8, y + 4, f"{value:g}", "end", color=GREY)
        yield text(middle_x, HEIGHT - 18, "Size of the file in MB, smaller is better", "middle", 14)
        yield f'<g transform="translate(20 {middle_y}) rotate(-90)">' + text(
            0, 0, "KL divergence from the original, lower is better", "middle", 14) + "</g>"

    def occupy(self, left, top, right, bottom):
        self.taken.append((left, top, right, bottom))

    def is_free(self, left, top, right, bottom):
        return not any(left < r and l < right and top < b and t < bottom for l, t, r, b in self.taken)

    def label(self, x, y, content, color):
        """The label at the first side of its mark where it covers nothing, or nothing."""
        width = LETTER * len(content)
        for left, base in ((x + 9, y + 4), (x + 7, y - 7), (x - width - 9, y + 4), (x + 7, y + 15), (x - width - 7, y - 7)):
            place = (left, base - LINE + 2, left + width, base + 2)
            if left + width < WIDTH - RIGHT and self.is_free(*place):
                self.occupy(*place)
                return text(left, base, content, size=LABEL, color=color)
        return ""


def advantage(chart, rows):
    """An arrow from the best of the others to the first tool, at that of its sizes where the ratio is the median one."""
    first = next(iter(COLORS))
    own, others = [r for r in rows if r["tool"] == first], [r for r in rows if r["tool"] != first]
    pairs = []
    for row in own:
        # A file that is hardly smaller, so that the arrow can stand upright.
        peers = [o for o in others if 0 <= o["megabytes"] - row["megabytes"] < 0.1]
        if peers:
            best = min(peers, key=lambda o: o["kld"])
            pairs.append((row["kld"] / best["kld"], row, best))
    if not pairs:
        return []
    ratio, row, best = sorted(pairs, key=lambda p: p[0])[len(pairs) // 2]
    x, start, end = chart.x(row["megabytes"]), chart.y(best["kld"]) + 8, chart.y(row["kld"]) - 9
    chart.occupy(x - 3, start, x + 3, end)
    words = f"Arrow: at {row['megabytes']:.1f} MB, {ratio:.2f} of the divergence of {best['tool']}'s {best['type']}"
    return [f'<path d="M{x:.1f} {start:.1f}V{end:.1f}m-4 -6l4 6l4 -6" fill="none" stroke="{INK}" stroke-width="1.5"/>',
            text(LEFT + 14, HEIGHT - BOTTOM - 16, words, size=13)]


def draw(rows, title, subtitle):
    chart = Chart(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
           f"<title>{escape(title)}</title>",
           # Its own ground, so that it can be read on light and dark pages.
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           text(LEFT, 32, title, size=20, weight="bold"), text(LEFT, 56, subtitle, size=13.5, color=GREY)]
    out += chart.axes()
    tools = list(dict.fromkeys(r["tool"] for r in rows))
    tools.sort(key=lambda tool: list(COLORS).index(tool) if tool in COLORS else len(COLORS))
    for r in rows:
        x, y = chart.x(r["megabytes"]), chart.y(r["kld"])
        chart.occupy(x - 6, y - 6, x + 6, y + 6)
    legend_x, legend_y = WIDTH - RIGHT - 150, TOP + 26
    chart.occupy(legend_x - 16, legend_y - 20, WIDTH, legend_y + 26 * len(tools))
    arrow = advantage(chart, rows)
    for tool in reversed(tools):
        color = COLORS.get(tool, GREY)
        points = " ".join(f'{chart.x(r["megabytes"]):.1f},{chart.y(r["kld"]):.1f}'
                          for r in frontier([r for r in rows if r["tool"] == tool]))
        width, dash = (2.5, "") if tool == tools[0] else (1.2, ' stroke-dasharray="4 3"')
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>')
    out += arrow
    for tool in reversed(tools):
        color, kind = COLORS.get(tool, GREY), MARKS.get(tool, "circle")
        for r in (r for r in rows if r["tool"] == tool):
            x, y = chart.x(r["megabytes"]), chart.y(r["kld"])
            words = f'{tool} {r["type"]}: {r["megabytes"]:.2f} MB, {r["kld"]:.5f} nats'
            out.append(mark(kind, x, y, color, words))
            # A size says nothing that the axis does not say.
            if "MB" not in r["type"]:
                out.append(chart.label(x, y, r["type"], color))
    for i, tool in enumerate(tools):
        out.append(mark(MARKS.get(tool, "circle"), legend_x, legend_y + 26 * i - 5, COLORS.get(tool, GREY), tool))
        out.append(text(legend_x + 14, legend_y + 26 * i, tool, size=15, weight="bold" if i == 0 else "normal"))
    return "\n".join(line for line in out + ["</svg>", ""] if line or line == "")


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    with open(sys.argv[1], newline="", encoding="utf-8") as f:
        rows = [dict(r, megabytes=float(r["megabytes"]), kld=float(r["kld"])) for r in csv.DictReader(f)]
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(draw(rows, sys.argv[3], sys.argv[4]))


if __name__ == "__main__":
    main()
