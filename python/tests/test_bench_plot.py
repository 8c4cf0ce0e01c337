"""Pictures of the training benchmark, from made-up results: every row and every curve is drawn."""

import importlib.util
import json
import xml.etree.ElementTree as xml
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "bench" / "train" / "plot.py"
spec = importlib.util.spec_from_file_location("bench_train_plot", FILE)
plot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plot)

ROW = {"case": "a <net>", "size": "somewhere", "framework": "x", "ours_ms": 10.0, "peer": "p", "peer_ms": 20.0, "ratio": 2.0,
       "ours_mb_sent": 1.0, "peer_mb_sent": 3.0}  # fmt: skip
CURVE = {"case": "net", "framework": "x", "curve": [3.0, 2.0, 1.0], "beside": "p", "its_curve": [3.0, 2.5, 0.5]}


def words(svg):
    return [element.text for element in xml.fromstring(svg).iter() if element.tag.endswith("text")]


def count(svg, kind):
    return sum(element.tag.endswith(kind) for element in xml.fromstring(svg).iter())


def test_every_row_is_drawn():
    rows = [
        ROW,
        {**ROW, "ours_ms": 2500.0, "peer": "compute", "peer_ms": None, "ratio": None, "ours_mb_sent": 0.0, "peer_mb_sent": None},
        {**ROW, "peer_ms": None, "ratio": None},
        {**ROW, "ours_ms": None, "peer_ms": None, "ratio": None, "peer": None, "ours_mb_sent": None, "peer_mb_sent": None},
    ]
    svg = plot.draw(rows)
    said = words(svg)
    assert said.count("a <net>, x") == 4 and "10 ms  (2.00x)" in said and "2.50 s" in said
    assert said.count("no figure") == 2 and said.count("failed") == 1
    assert count(svg, "rect") == 3 + 2 + 2 + 1 + 1 + 2, "the frame and legend; both bars twice; ours alone; ours, and both of bytes"


def test_curves_of_all_are_drawn_in_their_panels():
    rows = [CURVE, {**CURVE, "beside": "joined", "its_curve": [3.0, None, float("inf")]}, {**CURVE, "framework": "y"}]
    svg = plot.draw_curves(rows)
    lines = [element for element in xml.fromstring(svg).iter() if element.tag.endswith("polyline")]
    assert [line.get("stroke") for line in lines] == [plot.THEIRS, plot.OURS, plot.ALONE, plot.THEIRS, plot.OURS]
    assert lines[1].get("points") == "0.0,0.0 150.0,60.0 300.0,120.0", "from 3 down to 1, where 0.5 is the lowest"
    assert lines[2].get("points") == "0.0,0.0", "what is not finite is left out"
    assert "net, x; peer: p" in words(svg) and "3 steps" in words(svg)


def test_results_are_told_apart_and_a_second_picture_is_made_where_there_are_curves(tmp_path):
    source, target = tmp_path / "r.jsonl", tmp_path / "train.svg"
    source.write_text("| a table |\n" + json.dumps(ROW) + "\n")
    plot.main(source, target)
    assert target.exists() and not (tmp_path / "train-curves.svg").exists()
    source.write_text(source.read_text() + json.dumps(CURVE) + "\n")
    plot.main(source, target)
    assert "net, x; peer: p" in words((tmp_path / "train-curves.svg").read_text())
