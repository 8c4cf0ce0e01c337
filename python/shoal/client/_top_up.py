"""Exactly what is asked for: a sweep has one number of reps, and people ask for reps of the configurations they name.

So after a submit, copies that only the sweep's number asks for are stopped before they run, and named ones that failed or were stopped
once are tried again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterable, Iterator

from . import _program
from ._configs import canonical

#: Names on one command line.
_AT_ONCE = 500


def settle(name: str, configs: list[dict[str, Any]], reps: int, before: Any) -> tuple[int, int]:
    """``before``: the sweep's status before this submit. How many runs were stopped, and how many tried again."""
    if before is None:
        return 0, 0
    stop, retry = [], []
    for run, named in named_runs(name, configs):
        wanted = named and run["run"]["rep"] < reps
        is_new = run["run"]["rep"] >= before.reps or run["run"]["cell"] >= before.cells
        if run["state"] in ("waiting", "running") and not wanted and is_new:
            stop.append(run)
        elif run["state"] in ("failed", "stopped") and wanted:
            retry.append(run)
    _say("stop", stop)
    _say("retry", retry)
    return len(stop), len(retry)


@contextmanager
def held(name: str, before: Any, reps: int) -> Iterator[None]:
    """Nothing more of the sweep starts meanwhile, where this submit may ask for copies that nobody wants: the short ones among them would be
    over before they are stopped. Whoever is killed in here leaves it paused; `shoal ps` says so, and `shoal resume` goes on."""
    if before is None or before.paused or before.reps == reps:
        yield
        return
    _program.run(["pause", name, "--json"])
    try:
        yield
    finally:
        _program.run(["resume", name, "--json"])


def missing(name: str, configs: list[dict[str, Any]], reps: int) -> list[dict[str, Any]]:
    """Runs of these configurations that have not finished."""
    return [
        run
        for run, named in named_runs(name, configs)
        if named and run["run"]["rep"] < reps and run["state"] != "finished"
    ]


def finished(name: str, config: dict[str, Any]) -> int:
    """How many copies of one configuration there are."""
    return sum(named and run["state"] == "finished" for run, named in named_runs(name, [config]))


def named_runs(name: str, configs: list[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], bool]]:
    """The runs of a sweep, and whether their configurations are among these."""
    runs = _program.ask(["ps", name, "--all"])["runs"]
    # A row has the parameters in which the sweep's configurations differ: they are what tells them apart.
    differing = {parameter for run in runs for parameter, _ in run["differs"]}
    given = {canonical({name: config[name] for name in config if name in differing}) for config in configs}
    known: dict[int, bool] = {}
    for run in runs:
        cell = run["run"]["cell"]
        if cell not in known:
            known[cell] = canonical(dict(run["differs"])) in given
        yield run, known[cell]


def _say(verb: str, runs: list[dict[str, Any]]) -> None:
    ids = [run_id(run["run"]) for run in runs]
    for start in range(0, len(ids), _AT_ONCE):
        _program.ask([verb, *ids[start : start + _AT_ONCE]])


def run_id(run: Any) -> str:
    return run if isinstance(run, str) else f"{run['sweep']}:{run['cell']}.{run['rep']}"


def is_needed(answer: dict[str, Any], before: Any, count: int, reps: int) -> bool:
    """Whether there can be anything to settle, so that the usual submit asks for no list."""
    if before is None:
        return False
    others = answer.get("cells", 0) > count
    return bool(before.failed or before.stopped or reps < before.reps or (others and reps > before.reps))
