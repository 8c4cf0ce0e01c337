"""LudwigCluster's client: what it refuses, what it copies, and what it asks of the queue."""

import json
import os
from pathlib import Path, PurePosixPath

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

import numpy as np
from queue_fakes import Shoal
from shoal import Client, QueueError, RunsFailedError
from shoal.client import Submission, _configs, _program, _share, _sweep

SUBMITTED = {"sweep": "proj", "cells": 2, "new_cells": 2, "waiting": 4, "already_done": 0}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in the current folder, a share, and a program that stands in for `shoal`."""
    for name in ("SHOAL_SHARE", "LUDWIG_MNT", "SHOAL_METRICS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "share").mkdir()
    root = tmp_path / "home"
    (root / "src").mkdir(parents=True)
    (root / "src" / "__init__.py").write_text("")
    (root / "corpora" / "deep").mkdir(parents=True)
    (root / "corpora" / "deep" / "words.txt").write_text("a b c")
    (root / "run.py").write_text("print('run')")
    monkeypatch.chdir(root)
    shoal = Shoal(tmp_path / "bin")
    shoal.answer(sweep=SUBMITTED)
    monkeypatch.setenv("SHOAL_BIN", str(shoal.program))
    shoal.share = tmp_path / "share"
    shoal.client = lambda: Client("proj", share=shoal.share)
    return shoal


def test_a_submit_asks_for_what_the_document_says(project):
    client = project.client()
    assert (project.share / "proj").is_dir()
    configs = [{"lr": 0.1, "layers": (3, 4), "name": "a"}, {"lr": 0.2, "layers": (3, 4), "name": "b {x}"}]
    done = client.submit(src_ps=[Path("src")], data_ps=[Path("corpora")], param2val_list=configs, reps=2, gpus=1)
    assert (done.name, done.cells, done.waiting) == ("proj", 2, 4)
    (sweep,) = project.sweeps()
    assert sweep["reps"] == 2 and sweep["name"] == "proj" and sweep["pass"] == ["file"]
    assert sweep["resources"] == {"gpus": 1}
    assert sweep["configs"] == [
        {"lr": 0.1, "layers": [3, 4], "name": "a"},
        {"lr": 0.2, "layers": [3, 4], "name": "b {x}"},
    ]
    assert sweep["results"] == str(project.share)
    assert [tree["at"] for tree in sweep["source"]] == ["run.py", "src", "_shoal_chunk.py", "_shoal_types.json"]
    before, asked = project.asked()
    assert before["argv"] == ["ps", "--sweeps", "--all", "--json"] and asked["argv"] == ["sweep", "--from-json", "-", "--json"]
    assert json.loads(asked["files"]["_shoal_types.json"]) == {"layers": {"[3,4]": "(3, 4)"}}
    words = sweep["command"]
    at = words.index("_shoal_chunk.py")
    assert words[at:] == ["_shoal_chunk.py", "--project-path", str(project.share / "proj"), "--run", "run.py"]
    assert (project.share / "proj" / "corpora" / "deep" / "words.txt").read_text() == "a b c"


def test_one_worker_and_other_settings(project):
    project.client().submit(
        [], [{"a": 1}], worker="hebb", python="/opt/py", time_limit="2h", env={"A": "b"}, after=["x"]
    )
    (sweep,) = project.sweeps()
    assert sweep["resources"] == {"on": ["hebb"]} and sweep["time_limit"] == "2h"
    assert sweep["env"] == {"A": "b"} and sweep["after"] == ["x"]
    assert sweep["command"][0] == "/opt/py" and sweep["command"][-2:] == ["--worker", "hebb"]


def test_modules_of_a_folder_that_is_no_package_are_found(project):
    Path("lib").mkdir()
    project.client().submit([Path("src"), Path("lib")], [{"a": 1}])
    words = project.sweeps()[0]["command"]
    assert words[words.index("--path") + 1] == "lib" and words.count("--path") == 1


def test_a_test_starts_and_copies_nothing(project, capsys):
    project.answer(sweep={"out": "2 configurations\n"})
    assert project.client().submit([Path("src")], [{"a": 1}], data_ps=[Path("corpora")], test=True) is None
    assert project.asked()[0]["argv"][-1] == "--dry-run"
    assert "2 configurations" in capsys.readouterr().out
    assert not (project.share / "proj" / "corpora").exists()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"a": 1}, TypeError, ["list of dicts"]),
        ("abc", TypeError, ["list of dicts"]),
        (7, TypeError, ["list of dicts"]),
        ([], ValueError, ["empty"]),
        ([{"a": 1}, 3], TypeError, ["param2val_list[1]", "int", "dict"]),
        ([{"a": 1}, {"a": 2}, {"a": 1}], ValueError, ["param2val_list[2]", "param2val_list[0]", "reps"]),
        ([{"a": (1, 2)}, {"a": [1, 2]}], ValueError, ["param2val_list[1]", "same"]),
        ([{"a": 1}, {3: 1}], TypeError, ["param2val_list[1]", "3"]),
        ([{"": 1}], ValueError, ["param2val_list[0]"]),
        ([{"1a": 1}], ValueError, ["'1a'", "starts with a letter"]),
        ([{"a": {1: 2}}], TypeError, ["param2val_list[0]['a']", "key 1"]),
        ([{"a": "x\0"}], ValueError, ["NUL"]),
        ([{"a": {1, 2}}], TypeError, ["param2val_list[0]['a']", "set"]),
        ([{"a": [1, object()]}], TypeError, ["param2val_list[0]['a'][1]", "object"]),
        ([{"a": np.ones(2)}], TypeError, ["param2val_list[0]['a']", "ndarray", "tolist"]),
        ([{"a": {"b": lambda: 1}}], TypeError, ["param2val_list[0]['a']['b']", "function"]),
        ([{"a": float("nan")}], ValueError, ["param2val_list[0]['a']", "nan"]),
        ([{"a": 2**63}], ValueError, ["64 bits"]),
        ([{"a": "\ud800"}], ValueError, ["UTF-8"]),
        ([{"a\nb": 1}], ValueError, ["letters"]),
    ],
)
def test_wrong_configurations_are_named(project, given, error, words):
    with pytest.raises(error) as told:
        project.client().submit([], given)
    assert all(word in str(told.value) for word in words), told.value
    assert project.asked() == []


def test_values_become_what_json_has():
    config = {
        "a": np.float32(0.5),
        "b": np.int8(3),
        "c": (1, (2, None)),
        "d": PurePosixPath("/x"),
        "e": {"f": True},
        "g": np.bool_(0),
    }
    plain = {"a": 0.5, "b": 3, "c": [1, [2, None]], "d": "/x", "e": {"f": True}, "g": False}
    assert _configs.checked([config]) == [plain]
    deep = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ValueError, match="deep"):
        _configs.checked([{"a": deep}])


def test_generators_are_lists_too(project):
    project.client().submit([], ({"a": n, "b": (n,)} for n in range(3)))
    assert [row["a"] for row in project.sweeps()[0]["configs"]] == [0, 1, 2]
    assert "_shoal_types.json" in project.asked()[1]["files"]


@pytest.mark.parametrize("name", ["", "a b", "-x", ".x", "a/b", "x" * 65, "é", 3])
def test_names_that_no_folder_and_no_sweep_can_have(project, name):
    with pytest.raises(ValueError, match="project"):
        Client(name, share=project.share)


def test_other_arguments_are_checked(project):
    client = project.client()
    for reps in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="reps"):
            client.submit([], [{"a": 1}], reps=reps)
    with pytest.raises(TypeError, match="src_ps is a list"):
        client.submit("src", [{"a": 1}])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        client.submit([Path("nowhere")], [{"a": 1}])
    with pytest.raises(FileNotFoundError, match="walk.py"):
        client.submit([], [{"a": 1}], run_f_name="walk.py")
    with pytest.raises(TypeError, match="'gpu' is no setting"):
        client.submit([], [{"a": 1}], gpu=1)
    (Path("more") / "src").mkdir(parents=True)
    with pytest.raises(ValueError, match="both be src"):
        client.submit([Path("src"), Path("more/src")], [{"a": 1}])
    assert project.asked() == []


# ---- the share


def test_where_the_share_is(tmp_path, monkeypatch):
    for name in ("a", "b/research_data", "c", "b/ludwig_data"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.delenv("SHOAL_SHARE", raising=False)
    monkeypatch.setenv("LUDWIG_MNT", str(tmp_path / "b"))
    (tmp_path / "b/research_data/x").mkdir()
    assert _share.find() == tmp_path / "b/research_data"
    with pytest.raises(OSError, match="nothing is mounted"):
        _share.find(name=_share.LUDWIG_DATA)
    monkeypatch.setenv("SHOAL_SHARE", str(tmp_path / "a"))
    assert _share.find() == tmp_path / "a"
    assert _share.find(tmp_path / "c") == tmp_path / "c"
    with pytest.raises(FileNotFoundError, match="SHOAL_SHARE"):
        _share.find(tmp_path / "gone")


def test_data_is_copied_once_and_by_content(project, tmp_path):
    place = _share.make_project(project.share, "proj")
    (tmp_path / "one.bin").write_bytes(b"x" * 10)
    sources = [Path("corpora"), tmp_path / "one.bin"]
    assert _share.copy(sources, place) == 2
    assert _share.copy(sources, place) == 0
    # The time alone is no change, and the same size no sameness.
    os.utime("corpora/deep/words.txt")
    assert _share.copy(sources, place) == 0
    Path("corpora/deep/words.txt").write_text("x b c")
    assert _share.copy(sources, place) == 1
    assert (place / "corpora/deep/words.txt").read_text() == "x b c"
    # Changed or removed on the share: brought again.
    (place / "one.bin").write_bytes(b"damaged")
    (place / "corpora/deep/words.txt").unlink()
    assert _share.copy(sources, place) == 2
    assert (place / "one.bin").read_bytes() == b"x" * 10
    assert [p.name for p in place.rglob("*.part")] == []


def test_data_that_cannot_be_copied(project, tmp_path, monkeypatch):
    place = _share.make_project(project.share, "proj")
    for path, words in [
        (Path("gone"), "no gone"),
        (tmp_path / "runs", "results"),
        (tmp_path / "x.pkl", "instructions"),
    ]:
        with pytest.raises((FileNotFoundError, ValueError), match=words):
            _share.copy([path], place)
    (tmp_path / "corpora").mkdir()
    with pytest.raises(ValueError, match="both be"):
        _share.copy([Path("corpora"), tmp_path / "corpora"], place)
    monkeypatch.setattr(_share.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2}))
    with pytest.raises(OSError, match="2 bytes free"):
        _share.copy([Path("corpora")], place)
    # A link upwards does not make it endless.
    monkeypatch.undo()
    os.symlink(tmp_path / "home", tmp_path / "home/corpora/up")
    assert _share.copy([tmp_path / "home/corpora"], place) == 1


def test_results_of_somebody_else_are_not_mixed_with_ours(project):
    run = project.share / "proj/runs/param_001/2020-01-01-00:00:00_num0"
    run.mkdir(parents=True)
    with pytest.raises(FileExistsError, match="runs-before"):
        project.client().submit([], [{"a": 1}])
    (run / "run.json").write_text("{}")
    project.client().submit([], [{"a": 1}])


# ---- the program


def test_where_the_program_is(tmp_path, monkeypatch):
    shoal = Shoal(tmp_path / "bin")
    monkeypatch.setenv("SHOAL_BIN", str(tmp_path / "bin"))
    assert _program.find() == str(shoal.program)
    monkeypatch.setenv("SHOAL_BIN", str(tmp_path / "gone"))
    with pytest.raises(QueueError, match="SHOAL_BIN"):
        _program.find()
    monkeypatch.delenv("SHOAL_BIN")
    monkeypatch.setattr(_program.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert _program.find() == str(shoal.program)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(QueueError, match="SHOAL_BIN=FILE"):
        _program.find()


def test_what_the_program_complains_about_is_the_error(project):
    project.answer(sweep={"code": 2, "err": "shoal sweep: `lr` is wrong\n  hint: mend it\n"})
    with pytest.raises(QueueError, match="`lr` is wrong\n  hint: mend it") as told:
        project.client().submit([], [{"a": 1}])
    assert told.value.details["code"] == 2
    project.answer(sweep={"out": "no JSON"})
    with pytest.raises(QueueError, match="no JSON"):
        project.client().submit([], [{"a": 1}])


def row(**counts):
    row = {
        "name": "proj",
        "owner": "me",
        "cells": 2,
        "reps": 2,
        "waiting": 0,
        "running": 0,
        "finished": 0,
        "failed": 0,
        "stopped": 0,
    }
    return {"sweeps": [{"name": "other"}, {**row, "paused": False, "stuck": None, **counts}], "runs": []}


def test_waiting_until_it_is_done(project):
    project.answer(ps=row(finished=4), wait={"code": 0})
    status = Submission("proj").wait(timeout=60)
    assert project.said("wait") == [["wait", "proj", "--json"]]
    assert status and status.finished == 4 and str(status) == "proj: 4 finished, 0 running, 0 waiting"


def test_waiting_has_an_end(project):
    project.answer(ps=row(waiting=4), wait={"sleep": 60, "code": 0})
    with pytest.raises(TimeoutError, match="4 waiting"):
        Submission("proj").wait(timeout=0.5)


def test_a_queue_that_is_gone_ends_waiting(project):
    for code, told in [(3, "shoal wait: nobody there"), (2, "shoal wait: no sweep"), (1, "shoal wait: refused")]:
        project.answer(ps=row(waiting=4), wait={"code": code, "err": told})
        with pytest.raises(QueueError, match=told):
            Submission("proj").wait()


def test_failures_are_named(project):
    run = {"run": {"sweep": "proj", "cell": 1, "rep": 0}, "state": "failed", "ending": {"exited": 3}}
    failed = {**row(finished=3, failed=1), "runs": [run]}
    project.answer(ps=failed, wait={"code": 1})
    with pytest.raises(RunsFailedError, match=r"proj:1\.0 failed: exit code 3"):
        Submission("proj").wait()
    assert not Submission("proj").wait(check=False)
    # Waiting for what will never start is no use.
    project.answer(
        ps={**row(waiting=9, failed=5, stuck="5 runs failed and none succeeded"), "runs": [run]}, wait={"code": 1}
    )
    with pytest.raises(RunsFailedError, match="none succeeded"):
        Submission("proj").wait()


def runs(*told):
    """cell, rep, state, what differs"""
    return [
        {"run": {"sweep": "proj", "cell": c, "rep": r}, "state": s, "differs": [["lr", lr]]} for c, r, s, lr in told
    ]


def test_only_what_is_named_gets_more_reps(project):
    """Before: 0.1 and 0.2, once. Now 0.2 and 0.3, three times."""
    after = runs(
        (0, 0, "finished", 0.1), (0, 1, "waiting", 0.1), (0, 2, "running", 0.1),
        (1, 0, "failed", 0.2), (1, 1, "waiting", 0.2), (1, 2, "waiting", 0.2),
        (2, 0, "waiting", 0.3), (2, 1, "waiting", 0.3), (2, 2, "waiting", 0.3),
    )  # fmt: skip
    before = row(finished=1, failed=1, reps=1)
    project.answer(
        ps=[before, {**before, "runs": after}],
        sweep={**SUBMITTED, "cells": 3, "waiting": 7},
        stop={"runs": 2},
        retry={"runs": 1},
    )
    done = project.client().submit([], [{"lr": 0.2, "b": 1}, {"lr": 0.3, "b": 1}], reps=3)
    assert project.said("stop") == [["stop", "proj:0.1", "proj:0.2", "--json"]]
    assert project.said("retry") == [["retry", "proj:1.0", "--json"]]
    assert done.waiting == 6
    # Short runs that nobody wants would be over before they are stopped: nothing starts until they are.
    order = [asked["argv"][0] for asked in project.asked()]
    assert order == ["ps", "pause", "sweep", "ps", "stop", "retry", "resume"]
    # It is complete when what was named is.
    finished = [{**run, "state": "finished"} for run in after if run["run"]["cell"]]
    stopped = [{**run, "state": "stopped"} for run in after if not run["run"]["cell"]]
    project.answer(ps={**row(finished=7, stopped=2), "runs": finished + stopped}, wait={"code": 1})
    done.wait()
    finished[0]["state"] = "failed"
    project.answer(ps={**row(finished=6, stopped=3), "runs": finished + stopped}, wait={"code": 1})
    with pytest.raises(RunsFailedError, match=r"proj:1\.0 failed"):
        done.wait()


def test_fewer_reps_for_something_new(project):
    before = row(waiting=2, reps=4, cells=1)
    after = runs(*[(0, r, "waiting", 0.1) for r in range(4)], *[(1, r, "waiting", 0.2) for r in range(4)])
    project.answer(ps=[before, {**before, "runs": after}], sweep=SUBMITTED, stop={"runs": 3})
    project.client().submit([], [{"lr": 0.2}], reps=1)
    # What was asked for before stays.
    assert project.said("stop") == [["stop", "proj:1.1", "proj:1.2", "proj:1.3", "--json"]]


def test_what_was_paused_stays_paused_and_what_fails_goes_on(project):
    project.answer(ps={**row(finished=1, reps=2, paused=True), "runs": []}, sweep=SUBMITTED)
    project.client().submit([], [{"lr": 0.1}, {"lr": 0.2}], reps=3)
    assert project.said("pause") == project.said("resume") == []
    project.answer(ps={**row(finished=1, reps=2), "runs": []}, sweep={"err": "no", "code": 1})
    with pytest.raises(QueueError):
        project.client().submit([], [{"lr": 0.1}, {"lr": 0.2}], reps=3)
    assert project.said("resume") == [["resume", "proj", "--json"]]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not tell what a process does")
def test_who_does_something_may_take_as_long_as_it_takes(tmp_path, monkeypatch):
    program = tmp_path / "shoal"
    monkeypatch.setenv("SHOAL_BIN", str(program))
    busy = "for i in 1 2 3 4 5 6; do sleep 0.5; echo x > /dev/null; done; echo done"
    for script, answer in [(busy, "done\n"), ("exec sleep 60", None)]:
        program.write_text(f"#!/bin/sh\ncat > {tmp_path}/given\n{script}\n")
        program.chmod(0o755)
        if answer is None:
            with pytest.raises(QueueError, match="has done nothing and not answered"):
                _program.run(["sweep"], "a" * 200_000, patience=2.0)
        else:
            assert _program.run(["sweep"], "a" * 200_000, patience=2.0) == answer
        assert (tmp_path / "given").stat().st_size == 200_000


def test_the_usual_submit_asks_for_no_list(project):
    before = row(finished=4, reps=2)
    project.answer(ps=before, sweep=SUBMITTED)
    project.client().submit([], [{"lr": 0.1}, {"lr": 0.2}], reps=3)
    assert project.said("ps") == [["ps", "--sweeps", "--all", "--json"]]


def test_an_unknown_sweep(project):
    project.answer(ps={"sweeps": [], "runs": []})
    with pytest.raises(QueueError, match="no sweep proj"):
        Submission("proj").status()


def test_results_are_a_table(project):
    rows = [
        {
            "run": {"sweep": "proj", "cell": 0, "rep": 0},
            "config": [["lr", 0.1]],
            "metrics": [["loss", "0.5"]],
            "seconds": 1.5,
            "host": "a",
            "folder": "/x",
        },
        {
            "run": {"sweep": "proj", "cell": 1, "rep": 0},
            "config": {"lr": 0.2},
            "metrics": {"loss": "nan", "lr": "3"},
            "seconds": 2,
            "host": "b",
            "folder": None,
        },
    ]
    project.answer(results={"rows": rows})
    table = Submission("proj").results()
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(table, pandas.DataFrame)
    assert list(table["lr"]) == [0.1, 0.2] and table["loss"][0] == 0.5 and table["loss"].isna()[1]
    assert table["lr (metric)"][1] == 3 and list(table["run"]) == ["proj:0.0", "proj:1.0"]


def test_results_without_pandas(project, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    project.answer(results={"rows": []})
    assert Submission("proj").results() == []


def test_stop_and_logs(project):
    project.answer(logs={"out": "said\n"}, stop={"out": ""})
    submission = Submission("proj")
    submission.stop()
    assert submission.logs("proj:1.2") == submission.logs((1, 2)) == submission.logs(1) == "said\n"
    assert project.said("stop") == [["stop", "proj"]]
    assert project.said("logs") == [["logs", "proj:1.2"], ["logs", "proj:1.2"], ["logs", "proj:1.0"]]


def test_which_python_runs_there(monkeypatch):
    assert _sweep.python("/opt/py", ["x"]) == ["/opt/py", "x"]
    monkeypatch.setattr(_sweep.sys, "prefix", _sweep.sys.base_prefix)
    assert _sweep.python(None, ["x"]) == ["python3", "x"]
    monkeypatch.setattr(_sweep.sys, "prefix", "/a/venv")
    monkeypatch.setattr(_sweep.sys, "executable", "/a/venv/bin/python")
    assert _sweep.python(None, ["x"])[3:] == ["/a/venv/bin/python", "x"]
