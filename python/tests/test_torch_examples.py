"""The PyTorch examples in a quick form, as the launcher would start them."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed: `pip install torch`", allow_module_level=True)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(gang, workers, example, *arguments, **settings):
    script = f"""
    import runpy, torch
    torch.set_num_threads(1)
    sys.argv = {["train.py", *map(str, arguments)]!r}
    runpy.run_path({str(EXAMPLES / example / "train.py")!r}, run_name="__main__")
    """
    started = gang.start([script] * workers, **settings)
    for worker in started:
        assert worker.end() == 0, worker.err.read_text()
    return [json.loads(worker.out.read_text().splitlines()[-1]) for worker in started]


def test_images(gang):
    told = run(gang, 2, "torch-images", "--images", 1280, "--epochs", 4)
    assert told[0]["accuracy"] == told[1]["accuracy"] > 0.5, told
    assert told[0]["total"] == told[1]["total"]


def test_mlp_where_factors_win(gang):
    """Fewer than a third of the bytes although the first step goes whole, and the same parameters."""
    options = ["--width", 512, "--batch", 8, "--steps", 12, "--use-sfb", "true"]
    for one in run(gang, 2, "torch-mlp", *options, shared_memory=0):
        assert one["factors"]["bytes_a_step"] < one["whole"]["bytes_a_step"] / 3, one
        assert one["difference"] < 1e-5 and one["whole"]["loss"][1] < one["whole"]["loss"][0], one
