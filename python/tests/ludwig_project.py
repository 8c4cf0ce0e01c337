"""A project of Ludwig's second form, for tests of what is done with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from queue_fakes import clean_env

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
