"""Draws what `cargo xtask bench train --json` printed: `python bench/train/plot.py RESULTS.jsonl docs/benchmarks-train.svg`.

For each network and place two bars of step time and two of bytes sent by a worker, ours beside the peer's. Where the results
have loss curves, a second picture (`docs/benchmarks-train-curves.svg`) shows them: ours, the peer's, and one process that sees
everybody's batches.
"""

import json
import math
import sys
from html import escape
from pathlib import Path

OURS, THEIRS, ALONE, INK, FAINT = "#0b7285", "#adb5bd", "#e8590c", "#212529", "#868e96"
ROW, BAR, LEFT, WIDE = 46, 15, 250, 300
#: Of a panel with curves.
ACROSS, DOWN, GAP, COLUMNS = 300, 150, 56, 2
#: The worker of one process in bench/train, as results call it.
JOINED = "joined"


def text(x, y, words, anchor="start", colour=INK, size=12):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(words)}</text>'


def picture(width, height, parts):
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif">', '<rect width="100%" height="100%" fill="white"/>']
    return "\n".join([*head, *parts, "</svg>\n"])


def bar(x, y, share, colour, label):
    length = max(1.0, WIDE * share)
    box = f'<rect x="{x}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
    return box + text(x + length + 5, y + BAR - 3, label, size=11)


def figure(ms):
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"


def bars(x, y, ours, theirs, words, nothing, behind=""):
    """Two bars on a scale of their own: a network's seconds say nothing about another's."""
    longest = max(ours or 0, theirs or 0)
    if not longest:
        return [text(x, y + BAR, nothing, colour=FAINT, size=11)]
    out = []
    for line, (value, colour, more) in enumerate(((ours, OURS, behind), (theirs, THEIRS, ""))):
        top = y + line * (BAR + 2)
        if value is None:
            out.append(text(x, top + BAR - 3, "no figure", colour=FAINT, size=11))
        else:
            out.append(bar(x, top, value / longest, colour, words(value) + more))
    return out


def draw(rows):
    height, right = 74 + ROW * len(rows), LEFT + WIDE + 90
    out = [text(LEFT, 24, "time of a step", size=14), text(right, 24, "bytes that a worker sends in a step", size=14)]
    out.append(f'<rect x="{LEFT}" y="36" width="12" height="12" fill="{OURS}"/>' + text(LEFT + 17, 46, "shoal"))
    out.append(f'<rect x="{LEFT + 80}" y="36" width="12" height="12" fill="{THEIRS}"/>' + text(LEFT + 97, 46, "peer"))
    for number, row in enumerate(rows):
        y = 62 + number * ROW
        out.append(text(12, y + 14, f"{row['case']}, {row['framework']}"))
        peer = f"; peer: {row['peer']}" if row.get("peer") else ""
        out.append(text(12, y + 29, f"{row['size']}{peer}", colour=FAINT, size=11))
        ratio = f"  ({row['ratio']:.2f}x)" if row.get("ratio") else ""
        out += bars(LEFT, y, row.get("ours_ms"), row.get("peer_ms"), figure, "failed", ratio)
        sent = [row.get("ours_mb_sent"), row.get("peer_mb_sent")]
        out += bars(right, y, *sent, lambda mb: f"{mb:.1f} MB", "no network between them, or not counted")
    return picture(right + WIDE + 90, height, out)


def panels(rows):
    """For each network and framework its curves by who trained; ours is in several rows, the same in each."""
    found = {}
    for row in rows:
        curves = found.setdefault((row["case"], row["framework"]), {})
        curves["shoal"] = row["curve"]
        curves[row["beside"]] = row["its_curve"]
    return found


def line(losses, span, lowest, highest, colour, dashes):
    """A curve as it lies in a panel; losses that are not finite are left out."""
    height = (highest - lowest) or 1.0
    points = [
        f"{ACROSS * step / max(1, span - 1):.1f},{DOWN * (highest - loss) / height:.1f}"
        for step, loss in enumerate(losses)
        if loss is not None and math.isfinite(loss)
    ]
    how = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"{how}/>'


def draw_curves(rows):
    """Where curves lie on one another, all are seen: the peer's is broad and beneath, that of one process dashed and on top."""
    found = panels(rows)
    out = [text(12, 24, "loss of each step", size=14)]
    for place, (name, colour) in enumerate((("shoal", OURS), ("peer", THEIRS), ("one process on all batches", ALONE))):
        out.append(f'<rect x="{150 + 80 * place}" y="14" width="12" height="12" fill="{colour}"/>')
        out.append(text(167 + 80 * place, 24, name))
    for number, ((case, framework), curves) in enumerate(found.items()):
        x, y = 60 + number % COLUMNS * (ACROSS + GAP + 40), 70 + number // COLUMNS * (DOWN + GAP)
        finite = [v for losses in curves.values() for v in losses if v is not None and math.isfinite(v)] or [0.0]
        lowest, highest, span = min(finite), max(finite), max(map(len, curves.values()))
        peers = [name for name in curves if name not in ("shoal", JOINED)]
        out.append(text(x, y - 8, f"{case}, {framework}" + (f"; peer: {', '.join(peers)}" if peers else "")))
        out.append(text(x - 6, y + 10, f"{highest:.3g}", "end", FAINT, 11) + text(x - 6, y + DOWN, f"{lowest:.3g}", "end", FAINT, 11))
        out.append(text(x + ACROSS, y + DOWN + 16, f"{span} steps", "end", FAINT, 11))
        out.append(f'<g transform="translate({x} {y})"><rect width="{ACROSS}" height="{DOWN}" fill="none" stroke="{FAINT}"/>')
        for name in (*peers, "shoal", JOINED):
            if name in curves:
                colour, dashes = {"shoal": (OURS, ""), JOINED: (ALONE, "2 6")}.get(name, (THEIRS, ""))
                drawn = line(curves[name], span, lowest, highest, colour, dashes)
                out.append(drawn.replace('stroke-width="2"', 'stroke-width="6"') if name in peers else drawn)
        out.append("</g>")
    down = -(-len(found) // COLUMNS)
    return picture(60 + COLUMNS * (ACROSS + GAP + 40), 70 + down * (DOWN + GAP), out)


def read(lines):
    """Rows of step times, and rows of curves."""
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [row for row in rows if "ours_ms" in row], [row for row in rows if "curve" in row]


def main(source, target):
    with open(source) as lines:
        steps, curves = read(lines)
    Path(target).write_text(draw(steps))
    if curves:
        target = Path(target)
        target.with_name(f"{target.stem}-curves{target.suffix}").write_text(draw_curves(curves))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
