"""Draws what `cargo xtask bench train --json` printed: `python bench/train/plot.py RESULTS.jsonl docs/benchmarks-train.svg`.

For each network and place two bars of step time and two of bytes sent by a worker, ours beside the peer's.
"""

import json
import sys
from html import escape

OURS, THEIRS, INK, FAINT = "#0b7285", "#adb5bd", "#212529", "#868e96"
ROW, BAR, LEFT, WIDE = 46, 15, 250, 300


def text(x, y, words, anchor="start", colour=INK, size=12):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(words)}</text>'


def bar(x, y, share, colour, label):
    length = max(1.0, WIDE * share)
    box = f'<rect x="{x}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
    return box + text(x + length + 5, y + BAR - 3, label, size=11)


def figure(ms):
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"


def draw(rows):
    height, right = 74 + ROW * len(rows), LEFT + WIDE + 90
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + WIDE + 90}" height="{height}" '
           'font-family="system-ui, sans-serif">', f'<rect width="100%" height="100%" fill="white"/>']
    out.append(text(LEFT, 24, "time of a step", size=14))
    out.append(text(right, 24, "bytes that a worker sends in a step", size=14))
    out.append(f'<rect x="{LEFT}" y="36" width="12" height="12" fill="{OURS}"/>' + text(LEFT + 17, 46, "shoal"))
    out.append(f'<rect x="{LEFT + 80}" y="36" width="12" height="12" fill="{THEIRS}"/>' + text(LEFT + 97, 46, "peer"))
    for number, row in enumerate(rows):
        y = 62 + number * ROW
        out.append(text(12, y + 14, f"{row['case']}, {row['framework']}"))
        out.append(text(12, y + 29, f"{row['size']}; peer: {row['peer']}", colour=FAINT, size=11))
        # Each row has a scale of its own: a network's seconds say nothing about another's.
        longest = max(row["ours_ms"], row["peer_ms"])
        out.append(bar(LEFT, y, row["ours_ms"] / longest, OURS, f"{figure(row['ours_ms'])}  ({row['ratio']:.2f}x)"))
        out.append(bar(LEFT, y + BAR + 2, row["peer_ms"] / longest, THEIRS, figure(row["peer_ms"])))
        most = max(row["ours_mb_sent"] or 0, row["peer_mb_sent"] or 0)
        if most > 0:
            out.append(bar(right, y, row["ours_mb_sent"] / most, OURS, f"{row['ours_mb_sent']:.1f} MB"))
            out.append(bar(right, y + BAR + 2, row["peer_mb_sent"] / most, THEIRS, f"{row['peer_mb_sent']:.1f} MB"))
        else:
            out.append(text(right, y + BAR, "no network between them", colour=FAINT, size=11))
    return "\n".join(out + ["</svg>\n"])


def main(source, target):
    with open(source) as lines:
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    wanted = [r for r in rows if r.get("peer") not in (None, "compute") and r.get("ratio")]
    with open(target, "w") as file:
        file.write(draw(wanted))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
