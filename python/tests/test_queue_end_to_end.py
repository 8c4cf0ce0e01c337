"""Old projects on the real queue: a daemon, an agent and a keeper of this machine, in a store of the test's own."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from gang import program
from shoal import Client, RunsFailedError
from shoal.client import Submission
from shoal.ludwig import gen_param_paths

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "ludwig"
LONG = 120

# Notes every start and end in the share's ledger, and saves data as LudwigCluster's document advises.
RUN = """
import os, pickle, shutil, socket, time
from pathlib import Path
from your_module import neural_net_job

share = Path(os.environ['SHOAL_SHARE'])
project = share / 'proj'
with (project / '{}_param2val_chunk.pkl'.format(socket.gethostname())).open('rb') as f:
    param2val_chunk = pickle.load(f)
assert len(param2val_chunk) == 1
for param2val in param2val_chunk:
    with open(share / 'ledger', 'a') as f:
        f.write('%s %r %r\\n' % (os.environ['SHOAL_RUN'], param2val['lr'], param2val['layers']))
    assert (project / 'corpora' / 'words.txt').read_text() == 'a b c'
    neural_net_job(param2val)
    Path('weights.txt').write_text('w')
"""
MODULE = """
import json, time
from pathlib import Path
def neural_net_job(param2val):
    while Path(param2val['stay']).exists():
        time.sleep(0.02)
    if param2val['lr'] == 0.5:
        raise SystemExit('lr is too large')
    for step in range(3):
        print(json.dumps({'step': step, 'loss': param2val['lr'] / (step + 1)}), flush=True)
"""


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """An empty queue, and a share; neither outlives the test."""
    shoal = program("shoal")
    for name in [name for name in os.environ if name.startswith(("SHOAL_", "LUDWIG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHOAL_BIN", shoal)
    monkeypatch.setenv("SHOAL_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("SHOAL_HOST_DIR", str(tmp_path / "host"))
    share = tmp_path / "share"
    share.mkdir()
    monkeypatch.setenv("SHOAL_SHARE", str(share))
    yield share
    subprocess.run([shoal, "serve", "--stop", "--stop-runs"], timeout=LONG, capture_output=True)


@pytest.fixture
def project(queue, tmp_path, monkeypatch):
    """A project of the first form, in the current folder."""
    root = tmp_path / "home"
    (root / "src").mkdir(parents=True)
    (root / "src" / "your_module.py").write_text(MODULE)
    (root / "corpora").mkdir()
    (root / "corpora" / "words.txt").write_text("a b c")
    (root / "run.py").write_text(RUN)
    monkeypatch.chdir(root)
    return queue


def submit(lrs, stay="/nowhere", **more):
    configs = [{"lr": lr, "layers": (2, 3), "stay": str(stay)} for lr in lrs]
    return Client("proj").submit(src_ps=[Path("src")], data_ps=[Path("corpora")], param2val_list=configs, **more)


def ledger(share):
    """How often which learning rate has run."""
    path = share / "ledger"
    return Counter(float(line.split()[1]) for line in path.read_text().splitlines()) if path.exists() else Counter()


def until(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def test_a_project_of_the_first_form(project):
    first = submit([0.1, 0.2], reps=2)
    assert (first.cells, first.waiting) == (2, 4)
    assert first.wait(LONG).finished == 4
    assert ledger(project) == {0.1: 2, 0.2: 2}
    assert all(line.endswith("(2, 3)") for line in (project / "ledger").read_text().splitlines())
    table = first.results()
    assert sorted(table["lr"]) == [0.1, 0.1, 0.2, 0.2]
    assert sorted(round(loss, 6) for loss in table["loss"]) == sorted(round(lr / 3, 6) for lr in table["lr"])
    # What a run leaves in its folder is published, in Ludwig's layout; nothing of ours is among it.
    runs = sorted((project / "proj" / "runs").glob("param_*/*num*"))
    assert len(runs) == 4 and all((run / "weights.txt").read_text() == "w" for run in runs)
    assert {path.name for run in runs for path in run.iterdir()} <= {"weights.txt", "run.json"}
    assert "loss" in first.logs((0, 0))

    # The same again: nothing runs. One more rep and one more configuration: exactly those run.
    assert submit([0.1, 0.2], reps=2).wait(LONG)
    assert ledger(project) == {0.1: 2, 0.2: 2}
    submit([0.2, 0.3], reps=3).wait(LONG)
    assert ledger(project) == {0.1: 2, 0.2: 3, 0.3: 3}


def test_a_failure_is_named_and_runs_again_when_it_is_mended(project):
    submission = submit([0.1, 0.5])
    with pytest.raises(RunsFailedError, match=r"proj:1\.0 failed: exit code 1"):
        submission.wait(LONG)
    assert "lr is too large" in submission.logs("proj:1.0")
    assert list(submission.results()["lr"]) == [0.1]
    Path("src/your_module.py").write_text(MODULE.replace("0.5", "0.7"))
    assert submit([0.1, 0.5]).wait(LONG)
    assert ledger(project) == {0.1: 1, 0.5: 2}


def test_stopping_ends_what_runs(project, tmp_path):
    stay = tmp_path / "stay"
    stay.write_text("")
    submission = submit([0.1, 0.2, 0.3], stay=stay)
    until(lambda: ledger(project))
    submission.stop()
    status = submission.wait(LONG, check=False)
    assert status.stopped == 3 and status.running == 0
    with pytest.raises(RunsFailedError, match="stopped"):
        submission.wait(LONG)
    assert not (project / "proj" / "runs").exists()
    stay.unlink()
    assert submit([0.1, 0.2, 0.3], stay=stay).wait(LONG)
    assert set(ledger(project)) == {0.1, 0.2, 0.3}


def test_a_test_submits_nothing(project, capfd):
    assert submit([0.1, 0.2], test=True) is None
    assert "0.2" in capfd.readouterr().out
    assert not ledger(project)


def test_the_example_of_the_first_form(queue, tmp_path):
    root = tmp_path / "client"
    shutil.copytree(EXAMPLES / "client", root)
    told = subprocess.run([sys.executable, "submit.py"], cwd=root, capture_output=True, text=True, timeout=LONG)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("letters-client:") == 8 and "bits" in told.stdout
    assert len(list((queue / "letters-client").glob("data_*.csv"))) == 8


# ---- the second form

REQUESTS = {"order": [1, 2], "smoothing": [0.1, 1.0]}


@pytest.fixture
def letters(queue, tmp_path, monkeypatch):
    root = tmp_path / "Letters"
    shutil.copytree(EXAMPLES / "Letters", root)
    monkeypatch.chdir(root)
    sys.path.insert(0, str(root))
    from letters.params import param2default

    yield lambda: sorted(label for _, label in gen_param_paths("Letters", REQUESTS, param2default, verbose=False))
    sys.path.remove(str(root))


def ludwig(*args, code=0):
    done = subprocess.run(
        [os.environ["SHOAL_BIN"], "ludwig", *args], capture_output=True, text=True, timeout=LONG, env=with_python()
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def with_python():
    """`shoal ludwig` takes the python of the virtualenv that is active."""
    return {**os.environ, "VIRTUAL_ENV": sys.prefix}


def labels(n):
    return sorted(f"order={order}\nsmoothing={smoothing}\nn={n}" for order in (1, 2) for smoothing in (0.1, 1.0))


def test_a_project_of_the_second_form(queue, letters):
    assert "4 configurations" in ludwig("-n").replace("4 cells", "4 configurations")
    assert not (queue / "Letters").exists()
    ludwig("-r", "2", "--wait")
    assert letters() == labels(2)
    for run in (queue / "Letters" / "runs").glob("param_*/*num*"):
        files = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
        assert {"bits.csv", "contexts.csv", "saves/contexts.txt"} <= files, files
        assert list(pandas.read_csv(run / "bits.csv", index_col=0).columns) == ["bits"]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    param2val = yaml.safe_load((queue / "Letters/runs/param_000/param2val.yaml").read_text())
    assert param2val["smoothing"] == 0.1 and param2val["epochs"] == 4

    # Nothing is missing; then one copy of each is.
    ludwig("-r", "2", "--wait")
    assert letters() == labels(2)
    ludwig("-r", "3", "--wait")
    assert letters() == labels(3)
    told = subprocess.run([sys.executable, "show.py"], capture_output=True, text=True, timeout=LONG)
    assert told.stdout.count("bits a letter") == 4, told.stderr
    table = Submission("Letters").results()
    assert len(table) == 12 and {"bits", "contexts"} <= set(table.columns)


def test_names_are_those_of_the_folders(queue, letters):
    job = Path("letters/job.py")
    job.write_text(job.read_text() + NAMES)
    ludwig("-f", "--wait")
    (run,) = (queue / "Letters" / "runs").glob("param_*/*num*")
    told = json.loads((run / "saves" / "names.json").read_text())
    assert (told["param_name"], told["job_name"]) == (run.parent.name, run.name)
    assert told["project_path"] == str(queue / "Letters")


NAMES = """

plain = main


def main(param2val):
    import json

    names = {name: param2val[name] for name in ("param_name", "job_name", "project_path")}
    (Path(param2val["save_path"]) / "names.json").write_text(json.dumps(names))
    return plain(param2val)
"""


def test_here_on_the_share_and_all_alone(queue, letters):
    assert "4 finished" in ludwig("-l")
    assert letters() == labels(1)
    ludwig("-i", "-m")
    assert len(list(Path("runs/param_001").glob("*num*"))) == 1
    # The debug configuration runs each time.
    for count in (1, 2):
        ludwig("-m", "--wait")
        assert len(list((queue / "Letters-minimal" / "runs").glob("param_*/*num*"))) == count


def test_packages_on_the_share_are_importable(queue, letters, tmp_path):
    extra = tmp_path / "third_party"
    extra.mkdir()
    (extra / "__init__.py").write_text("answer = 42")
    job = Path("letters/job.py")
    job.write_text("import third_party\nassert third_party.answer == 42\n" + job.read_text())
    ludwig("-f", "-e", str(extra), "--wait")
    assert len(list((queue / "Letters" / "runs").glob("param_*/*num*"))) == 1


def test_clearing_starts_anew(queue, letters):
    ludwig("--wait")
    before = {run.name for run in (queue / "Letters" / "runs").glob("param_*/*num*")}
    ludwig("-x", "--yes", "--wait")
    assert letters() == labels(1)
    after = {run.name for run in (queue / "Letters" / "runs").glob("param_*/*num*")}
    assert len(after) >= 1 and before.isdisjoint(after) or before != after


def test_a_job_that_raises(queue, letters):
    job = Path("letters/job.py")
    job.write_text(
        job.read_text().replace(
            "    order, smoothing =", '    assert param2val["order"] == 1, "only one"\n    order, smoothing ='
        )
    )
    told = ludwig("--wait", code=1)
    assert "2 failed" in told and "exit code 1" in told
    assert len(list((queue / "Letters" / "runs").glob("param_*/*num*"))) == 2
    # The first parameter turns fastest: the second configuration has the second order.
    assert "only one" in Submission("Letters").logs(1)
