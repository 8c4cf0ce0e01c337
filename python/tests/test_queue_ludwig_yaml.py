"""param2val.yaml: what is written is read the same by every reader, with PyYAML and without."""

import math
import os

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("pandas", reason="pandas is not installed")

from shoal.ludwig import _yaml

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
