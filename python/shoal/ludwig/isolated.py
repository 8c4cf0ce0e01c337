"""``shoal ludwig --isolated``: runs here, one after the other, without a share and without a queue. Results lie in ``runs`` of this folder.

A configuration's number is allotted by making its folder, which only one process can; it has a dot in front until the first of its runs is
complete. So readers see complete results or none, and two of these at once share no number.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

from ..client._configs import plain
from . import _yaml, job
from .results import copies, frozen


def run(root: Path, src: str, param2vals: list[dict[str, Any]], reps: int) -> int:
    """Runs every configuration ``reps`` times; how many runs failed. A failed one does not end the others."""
    runs = root / "runs"
    runs.mkdir(exist_ok=True)
    failed = 0
    for param2val in param2vals:
        config = {name: plain(name, value) for name, value in param2val.items()}
        param_name = allot(runs, config)
        for rep in range(reps):
            failed += not _one(root, src, runs, param_name, config, rep)
    return failed


def _one(root: Path, src: str, runs: Path, param_name: str, config: dict[str, Any], rep: int) -> bool:
    job_name = f"{time.strftime('%Y-%m-%d-%H:%M:%S')}_num{rep}"
    # On the same disk as its place: what becomes visible at the end is a rename.
    folder = Path(tempfile.mkdtemp(prefix=f".{param_name}-", dir=runs))
    try:
        (folder / "params.json").write_text(json.dumps(config), encoding="utf-8")
        env = dict(os.environ, SHOAL_RUN_DIR=str(folder), SHOAL_RESULT=f"{param_name}/{job_name}", SHOAL_REP=str(rep))
        env.update(SHOAL_SEED=str(rep), SHOAL_METRICS=str(folder / "metrics.jsonl"))
        print(f"Ludwig: {param_name}, {job_name}", flush=True)
        argv = [sys.executable, "-u", job.__file__, "--src", src, "--project-path", str(root), "--source", str(root)]
        # The project's own relative paths are seen from its root.
        code = subprocess.run(argv, cwd=root, env=env).returncode
        if code != 0:
            print(
                f"Ludwig: {param_name}, {job_name} failed (code {code}); nothing of it is kept",
                file=sys.stderr,
                flush=True,
            )
            return False
        (folder / "params.json").unlink()
        folder.chmod(0o777 & ~_umask())
        publish(runs, param_name, folder, job_name)
        return True
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _alone(runs: Path) -> Iterator[None]:
    """One process at a time; gone with it, however it ends."""
    with open(runs / ".lock", "w") as lock:
        with contextlib.suppress(OSError):  # a drive without locks: making folders is exclusive all the same
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def allot(runs: Path, config: dict[str, Any]) -> str:
    """The name of a configuration: what it is called already, or the next number."""
    with _alone(runs):
        highest, wanted = 0, frozen(config)
        for path in runs.glob("*param_*"):
            name = path.name.lstrip(".")
            digits = name[len("param_") :]
            if not name.startswith("param_") or not digits.isdecimal():
                continue
            highest = max(highest, int(digits))
            with contextlib.suppress(OSError, ValueError):
                stored = _yaml.read(path / "param2val.yaml")
                if frozen({k: v for k, v in stored.items() if k not in job.ADDED}) == wanted:
                    return name
        for number in range(highest + 1, highest + 1001):
            name = f"param_{number:03}"
            try:
                os.mkdir(runs / f".{name}")
            except FileExistsError:
                continue
            _yaml.write(runs / f".{name}" / "param2val.yaml", config)
            return name
    raise OSError(f"cannot find a free number in {runs}")


def publish(runs: Path, param_name: str, folder: Path, job_name: str) -> Path:
    """Makes a complete run visible: with its configuration's folder, if it is the first of it."""
    with _alone(runs):
        hidden, seen = runs / f".{param_name}", runs / param_name
        parent = seen if seen.exists() else hidden
        stamp, _, number = job_name.rpartition("_num")
        taken = {path.name for path in copies(parent)}
        # Two within a second have the same time; numbers go on.
        while f"{stamp}_num{number}" in taken:
            number = str(int(number) + 1)
        os.rename(folder, parent / f"{stamp}_num{number}")
        if parent is hidden:
            os.rename(hidden, seen)
    return seen / f"{stamp}_num{number}"
