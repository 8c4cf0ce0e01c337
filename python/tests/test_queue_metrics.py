"""shoal.log: one JSON line for each call, whoever calls, wherever it goes."""

import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

import numpy as np
import shoal
from shoal import metrics


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("SHOAL_METRICS", str(path))
    return path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_step_time_and_values(file):
    shoal.log(step=3, loss=0.25, accuracy=1)
    shoal.log(loss=np.float32(0.5))
    first, second = lines(file)
    assert list(first) == ["step", "time", "loss", "accuracy"]
    assert (first["step"], first["loss"], first["accuracy"]) == (3, 0.25, 1)
    assert "step" not in second and second["loss"] == 0.5 and second["time"] >= first["time"]


class Tensor:
    """As frameworks have it: one number behind item(), or behind numpy()."""

    def __init__(self, value, way):
        setattr(self, way, lambda: value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (2, 2),
        (True, 1),
        (0.1, 0.1),
        (np.int64(7), 7),
        (np.bool_(True), 1),
        (np.array(1.5), 1.5),
        (np.array([4]), 4),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 4), 0.25),
        (Tensor(2.5, "item"), 2.5),
        (Tensor(np.float32(0.5), "numpy"), 0.5),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (10**30, 10**30),
    ],
)
def test_numbers_of_every_kind(file, value, told):
    shoal.log(x=value)
    assert lines(file)[0]["x"] == told


@pytest.mark.parametrize("value", ["0.1", None, [1], {"a": 1}, np.ones(3), object(), 1j])
def test_what_is_no_number_is_named(file, value):
    with pytest.raises(TypeError, match=r"shoal\.log\(loss=\.\.\.\)"):
        shoal.log(loss=value)
    assert not file.exists()


def test_time_is_ours(file):
    with pytest.raises(TypeError, match="time"):
        shoal.log(time=3)


def test_outside_a_run_it_is_printed(monkeypatch, capsys):
    monkeypatch.delenv("SHOAL_METRICS", raising=False)
    shoal.log(step=1, loss=0.5)
    assert json.loads(capsys.readouterr().out)["loss"] == 0.5


def test_a_file_that_cannot_be_written_ends_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(metrics, "_told", False)
    monkeypatch.setenv("SHOAL_METRICS", str(tmp_path / "not" / "there"))
    shoal.log(loss=1)
    shoal.log(loss=2)
    assert capsys.readouterr().err.count("cannot write metrics") == 1


def test_a_line_that_was_cut_does_not_spoil_the_next(file, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    shoal.log(loss=1)
    monkeypatch.setattr(os, "write", real)
    shoal.log(loss=2)
    assert json.loads(file.read_text().splitlines()[1])["loss"] == 2


def test_processes_and_threads_share_one_file(file):
    script = """
import os, shoal, threading
def note(who):
    for step in range(100):
        shoal.log(step=step, who=who, padding=0.123456789)
os.fork()
who = os.getpid()
threads = [threading.Thread(target=note, args=(who * 10 + k,)) for k in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
if os.getpid() == who and os.getppid() != PARENT:
    os._exit(0)
os.wait()
"""
    script = script.replace("PARENT", str(os.getpid()))
    writers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = lines(file)
    assert len(found) == 2 * 2 * 3 * 100
    assert len({(line["who"], line["step"]) for line in found}) == len(found)
