"""One sweep, as `shoal sweep --from-json` reads it: the fields of a sweep's file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional, Sequence

from . import _program, _top_up
from ._submission import Submission, find_status

#: What `submit` takes beside Ludwig's own arguments, and where in the file it belongs.
RESOURCES = ("cpus", "gpus", "memory", "gpu_memory")
RULES = ("seed", "retries", "priority", "time_limit", "grace", "stop_after_failures", "after")
ENVIRONMENT = ("setup", "virtualenv", "conda", "modules", "requirements")


def fields(
    name: str,
    configs: list[dict[str, Any]],
    reps: int,
    command: Sequence[str],
    results: Path,
    on: Sequence[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """The file but for its source."""
    unknown = [key for key in more if key not in (*RESOURCES, *RULES, *ENVIRONMENT, "env")]
    if unknown:
        known = ", ".join((*RESOURCES, *RULES, *ENVIRONMENT, "env"))
        raise TypeError(f"{unknown[0]!r} is no setting of a sweep; there are {known}")
    if isinstance(reps, bool) or not isinstance(reps, int) or reps < 1:
        raise ValueError(f"reps is the number of copies of each configuration, from 1; it is {reps!r}")
    given = {key: value for key, value in more.items() if value is not None}
    sweep: dict[str, Any] = {
        "name": name,
        "reps": reps,
        # Braces stand for parameters there.
        "command": [word.replace("{", "{{").replace("}", "}}") for word in command],
        "pass": ["file"],
        "configs": configs,
        "results": str(results),
        **{key: given[key] for key in (*RULES, "env") if key in given},
    }
    resources = {key: given[key] for key in RESOURCES if key in given}
    if on:
        resources["on"] = list(on)
    environment = {key: given[key] for key in ENVIRONMENT if key in given}
    if "requirements" in environment:
        environment["requirements"] = os.path.abspath(environment["requirements"])
    sweep.update({key: value for key, value in [("resources", resources), ("environment", environment)] if value})
    return sweep


def python(said: Optional[str], words: Sequence[str]) -> list[str]:
    """A command for Python: what is said, else the virtualenv that submits, where a host has it, else the host's python3."""
    if said:
        return [said, *words]
    if sys.prefix == sys.base_prefix:
        return ["python3", *words]
    choose = 'p=python3; if [ -x "$0" ]; then p=$0; fi; exec "$p" "$@"'
    return ["sh", "-c", choose, sys.executable, *words]


def submit(
    sweep: dict[str, Any], sources: Sequence[Path], extra: dict[str, str], dry_run: bool = False
) -> Optional[Submission]:
    """Hands it to the queue, with its source: each path under its own name, and ``extra`` as files beside them.

    A dry run prints what would be submitted.
    """
    taken: dict[str, Path] = {}
    for path in sources:
        if not path.exists():
            raise FileNotFoundError(f"there is no source {path} (seen from {Path.cwd()})")
        name = path.resolve().name
        if name in taken or name in extra:
            raise ValueError(
                f"{taken.get(name, 'a file of ours')} and {path} would both be {name} in a run's folder; rename one"
            )
        taken[name] = path
    with tempfile.TemporaryDirectory(prefix="shoal-submit-") as folder:
        for name, content in extra.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        # At their resolved places: what is a link here leads nowhere there.
        trees = [{"path": str(path.resolve()), "at": name} for name, path in taken.items()]
        trees += [{"path": str(Path(folder) / name), "at": name} for name in extra]
        text = json.dumps({**sweep, "source": trees}, allow_nan=False)
        args = ["sweep", "--from-json", "-"]
        if dry_run:
            print(_program.run([*args, "--dry-run"], text), end="", flush=True)
            return None
        before = find_status(sweep["name"])
        configs, reps = sweep["configs"], sweep["reps"]
        with _top_up.held(sweep["name"], before, reps):
            answer = _program.ask(args, text)
            submission = Submission(answer["sweep"], configs, reps)
            for field in ("cells", "new_cells", "waiting", "already_done"):
                setattr(submission, field, answer[field])
            if _top_up.is_needed(answer, before, len(configs), reps):
                stopped, again = _top_up.settle(submission.name, configs, reps, before)
                submission.waiting += again - stopped
    return submission
