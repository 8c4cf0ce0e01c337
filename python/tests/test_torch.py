"""The PyTorch front end, with real PyTorch in real processes; the checks are in torch_checks/ and torch_models.py."""

import ast
import importlib.util
from pathlib import Path

import pytest
from gang import LONG, Gang

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed: `pip install torch`", allow_module_level=True)

HERE = Path(__file__).resolve().parent
IMPORT = f"sys.path.insert(0, {str(HERE)!r})\n"


def names_of_checks():
    """Read, not imported: that would load PyTorch into this process."""
    trees = [ast.parse(file.read_text()) for file in sorted((HERE / "torch_checks").glob("*.py"))]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    marked = [node for node in functions if node.decorator_list]
    return [node.name for node in marked if getattr(node.decorator_list[0], "id", "") == "check"]


@pytest.fixture(scope="module", params=["network", "memory, staged"])
def results(request, tmp_path_factory):
    """What each worker of two told of each check; over the network, and with every tensor taking a device's way."""
    staged = request.param != "network"
    gang = Gang(tmp_path_factory.mktemp("checks"))
    try:
        script = IMPORT + "import torch_checks; torch_checks.main()"
        workers = gang.start([script] * 2, shared_memory=int(staged), torch_staging=int(staged))
        ends = [worker.end(5 * LONG) for worker in workers]
        told = [{name: text for line in worker.told() for name, text in line.items()} for worker in workers]
        yield ends, told, [worker.err.read_text() for worker in workers]
    finally:
        gang.close()


@pytest.mark.parametrize("name", names_of_checks())
def test_check(results, name):
    _, told, errors = results
    for worker in (0, 1):
        text = told[worker].get(name, f"not reached; worker {worker} said: {errors[worker][-2000:]}")
        assert text == "ok", text


def test_all_ended_well_and_said_what_they_should(results):
    ends, _, errors = results
    assert ends == [0, 0]
    for worker, text in enumerate(errors):
        assert text.count("its gradient is sparse") == 1, "one note, not one a step"
        assert text.count("came after distribute()") == 1, text
        assert text.count("backward ended with an exception") == (2 if worker == 1 else 0), text


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_as_one_process_on_the_joined_batch(gang, workers):
    """50 steps of SGD and Adam for each network, whole and by factors; all replicas equal, bit by bit (GRAD-3)."""
    script = IMPORT + "import torch_models; torch_models.main(50)"
    started = gang.start([script] * workers, shared_memory=workers // 4)
    told = []
    for worker in started:
        assert worker.end(3 * LONG) == 0, worker.err.read_text()
        told.append({name: fields for line in worker.told() for name, fields in line.items()})
    assert len(told[0]) == 4 * 2 * 2
    for name, first in told[0].items():
        assert first["away"] < 1e-4, (name, first)
        assert len({other[name]["digest"] for other in told}) == 1, name
        wanted = {"mlp": 3, "cnn": 2, "transformer": 2, "lstm": 1}[name.split()[0]]
        assert first["factors"] == (wanted if name.endswith("True") and workers > 1 else 0), (name, first)


def test_versions_are_checked(monkeypatch):
    spec = importlib.util.find_spec("shoal")
    file = Path(spec.submodule_search_locations[0]) / "torch" / "_version.py"
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    assert [scope["parse"](text) for text in ("2.15.0+cu132", "2.1", "nightly")] == [(2, 15), (2, 1), None]
    stub = type("stub", (), {"__version__": "1.13.1", "__file__": "/x/torch/__init__.py"})
    monkeypatch.setitem(__import__("sys").modules, "torch", stub)
    with pytest.raises(ImportError, match=r"2\.1 or newer.*1\.13\.1.*--upgrade"):
        scope["check"]()
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        scope["check"]()
