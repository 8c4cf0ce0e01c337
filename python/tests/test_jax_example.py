"""examples/jax: the workers learn what one process with their batches learns, and send little."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jax_gang import run

for package in ("jax", "optax", "sklearn"):
    pytest.importorskip(package)
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "jax" / "train.py"


def test_two_workers_train_as_one_process(gang, tmp_path):
    alone = [sys.executable, str(EXAMPLE), "--single", "2", "--steps", "60", "--out", str(tmp_path / "alone.npz")]
    done = subprocess.run(alone, capture_output=True, text=True, check=True, timeout=120)
    reference = json.loads(done.stdout.splitlines()[-1])
    script = f"""
    import runpy
    sys.argv = ["train.py", "--steps", "60", "--use_sfb", "true", "--out", f"worker{{os.environ['SHOAL_CLIENT_ID']}}.npz"]
    runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
    """
    first, second = run(gang, 2, script, shared_memory=0)
    assert first["digest"] == second["digest"]
    assert first["accuracy"] > 0.85 and abs(first["accuracy"] - reference["accuracy"]) < 0.02
    # Longer runs part where a hidden unit's sum is 0 up to rounding.
    ours, theirs = np.load(tmp_path / "worker0.npz"), np.load(tmp_path / "alone.npz")
    assert max(np.abs(ours[name] - theirs[name]).max() for name in theirs.files) < 1e-4
    # 512 x 256 weights of 4 bytes would be 0.5 MB a step; their factors are 17 x 768 x 4 bytes.
    assert first["bytes_sent"] < 60 * 0.25e6, first
