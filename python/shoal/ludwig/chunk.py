"""The worker's side of LudwigCluster's first form: hands a run's one configuration to the project's own run.py.

run.py opens ``<share>/<project>/<hostname>_param2val_chunk.pkl``, which holds a list of configurations; here, a list of one. That name
is the same for all runs of a project on a host, and so, as a rule, is the folder that run.py keeps intermediate data in. So only one
of them runs at a time on a host: a lock, which run.py inherits and which is gone with it, however it ends.

This file goes along with the source and runs on its own, on hosts that have nothing but Python: it imports nothing of ours.
"""

from __future__ import annotations

import argparse
import ast
import errno
import fcntl
import hashlib
import json
import os
import pickle
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn, Optional

#: Beside this file: what JSON does not keep of values (see ``shoal.client._configs.lost_types``).
TYPES = "_shoal_types.json"
#: A run that waits says so by this code when its patience ends; trying again later is right.
TRY_LATER = 75


def main(argv: Optional[list[str]] = None) -> NoReturn:
    options = argparse.ArgumentParser(prog="_shoal_chunk.py", description=__doc__.split("\n", 1)[0])
    options.add_argument("--project-path", type=Path, required=True, help="the project's folder on the share")
    options.add_argument("--run", default="run.py", help="the project's own script")
    options.add_argument(
        "--path", action="append", default=[], help="folders of the source that modules are imported from"
    )
    options.add_argument("--worker", action="append", default=[], help="a further name of this host, in run.py")
    options.add_argument("--patience", type=float, default=7 * 86400, help="seconds to wait for the run before")
    told = options.parse_args(argv)

    folder = Path(os.environ.get("SHOAL_RUN_DIR") or ".")
    if not told.project_path.is_dir():
        sys.exit(
            f"the project's folder {told.project_path} is not on this host ({socket.gethostname()}); "
            "is the shared drive mounted here, and at the same place?"
        )
    take_turns(told.project_path, told.patience)
    write(told.project_path, told.worker, [configuration(folder)])
    source = Path(__file__).resolve().parent
    paths = [str(source / path) for path in told.path] + [p for p in [os.environ.get("PYTHONPATH")] if p]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    # For a run.py that need not name the drive itself.
    os.environ["SHOAL_SHARE"] = str(told.project_path.parent)
    sys.stdout.flush()
    # In place of this process: signals, exit code and the lock are run.py's own from here.
    os.execv(sys.executable, [sys.executable, "-u", told.run])


def configuration(folder: Path) -> dict[str, Any]:
    """What the queue wrote for this run, with the types that the submitter's values had."""
    config = json.loads((folder / "params.json").read_text(encoding="utf-8"))
    beside = Path(__file__).resolve().with_name(TYPES)
    types = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
    for name, value in config.items():
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        if text in types.get(name, {}):
            config[name] = ast.literal_eval(types[name][text])
    return config


def names(more: list[str]) -> list[str]:
    """What run.py may call this host."""
    host = socket.gethostname()
    return list(dict.fromkeys([host, host.split(".")[0], *more]))


def write(project: Path, more: list[str], chunk: list[dict[str, Any]]) -> None:
    """The pickle, whole or not at all, under every name of this host."""
    for name in names(more):
        part = project / f".{name}_{os.getpid()}.part"
        with open(part, "wb") as file:
            pickle.dump(chunk, file)
        os.replace(part, project / f"{name}_param2val_chunk.pkl")


def take_turns(project: Path, patience: float) -> int:
    """Waits until no other run of the project lives on this host. The lock's descriptor, for this process and what it becomes."""
    who = f"{socket.gethostname()}\0{os.path.realpath(project)}"
    lock = f"/tmp/shoal-ludwig-{hashlib.sha256(who.encode()).hexdigest()[:16]}.lock"
    descriptor = _open(lock)
    end, told, pause = time.monotonic() + patience, False, 0.05
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() >= end:
            print(f"{_holder(descriptor)} has not ended for {patience:.0f} s; giving up", flush=True)
            sys.exit(TRY_LATER)
        if not told:
            told = True
            print(
                f"waiting for {_holder(descriptor)}: run.py of this project reads one file per host, so its runs take turns here",
                flush=True,
            )
        time.sleep(pause)
        pause = min(2.0, pause * 2)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.environ.get('SHOAL_RUN', '?')} {os.getpid()}\n".encode(), 0)
    os.set_inheritable(descriptor, True)
    return descriptor


def _open(lock: str) -> int:
    """For every user of the host. Opened before it is made: kernels forbid to make a file of somebody else's in /tmp."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(10):
        try:
            return os.open(lock, flags)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor
        except FileExistsError:
            continue
    raise OSError(f"cannot open the lock {lock}: it comes and goes")


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 200, 0).decode(errors="replace").split()
    return f"the run {text[0]} (process {text[1]})" if len(text) == 2 else "another run"


if __name__ == "__main__":
    main()
