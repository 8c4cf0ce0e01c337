"""Ludwig's second form: rules of params.py, runs without a queue, and reading results back."""

import json
import math
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from queue_fakes import Shoal, clean_env
from shoal.ludwig import __main__ as command
from shoal.ludwig import _yaml, gen_all_param2vals, gen_param_paths, isolated, job, requests

DEFAULT = {"lr": 0.1, "layers": (2, 3), "name": "net", "bias": None}

PARAMS = """
param2requests = {"lr": [0.1, 1e-05], "layers": [(2, 3), (4,)]}
param2default = {"lr": 0.1, "layers": (2, 3), "name": "net", "bias": None}
param2debug = {"lr": 9.0}
"""
JOB = """
import os
import sys
from pathlib import Path
import pandas as pd

def main(param2val):
    assert isinstance(param2val["layers"], tuple), param2val
    assert param2val["bias"] is None
    if param2val["lr"] == 0.5:
        raise RuntimeError("this one fails")
    save_path = Path(param2val["save_path"])
    (save_path / "model.txt").write_text(param2val["job_name"])
    Path(param2val["project_path"]).joinpath("seen.txt").open("a").write(param2val["param_name"] + "\\n")
    s1 = pd.Series([0.5, param2val["lr"]], index=[10, 20])
    s1.name = "precision"
    s2 = pd.Series([1, 2], name="recall")
    return [s1, s2]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in the current folder."""
    root = tmp_path / "MyProject"
    (root / "myproject").mkdir(parents=True)
    (root / "myproject" / "__init__.py").write_text("")
    (root / "myproject" / "params.py").write_text(PARAMS)
    (root / "myproject" / "job.py").write_text(JOB)
    monkeypatch.chdir(root)
    for name in ("SHOAL_SHARE", "LUDWIG_MNT"):
        monkeypatch.delenv(name, raising=False)
    return root


def ludwig(*args, code=0, stdin="", **env):
    done = subprocess.run(
        [sys.executable, "-m", "shoal.ludwig", *args],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=120,
        env=clean_env(**env),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def tree(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# ---- what is asked for


def test_all_combinations_the_first_parameter_fastest():
    found = list(gen_all_param2vals({"a": [1, 2], "c": [5, 6]}, {"a": 0, "b": 3, "c": 4}))
    assert found == [{"a": a, "b": 3, "c": c} for c in (5, 6) for a in (1, 2)]
    assert [list(each) for each in found] == [["a", "b", "c"]] * 4
    assert list(gen_all_param2vals({}, {"a": 0})) == [{"a": 0}]


@pytest.mark.parametrize(
    ("asked", "default", "debug", "error", "words"),
    [
        ({"lr": 0.1}, DEFAULT, None, TypeError, ['param2requests["lr"]', "list", "[0.1]"]),
        ({"lr": (0.1, 0.2)}, DEFAULT, None, TypeError, ['param2requests["lr"]', "list"]),
        ({"lr": []}, DEFAULT, None, ValueError, ['param2requests["lr"]', "empty"]),
        ({"lr": [0.1, 0.2, 0.1]}, DEFAULT, None, ValueError, ['param2requests["lr"]', "0.1 twice"]),
        ({"layers": [[1, 2]]}, DEFAULT, None, TypeError, ['param2requests["layers"][0]', "tuple: (1, 2)"]),
        ({"layers": [(1, [2])]}, DEFAULT, None, TypeError, ['param2requests["layers"][0][1]', "tuple"]),
        ({"lr": [{"a": 1}]}, DEFAULT, None, TypeError, ['param2requests["lr"][0]', "dict"]),
        ({"l": [1]}, DEFAULT, None, ValueError, ['param2requests["l"]', "param2default", '"lr"']),
        ({}, {"a": [1]}, None, TypeError, ['param2default["a"]', "tuple"]),
        ({}, {"a": {}}, None, TypeError, ['param2default["a"]', "dict"]),
        ({}, {"save_path": 1}, None, ValueError, ["save_path", "adds"]),
        ({}, {3: 1}, None, TypeError, ["key 3"]),
        ({"lr": [object()]}, DEFAULT, None, TypeError, ['param2requests["lr"][0]', "YAML"]),
        ({}, DEFAULT, {"lrr": 1}, ValueError, ['param2debug["lrr"]', '"lr"']),
        ([], DEFAULT, None, TypeError, ["param2requests", "list"]),
    ],
)
def test_broken_rules_are_named(asked, default, debug, error, words):
    with pytest.raises(error) as told:
        requests.check(asked, default, debug)
    assert all(word in str(told.value) for word in words), told.value


# ---- YAML

VALUES = {
    "a": 1, "b": -2.5, "c": 1e-05, "d": 1e300, "e": True, "f": None, "g": "text", "h": "yes", "i": "1", "j": "a: b # c", "k": "", "l": "it's \"x\"\n\té",
    "m": [1, [2.5, "x"], []], "n": {"o": {"p": [None, False]}, "q": {}}, "r": "-1", "s": ".5", "t": "null", "u": 0, "v": 100.0, "w": "~", "x": "2020-01-01",
    "y": "{z}", "n_o": "no", "with space": "- x", "z": "!tag",
}  # fmt: skip


def test_what_is_written_is_read_the_same_by_every_reader(tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "param2val.yaml"
    _yaml.write(path, VALUES)
    text = path.read_text()
    assert yaml.safe_load(text) == VALUES == _yaml.parse(text) == _yaml.read(path)
    assert type(_yaml.parse(text)["v"]) is float
    _yaml.write(path, {})
    assert _yaml.read(path) == {} == _yaml.parse(path.read_text())


def test_what_ludwig_wrote_is_read_with_and_without_pyyaml(tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    config = {key: value for key, value in VALUES.items() if key != "l"}
    config.update(
        layers=(2, (3, 4), ("a",)), one=(1,), job_name=None, param_name="param_001", lists=[[1, 2], {"x": 1, "y": [2]}]
    )
    text = yaml.dump(config, default_flow_style=False, allow_unicode=True)
    assert "!!python/tuple" in text
    assert _yaml.parse(text) == config
    path = tmp_path / "param2val.yaml"
    path.write_text(text)
    assert _yaml.read(path) == config


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1",
        "a: *x",
        "a: |\n  text",
        "a: [1, 2",
        "a: {b 1}",
        "a: 'x",
        "a: 1\n   b: 2",
        "\ta: 1",
        "a: !!python/object:os.system x",
        "just: a\nword",
    ],
)
def test_what_cannot_be_read_without_pyyaml_is_told(text):
    with pytest.raises(ValueError):
        _yaml.parse(text)


def test_numbers_without_pyyaml():
    found = _yaml.parse("a: .inf\nb: -.inf\nc: .nan\nd: +3\ne: 1_000\nf: 1e5\ng: 0x1f")
    assert found["a"] == math.inf and found["b"] == -math.inf and math.isnan(found["c"])
    assert (found["d"], found["e"], found["f"]) == (3, 1000, "1e5")


# ---- here, without a queue


def test_isolated_runs_leave_ludwigs_layout(project):
    ludwig("-i", "-r", "2")
    runs = project / "runs"
    names = [f"param_{n:03}" for n in range(1, 5)]
    assert sorted(path.name for path in runs.iterdir() if not path.name.startswith(".")) == names
    for name in names:
        copies = [path for path in (runs / name).iterdir() if path.is_dir()]
        assert len(copies) == 2
        for copy in copies:
            assert tree(copy) == ["metrics.jsonl", "precision.csv", "recall.csv", "saves/model.txt"]
            assert (copy / "saves/model.txt").read_text().rpartition("_num")[0] == copy.name.rpartition("_num")[0]
    assert not [path for path in runs.rglob(".param_*")]
    first = next((runs / "param_001").glob("*num0"))
    series = pandas.read_csv(first / "precision.csv", index_col=0)
    assert list(series.columns) == ["precision"] and list(series.index) == [10, 20]
    assert _yaml.read(runs / "param_002" / "param2val.yaml") == {
        "lr": 1e-05,
        "layers": [2, 3],
        "name": "net",
        "bias": None,
    }
    assert json.loads((first / "metrics.jsonl").read_text())["recall"] == 2
    found = list(
        gen_param_paths(
            "MyProject", {"lr": [0.1, 1e-05], "layers": [(2, 3), (4,)]}, DEFAULT, isolated=True, verbose=False
        )
    )
    assert [(path.name, label) for path, label in found] == [
        ("param_001", "layers=(2, 3)\nlr=0.1\nn=2"),
        ("param_002", "layers=(2, 3)\nlr=1e-05\nn=2"),
        ("param_003", "layers=(4,)\nlr=0.1\nn=2"),
        ("param_004", "layers=(4,)\nlr=1e-05\nn=2"),
    ]


def test_the_same_configuration_keeps_its_number(project):
    ludwig("-i", "-f")
    ludwig("-i", "-m")
    ludwig("-i", "-m")
    assert len(list((project / "runs/param_001").glob("*num*"))) == 1
    assert len(list((project / "runs/param_002").glob("*num*"))) == 2
    assert _yaml.read(project / "runs/param_002/param2val.yaml")["lr"] == 9.0


def test_a_failing_run_leaves_nothing_and_ends_nothing(project):
    (project / "myproject/params.py").write_text(PARAMS.replace("[0.1, 1e-05]", "[0.5, 1e-05]"))
    told = ludwig("-i", code=1)
    assert "this one fails" in told and "2 of 4 runs failed" in told
    assert len(list((project / "runs").glob("param_*/*num*"))) == 2
    assert not list((project / "runs").glob(".param_*-*"))


def test_clearing_asks_first(project):
    ludwig("-i", "-f")
    assert "nothing was deleted" in ludwig("-i", "-f", "-x", stdin="n\n", code=2)
    assert (project / "runs/param_001").exists()
    ludwig("-i", "-f", "-x", stdin="y\n")
    ludwig("-i", "-f", "-x", "--yes")
    assert len(list((project / "runs/param_001").glob("*num*"))) == 1


def test_numbers_are_allotted_without_races(tmp_path):
    configs = [{"x": n % 10} for n in range(60)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda config: isolated.allot(tmp_path, config), configs))
    assert len(set(names)) == 10
    assert {name: n % 10 for n, name in enumerate(names)} == {
        name: n % 10 for n, name in reversed(list(enumerate(names)))
    }
    # Nothing is to be seen before something is complete.
    assert not list(tmp_path.glob("param_*"))


def test_results_of_one_second_do_not_collide(tmp_path):
    name = isolated.allot(tmp_path, {"x": 1})
    for _ in range(3):
        folder = tmp_path / ".scratch"
        folder.mkdir()
        isolated.publish(tmp_path, name, folder, "2020-01-01-00:00:00_num0")
    assert sorted(path.name[-5:] for path in (tmp_path / name).glob("*num*")) == ["_num0", "_num1", "_num2"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("params.py", "param2requests = {}", ["params.py has no param2default"]),
        ("params.py", PARAMS.replace("[0.1, 1e-05]", "0.1"), ['params.py: param2requests["lr"]']),
        ("params.py", "import nothing_like_it", ["nothing_like_it"]),
    ],
)
def test_wrong_projects_are_told(project, file, text, words):
    (project / "myproject" / file).write_text(text)
    told = ludwig("-i", code=2)
    assert all(word in told for word in words), told


def test_wrong_places_and_flags(project):
    assert "-src" in ludwig("-i", "-src", "other", code=2)
    assert "-e copies" in ludwig("-i", "-e", "myproject", code=2)
    assert "not allowed with" in ludwig("-i", "-l", code=2)
    assert "shared drive is not there" in ludwig("-mnt", "/not/there", code=2)
    assert "shoal " in ludwig("-v")


def test_a_job_without_main(project):
    (project / "myproject/job.py").write_text("")
    assert "has no function main" in ludwig("-i", "-f", code=1)


# ---- what job.main returns


def test_what_is_no_series_is_told_and_left_out(tmp_path, capsys):
    given = [
        pandas.Series([1.0, 2.0], name="a"),
        3,
        pandas.Series(["x"], name="b/c"),
        pandas.Series([1], name="a"),
        pandas.Series([5]),
    ]
    assert job.save(tmp_path, given) == {"a": 2.0, "a_3": 1.0, "series_4": 5.0}
    assert tree(tmp_path) == ["a.csv", "a_3.csv", "b_c.csv", "series_4.csv"]
    told = capsys.readouterr().out
    assert "returned a int at place 1" in told and "two series of the name a" in told and "no name" in told
    assert job.save(tmp_path, None) == {} and job.save(tmp_path, []) == {}
    assert job.save(tmp_path, pandas.Series([1, 2], name="alone")) == {"alone": 2.0}


# ---- reading back


def write_runs(runs, configs):
    for number, (config, copies) in enumerate(configs, 1):
        for copy in range(copies):
            (runs / f"param_{number:03}" / f"2020-01-01-00:00:0{copy}_num{copy}").mkdir(parents=True)
        (runs / f"param_{number:03}").mkdir(parents=True, exist_ok=True)
        _yaml.write(runs / f"param_{number:03}" / "param2val.yaml", config)


def test_reading_back(tmp_path, capsys):
    share = tmp_path / "share"
    runs = share / "Proj" / "runs"
    old = {"a": 2, "b": [1, 2], "param_name": "param_002", "job_name": None, "project_path": "/x", "save_path": "y"}
    write_runs(runs, [({"a": 1.0, "b": [1, 2]}, 3), (old, 1), ({"a": 7, "b": [1, 2]}, 1)])
    (runs / "param_004").mkdir()
    (runs / "param_001/.2020-01-01-00:00:09_num9.part").mkdir()
    asked, default = {"a": [1, 2]}, {"a": 0, "b": (1, 2)}
    find = lambda **more: [
        (p.name, label)
        for p, label in gen_param_paths("Proj", more.pop("asked", asked), default, ludwig_data_path=share, **more)
    ]  # noqa: E731
    assert find() == [("param_001", "a=1\nn=3"), ("param_002", "a=2\nn=1")]
    assert "another configuration" in capsys.readouterr().out
    assert find(label_params=["b"], label_n=False) == [("param_001", "a=1\nb=(1, 2)"), ("param_002", "a=2\nb=(1, 2)")]
    capsys.readouterr()
    assert len(find(verbose=False)) == 2 and capsys.readouterr().out == ""
    find(verbose_plus=True)
    assert "a is 7, not 1 or 2" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2 of the 3"):
        find(asked={"a": [1, 2, 3]})
    assert len(find(asked={"a": [1, 2, 3]}, require_all_found=False)) == 2
    with pytest.raises(KeyError):
        find(asked={"z": [1]})
    with pytest.raises(FileNotFoundError, match="no runs"):
        list(gen_param_paths("Other", asked, default, ludwig_data_path=share))
    assert len(list(gen_param_paths("Other", asked, default, runs_path=runs))) == 2


# ---- on the queue


SUBMITTED = {"sweep": "MyProject", "cells": 4, "new_cells": 4, "waiting": 12, "already_done": 0}


@pytest.fixture
def queue(project, tmp_path, monkeypatch):
    shoal = Shoal(tmp_path / "bin")
    shoal.share = tmp_path / "share"
    shoal.share.mkdir()
    shoal.answer(sweep=SUBMITTED)
    shoal.ludwig = lambda *args, **more: ludwig("-mnt", str(shoal.share), *args, SHOAL_BIN=shoal.program, **more)
    return shoal


def test_a_project_goes_to_the_queue(project, queue):
    (project / "lib").mkdir()
    (project / "lib" / "extra.py").write_text("x = 1")
    told = queue.ludwig("-r", "3", "-e", "lib", "-w", "hebb", "-g", "half1", "--gpus", "0.5")
    assert "4 configurations, 12 runs to do" in told
    (sweep,) = queue.sweeps()
    assert sweep["name"] == "MyProject" and sweep["reps"] == 3 and sweep["results"] == str(queue.share)
    assert sweep["resources"] == {"gpus": "0.5", "on": ["hebb", "half1"]}
    assert sweep["configs"][1] == {"lr": 1e-05, "layers": [2, 3], "name": "net", "bias": None}
    assert [tree["at"] for tree in sweep["source"]] == ["myproject", "_shoal_job.py"]
    assert sweep["command"][-4:] == ["--src", "myproject", "--project-path", str(queue.share / "MyProject")]
    assert (queue.share / "MyProject/lib/extra.py").exists()


def test_first_only_and_dry_run(queue):
    queue.answer(sweep={"out": "one configuration\n"})
    assert "one configuration" in queue.ludwig("-f", "-n")
    assert queue.asked()[0]["argv"][-1] == "--dry-run"
    assert len(queue.sweeps()[0]["configs"]) == 1
    assert list(queue.share.iterdir()) == []


def test_reps_of_none_stops_it(queue):
    queue.ludwig("-r", "0")
    assert queue.asked()[0]["argv"] == ["stop", "MyProject"]


def test_the_debug_configuration_runs_each_time(queue):
    done = {
        "name": "MyProject-minimal",
        "cells": 1,
        "reps": 2,
        "waiting": 0,
        "running": 0,
        "finished": 2,
        "failed": 0,
        "stopped": 0,
    }
    runs = [
        {"run": {"sweep": "MyProject-minimal", "cell": 0, "rep": rep}, "state": "finished", "differs": []}
        for rep in range(2)
    ]
    queue.answer(ps={"sweeps": [done], "runs": runs}, sweep=SUBMITTED)
    queue.ludwig("-m")
    (sweep,) = queue.sweeps()
    assert sweep["name"] == "MyProject-minimal" and sweep["reps"] == 3
    assert sweep["configs"] == [{"lr": 9.0, "layers": [2, 3], "name": "net", "bias": None}]


def test_local_means_this_host_and_waiting(queue):
    import socket

    done = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 4,
        "failed": 0,
        "stopped": 0,
    }
    queue.answer(
        hosts={"hosts": [{"name": "x"}, {"name": socket.gethostname()}]},
        ps={"sweeps": [done], "runs": []},
        sweep=SUBMITTED,
        wait={"code": 0},
    )
    assert "4 finished" in queue.ludwig("-l")
    assert queue.sweeps()[0]["resources"]["on"] == [socket.gethostname()]
    queue.answer(hosts={"hosts": [{"name": "x"}]})
    assert "is no host of the queue" in queue.ludwig("-l", code=3)


def test_local_where_no_queue_is_yet(queue):
    done = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 4,
        "failed": 0,
        "stopped": 0,
    }
    queue.answer(
        hosts={"code": 3, "err": "no queue"},
        ps=[NOBODY, {"sweeps": [done], "runs": []}],
        sweep=SUBMITTED,
        wait={"code": 0},
    )
    queue.ludwig("-l")
    assert "resources" not in queue.sweeps()[0]


NOBODY = {"sweeps": [], "runs": []}


def test_clearing_forgets_what_was_done(queue):
    run = queue.share / "MyProject/runs/param_000/2020-01-01-00:00:00_num0"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    known = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 1,
        "failed": 0,
        "stopped": 0,
    }
    answers = dict(sweep=SUBMITTED, stop={"out": ""}, wait={"code": 1}, forget={"forgotten": ["MyProject"]})
    queue.answer(ps=[{"sweeps": [known], "runs": []}, NOBODY], **answers)
    assert "nothing was deleted" in queue.ludwig("-x", stdin="\n", code=2)
    assert run.exists() and not queue.said("forget")
    queue.ludwig("-x", stdin="yes\n")
    assert queue.said("forget") == [["forget", "MyProject", "--json"]] and queue.said("stop") == [["stop", "MyProject"]]
    assert not run.exists() and len(queue.sweeps()) == 1


def test_errors_of_the_queue_have_codes(queue):
    queue.answer(sweep={"code": 3, "err": "no daemon"})
    assert "no daemon" in queue.ludwig(code=3)
    queue.answer(sweep={"code": 2, "err": "wrong"})
    assert "wrong" in queue.ludwig(code=2)
    failed = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 3,
        "failed": 1,
        "stopped": 0,
    }
    runs = [
        {
            "run": {"sweep": "MyProject", "cell": 3, "rep": 0},
            "state": "failed",
            "differs": [["layers", [4]], ["lr", 1e-05]],
        }
    ]
    queue.answer(sweep=SUBMITTED, ps={"sweeps": [failed], "runs": runs}, retry={"runs": 1}, wait={"code": 1})
    assert "1 failed" in queue.ludwig("--wait", code=1)
