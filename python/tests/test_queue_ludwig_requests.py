"""Ludwig's second form: which configurations params.py asks for, and how their results are found again."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("pandas", reason="pandas is not installed")

from ludwig_project import DEFAULT
from shoal.ludwig import _yaml, gen_all_param2vals, gen_param_paths, requests


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
