"""Ludwig's second form without share and queue: runs here, their layout, their numbers, and what job.main returns."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from ludwig_project import DEFAULT, PARAMS, ludwig, project, tree  # noqa: F401
from shoal.ludwig import _yaml, gen_param_paths, isolated, job


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
