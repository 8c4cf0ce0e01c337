"""What became of a sweep? The object that ``submit`` returns; also for a sweep that somebody submitted earlier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

from ..errors import QueueError, RunsFailedError
from . import _program, _top_up
from ._top_up import run_id


@dataclass(frozen=True)
class Status:
    """How many runs of a sweep are where. True if every configuration has its reps."""

    name: str
    cells: int
    reps: int
    waiting: int
    running: int
    finished: int
    failed: int
    stopped: int
    #: Why nothing starts, if so.
    stuck: Optional[str] = None
    paused: bool = False

    def __bool__(self) -> bool:
        return not (self.waiting or self.running or self.failed or self.stopped)

    def __str__(self) -> str:
        counts = {"finished": self.finished, "running": self.running, "waiting": self.waiting}
        counts.update({name: n for name, n in [("failed", self.failed), ("stopped", self.stopped)] if n})
        text = f"{self.name}: " + ", ".join(f"{n} {name}" for name, n in counts.items())
        return f"{text} ({self.stuck})" if self.stuck else text


class Submission:
    """A sweep in the queue. It goes on without this object, and without this process."""

    def __init__(self, name: str, configs: Optional[list[dict[str, Any]]] = None, reps: int = 1):
        self._configs, self._reps = configs, reps
        #: The sweep's name: `shoal ps NAME`, `shoal results NAME`.
        self.name = name
        #: How many configurations there are, how many of them are new, how many runs this submit added and found done.
        self.cells = self.new_cells = self.waiting = self.already_done = 0

    def __repr__(self) -> str:
        return f"Submission({self.name!r})"

    def status(self) -> Status:
        """How far it is."""
        status = find_status(self.name)
        if status is None:
            raise QueueError(f"the queue knows no sweep {self.name}")
        return status

    def wait(self, timeout: Optional[float] = None, check: bool = True) -> Status:
        """Returns when everything is done. ``TimeoutError`` after ``timeout`` seconds; the sweep goes on then.

        If runs failed or were stopped, that is a ``RunsFailedError`` that names them, unless ``check`` is false.
        """
        if not _program.follow(["wait", self.name], timeout):
            raise TimeoutError(f"not done after {timeout:g} s: {self.status()}")
        status = self.status()
        if check and not status:
            missing = self._missing()
            if missing:
                raise RunsFailedError(_what_failed(status, missing), {"status": status.__dict__})
        return status

    def _missing(self) -> list[dict[str, Any]]:
        """What was submitted and has not finished; of a sweep that somebody else submitted, whatever has not."""
        if self._configs is not None:
            return _top_up.missing(self.name, self._configs, self._reps)
        return [run for run in self.runs() if run["state"] != "finished"]

    def runs(self, state: Optional[str] = None) -> list[dict[str, Any]]:
        """The runs, as `shoal ps NAME --json` tells them, each with its ``id``."""
        args = ["ps", self.name, "--all"] + (["--state", state] if state else [])
        return [{**row, "id": run_id(row["run"])} for row in _program.ask(args)["runs"]]

    def results(self) -> Any:
        """One row for each finished run: its parameters, then the last value of each metric, ``seconds``, ``host``, ``folder`` and ``run``.

        A pandas.DataFrame where there is pandas, else a list of dicts.
        """
        rows = [_row(row) for row in _program.ask(["results", self.name])["rows"]]
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def stop(self) -> None:
        """Nothing more of it starts, and what runs is asked to end, then made to."""
        _program.run(["stop", self.name])

    def logs(self, run: Union[str, int, tuple[int, int]]) -> str:
        """What a run has written: its id (``"mlp:17.2"``), or the number of its configuration, alone or with that of its rep."""
        if isinstance(run, tuple):
            run = f"{self.name}:{run[0]}.{run[1]}"
        elif isinstance(run, int):
            run = f"{self.name}:{run}.0"
        return _program.run(["logs", run])


def find_status(name: str) -> Optional[Status]:
    """None if the queue knows no such sweep."""
    for row in _program.ask(["ps", "--sweeps", "--all"])["sweeps"]:
        if row["name"] == name:
            return Status(**{field: row[field] for field in Status.__dataclass_fields__ if field in row})
    return None


def _what_failed(status: Status, missing: list[dict[str, Any]]) -> str:
    lines = [str(status)]
    for run in missing[:3]:
        name = run_id(run["run"])
        ending = f": {_ending(run['ending'])}; see `shoal logs {name}`" if run.get("ending") else ""
        lines.append(f"  {name} {run['state']}{ending}")
    if len(missing) > 3:
        lines.append(f"  and {len(missing) - 3} more; see `shoal ps {status.name}`")
    return "\n".join(lines)


def _ending(ending: Any) -> str:
    """As people say it: ``{"exited": 1}`` is "exit code 1"."""
    if isinstance(ending, dict) and len(ending) == 1:
        ((kind, value),) = ending.items()
        value = value.get("why", value) if isinstance(value, dict) else value
        return f"exit code {value}" if kind == "exited" else f"{kind.replace('_', ' ')}: {value}"
    return str(ending).replace("_", " ")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = dict(_pairs(row["config"]))
    for name, value in _pairs(row["metrics"]):
        # A metric may be called like a parameter; the parameter keeps its name.
        flat[name if name not in flat else f"{name} (metric)"] = _number(value)
    for name in ("seconds", "host", "folder"):
        flat[name if name not in flat else f"{name} (run)"] = row.get(name)
    flat["run"] = run_id(row["run"])
    return flat


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(name, inner) for name, inner in value]


def _number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
