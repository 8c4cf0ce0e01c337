"""The names that projects of LudwigCluster and Ludwig import, from the package's hook, and never in anybody's way."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

from queue_fakes import clean_env

ASK = """
from ludwigcluster.client import Client
from ludwig.results import gen_param_paths
from ludwig.requests import gen_all_param2vals
import shoal, shoal.client, shoal.ludwig
assert Client is shoal.client.Client is shoal.Client
assert gen_param_paths is shoal.ludwig.gen_param_paths
"""


def python(code, *args, cwd=None, **env):
    done = subprocess.run(
        [sys.executable, *args, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd or "/",
        timeout=60,
        env=clean_env(**env),
    )
    return done.returncode, done.stdout + done.stderr


def test_old_names_are_shoals():
    assert python(ASK) == (0, "")


def test_whoever_has_the_real_one_gets_it(tmp_path):
    for name in ("ludwig", "ludwigcluster"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("real = True")
    (tmp_path / "ludwigcluster/client.py").write_text("Client = 'the real one'")
    code = """
import ludwig, ludwigcluster, ludwigcluster.client
assert ludwig.real and ludwigcluster.real and ludwigcluster.client.Client == "the real one"
try:
    import ludwig.api
    raise SystemExit("no such module")
except ModuleNotFoundError:
    pass
# The other package of this name has no results; Ludwig's users find theirs beside it.
from ludwig.results import gen_param_paths
"""
    assert python(code, cwd=tmp_path) == (0, "")


def test_it_can_be_switched_off():
    code, told = python("import ludwig", SHOAL_LUDWIG="off")
    assert code == 1 and "No module named 'ludwig'" in told


def test_it_loads_nothing_by_itself():
    code = "import sys; print([name for name in sys.modules if 'shoal' in name and 'hook' not in name])"
    assert python(code) == (0, "[]\n")


def test_files_for_hosts_need_nothing_of_ours():
    """They run where there is only Python: nothing but the standard library is imported."""
    import ast

    from shoal.ludwig import chunk, job

    for module in (chunk, job):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module]
            assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), names
