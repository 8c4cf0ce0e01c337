"""``shoal ludwig``, also as ``python -m shoal.ludwig``: runs a project with ``params.py`` and ``job.py``."""

from __future__ import annotations

import importlib
import shutil
import socket
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from .. import __version__
from ..client import _program, _share, _sweep, _top_up
from ..client._configs import plain
from ..client._submission import Submission, find_status
from ..errors import QueueError, RunsFailedError
from . import _args, isolated, job, requests

#: How long runs may take to end that were asked to.
ENDING = 600.0


def main(argv: Optional[list[str]] = None) -> int:
    told = _args.read(argv, __version__)
    try:
        return run(told, Path.cwd())
    except RunsFailedError as error:
        return _sorry(error, 1)
    except QueueError as error:
        return _sorry(error, 2 if error.details.get("code") in (1, 2) else 3)
    except (OSError, TypeError, ValueError, ImportError) as error:
        return _sorry(error, 2)
    except KeyboardInterrupt:
        return 130


def _sorry(error: Exception, code: int) -> int:
    print(f"shoal ludwig: {error}", file=sys.stderr)
    return code


def run(told: Namespace, root: Path) -> int:
    project, src = _share.project_name(root.name), told.src or root.name.lower()
    src = Path(src).name
    configs = configurations(load(root, src), told.minimal)
    if told.first_only:
        configs = configs[:1]
    if told.isolated:
        return _isolated(told, root, src, configs)
    share = _share.find(told.share, _share.LUDWIG_DATA)
    return _queued(told, root, src, configs, share, f"{project}-minimal" if told.minimal else project)


def load(root: Path, src: str) -> ModuleType:
    """The project's params.py, imported as part of its package."""
    if not (root / src / "params.py").is_file() or not (root / src / "job.py").is_file():
        raise FileNotFoundError(
            f"{root / src} has no params.py and job.py; run this in the root of a project, whose package has its name in lower case, "
            "or name the package with -src"
        )
    sys.path.insert(0, str(root))
    return importlib.import_module(f"{src}.params")


def configurations(params: ModuleType, minimal: bool) -> list[dict[str, Any]]:
    """What params.py asks for, checked by Ludwig's rules."""
    for name in ("param2requests", "param2default", *(["param2debug"] if minimal else [])):
        if not hasattr(params, name):
            raise ValueError(f"{params.__file__} has no {name}")
    debug = getattr(params, "param2debug", None)
    try:
        requests.check(params.param2requests, params.param2default, debug)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{params.__file__}: {error}") from None
    if minimal:
        return [{**params.param2default, **(debug or {})}]
    return list(requests.gen_all_param2vals(params.param2requests, params.param2default))


def _isolated(told: Namespace, root: Path, src: str, configs: list[dict[str, Any]]) -> int:
    if told.clear_runs and not _clear(root, told.yes):
        return 2
    failed = isolated.run(root, src, configs, told.reps)
    if failed:
        print(f"shoal ludwig: {failed} of {len(configs) * told.reps} runs failed", file=sys.stderr)
    return 1 if failed else 0


def _queued(told: Namespace, root: Path, src: str, configs: list[dict[str, Any]], share: Path, name: str) -> int:
    if told.reps == 0:
        Submission(name).stop()
        print(f"{name}: stopped; nothing more of it starts")
        return 0
    project_path, on_hosts = share / root.name, Path(told.share_on_hosts or share)
    words = ["-u", "_shoal_job.py", "--src", src, "--project-path", str(on_hosts / root.name)]
    on = here() if told.local else [name for name in (told.worker, told.group) if name]
    settings = {"cpus": told.cpus, "gpus": told.gpus, "memory": told.memory, "time_limit": told.time_limit}
    plainly = [{name: plain(name, value) for name, value in config.items()} for config in configs]
    # The debug configuration is run each time it is asked for.
    reps = told.reps + (_top_up.finished(name, plainly[0]) if told.minimal and find_status(name) else 0)
    sweep = _sweep.fields(name, plainly, reps, _sweep.python(told.python, words), on_hosts, on, **settings)
    extra = {"_shoal_job.py": Path(job.__file__).read_text(encoding="utf-8")}
    if told.no_upload:
        _sweep.submit(sweep, [root / src], extra, dry_run=True)
        return 0
    _share.make_project(share, root.name)
    if told.clear_runs:
        if not _clear(share / name, told.yes, name):
            return 2
    _share.refuse_strangers(share / name)
    copied = _share.copy([Path(path) for path in told.extra_paths], project_path)
    if copied:
        print(f"{copied} files copied to {project_path}")
    submission = _sweep.submit(sweep, [root / src], extra)
    assert submission is not None
    print(
        f"{name}: {submission.cells} configurations, {submission.waiting} runs to do, {submission.already_done} done before"
    )
    print(f"`shoal ps {name}` shows how far it is; results come to {share / name / 'runs'}")
    if told.wait or told.local:
        print(submission.wait())
    return 0


def here() -> list[str]:
    """What the queue calls this machine. Nothing if there is no queue yet: the one that a submit starts has no other host."""
    try:
        names = [host["name"] for host in _program.ask(["hosts"])["hosts"]]
    except QueueError as error:
        if error.details.get("code") == 3:
            return []
        raise
    mine = socket.gethostname()
    for name in (mine, mine.split(".")[0], "localhost"):
        if name in names:
            return [name]
    raise QueueError(
        f"this machine, {mine}, is no host of the queue (its hosts: {', '.join(names) or 'none'}); "
        "add it to the fleet file of the queue, or use -i"
    )


def _clear(project: Path, yes: bool, sweep: Optional[str] = None) -> bool:
    """Removes all results of a project, with a question before it."""
    found = sorted(path for path in (project / "runs").glob("*param_*"))
    if not found and sweep is None:
        return True
    if not yes:
        print(
            f"delete {len(found)} configurations with all their runs in {project / 'runs'}? [y/N] ", end="", flush=True
        )
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("nothing was deleted, and nothing submitted")
            return False
    if sweep is not None:
        _forget(sweep)
    for path in found:
        shutil.rmtree(path)
    print(f"{len(found)} configurations deleted")
    return True


def _forget(sweep: str) -> None:
    """What has finished counts no more."""
    if find_status(sweep) is None:
        return
    Submission(sweep).stop()
    if not _program.follow(["wait", sweep], ENDING):
        raise QueueError(f"runs of {sweep} have not ended for {ENDING:.0f} s; see `shoal ps {sweep}`")
    _program.ask(["forget", sweep])


if __name__ == "__main__":
    sys.exit(main())
