"""Old projects: run.py opens a pickle whose name is the same for all runs of a project on a host. Each run gets its own all the same."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

from queue_fakes import clean_env
from shoal.client import _configs
from shoal.ludwig import chunk

# As in LudwigCluster's document. What it loads, it notes; it stays as long as a file is there.
RUN = """
import pickle, socket, sys, time
from pathlib import Path
import helper
p = Path(PROJECT) / '{}_param2val_chunk.pkl'.format(socket.gethostname())
with p.open('rb') as f:
    param2val_chunk = pickle.load(f)
for param2val in param2val_chunk:
    with open(PROJECT + '/ledger', 'a') as f:
        f.write('begin %s\\n' % param2val['x'])
    print(repr(param2val), flush=True)
    while Path(PROJECT + '/stay').exists():
        time.sleep(0.01)
    with open(PROJECT + '/ledger', 'a') as f:
        f.write('end %s\\n' % param2val['x'])
sys.exit(param2val.get('code', 0))
"""


class Ground:
    """A share, a source tree as a host has it, and runs whose folders link to it."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        self.project = folder / "share" / "proj"
        self.tree = folder / "tree"
        (self.tree / "src").mkdir(parents=True)
        self.project.mkdir(parents=True)
        (self.tree / "run.py").write_text(RUN.replace("PROJECT", repr(str(self.project))))
        (self.tree / "src" / "helper.py").write_text("")
        (self.tree / "_shoal_chunk.py").write_text(Path(chunk.__file__).read_text())

    def start(self, config, *more):
        run_dir = self.folder / f"run{len(self.started)}"
        run_dir.mkdir()
        for entry in self.tree.iterdir():
            (run_dir / entry.name).symlink_to(entry)
        (run_dir / "params.json").write_text(json.dumps(config))
        env = clean_env(SHOAL_RUN_DIR=run_dir, SHOAL_RUN=f"proj:{len(self.started)}.0")
        argv = [
            sys.executable,
            "-u",
            "_shoal_chunk.py",
            "--project-path",
            str(self.project),
            "--run",
            "run.py",
            "--path",
            "src",
            *more,
        ]
        out = open(run_dir / "out", "wb")
        child = subprocess.Popen(argv, cwd=run_dir, env=env, stdout=out, stderr=out, start_new_session=True)
        child.out = run_dir / "out"
        self.started.append(child)
        return child

    def ledger(self):
        path = self.project / "ledger"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def close(self):
        for child in self.started:
            child.kill()
            child.wait()


@pytest.fixture
def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    ground.close()


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def test_run_py_finds_a_chunk_of_its_one_configuration(ground):
    given = {"x": 1, "layers": (2, (3,)), "names": ["a"], "none": None, "f": 0.1}
    (ground.tree / chunk.TYPES).write_text(json.dumps(_configs.lost_types([given])))
    child = ground.start(_configs.checked([given])[0], "--worker", "hebb")
    assert child.wait(30) == 0, child.out.read_text()
    assert child.out.read_text().strip() == repr(given)
    # Under every name that run.py may have for this host.
    for name in (socket.gethostname(), "hebb"):
        assert pickle.loads((ground.project / f"{name}_param2val_chunk.pkl").read_bytes()) == [given]


def test_the_exit_code_is_that_of_run_py(ground):
    assert ground.start({"x": 1, "code": 7}).wait(30) == 7


def test_runs_of_one_host_take_turns(ground):
    children = [ground.start({"x": n}) for n in range(6)]
    assert [child.wait(60) for child in children] == [0] * 6
    told = ground.ledger()
    assert sorted(told[0::2]) == [f"begin {n}" for n in range(6)]
    assert told[1::2] == [line.replace("begin", "end") for line in told[0::2]]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_whoever_is_killed_lets_the_next_one_in(ground, how):
    stay = ground.project / "stay"
    stay.write_text("")
    first = ground.start({"x": 1})
    until(lambda: ground.ledger() == ["begin 1"])
    second = ground.start({"x": 2})
    until(lambda: "waiting for the run proj:0.0" in second.out.read_text())
    os.killpg(first.pid, how)
    first.wait(30)
    until(lambda: ground.ledger() == ["begin 1", "begin 2"])
    stay.unlink()
    assert second.wait(30) == 0
    assert ground.ledger() == ["begin 1", "begin 2", "end 2"]


def test_who_waits_can_be_killed_too(ground):
    stay = ground.project / "stay"
    stay.write_text("")
    first = ground.start({"x": 1})
    until(lambda: ground.ledger() == ["begin 1"])
    second = ground.start({"x": 2})
    until(lambda: "waiting for" in second.out.read_text())
    os.killpg(second.pid, signal.SIGTERM)
    assert second.wait(30) == -signal.SIGTERM
    stay.unlink()
    assert first.wait(30) == 0 and ground.ledger() == ["begin 1", "end 1"]


def test_patience_has_an_end(ground):
    (ground.project / "stay").write_text("")
    first = ground.start({"x": 1})
    until(lambda: ground.ledger() == ["begin 1"])
    second = ground.start({"x": 2}, "--patience", "0.2")
    assert second.wait(30) == chunk.TRY_LATER
    assert "proj:0.0" in second.out.read_text() and "giving up" in second.out.read_text()
    assert first.poll() is None


def test_two_projects_do_not_wait_for_each_other(ground, tmp_path):
    (ground.project / "stay").write_text("")
    ground.start({"x": 1})
    until(lambda: ground.ledger() == ["begin 1"])
    other = Ground(tmp_path / "other")
    try:
        assert other.start({"x": 2}).wait(30) == 0
    finally:
        other.close()


def test_a_host_without_the_share_says_so(ground):
    ground.project = ground.folder / "not" / "mounted"
    child = ground.start({"x": 1})
    assert child.wait(30) == 1
    assert "is the shared drive mounted" in child.out.read_text()
