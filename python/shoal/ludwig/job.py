"""The worker's side of Ludwig's second form: calls the project's ``job.main(param2val)`` and writes what it returns.

Each ``pandas.Series`` that it returns becomes ``<name>.csv`` in the run's folder, and what it saves below ``save_path`` stays beside them.
The folder becomes visible on the share only when this script has succeeded: results are complete or absent.

This file goes along with the source and runs on its own, on hosts that have nothing but the project's needs: it imports nothing of ours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any, Iterable, Optional

#: Keys that are added to a configuration, as Ludwig does.
ADDED = ("param_name", "job_name", "project_path", "save_path")


def main(argv: Optional[list[str]] = None) -> int:
    options = argparse.ArgumentParser(prog="_shoal_job.py", description=__doc__.split("\n", 1)[0])
    options.add_argument("--src", required=True, help="the package that has job.py")
    options.add_argument("--project-path", type=Path, required=True, help="the project's folder on the share")
    options.add_argument("--source", type=Path, help="where that package is [default: beside this file]")
    told = options.parse_args(argv)

    folder = Path(os.environ.get("SHOAL_RUN_DIR") or ".").resolve()
    save_path = folder / "saves"
    save_path.mkdir(exist_ok=True)
    param2val = json.loads((folder / "params.json").read_text(encoding="utf-8"))
    # Ludwig allows no lists in parameters, so what JSON made a list was a tuple.
    param2val = {name: tuples(value) for name, value in param2val.items()}
    param_name, job_name = named(dict(os.environ))
    param2val.update(
        param_name=param_name, job_name=job_name, project_path=str(told.project_path), save_path=str(save_path)
    )

    here = Path(__file__).resolve().parent
    source = str(told.source or here)
    # Behind everything else: packages that `-e` brought to the share.
    others = [path for path in sys.path if path not in (source, str(here))]
    sys.path[:] = [source, *others, str(told.project_path)]
    job = importlib.import_module(f"{told.src}.job")
    if not callable(getattr(job, "main", None)):
        sys.exit(f"{getattr(job, '__file__', told.src)} has no function main(param2val)")
    returned = job.main(param2val)
    last = save(folder, returned)
    note(last)
    if not any(save_path.iterdir()):
        save_path.rmdir()
    return 0


def tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(tuples(inner) for inner in value)
    if isinstance(value, dict):
        return {name: tuples(inner) for name, inner in value.items()}
    return value


def named(env: dict[str, str]) -> tuple[str, str]:
    """Names of the configuration and of the run; where the queue says so, exactly those of the folders that results go to."""
    result = env.get("SHOAL_RESULT", "")
    if "/" in result:
        param_name, job_name = result.split("/")[-2:]
        return param_name, job_name
    stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.gmtime())
    return f"param_{int(env.get('SHOAL_CELL', '0')):03}", f"{stamp}_num{env.get('SHOAL_REP', '0')}"


def save(folder: Path, returned: Any) -> dict[str, float]:
    """Writes every series; the last value of each that is a number. What is no series is told and left out, as Ludwig does:
    the work of hours is not thrown away for it."""
    if returned is None or not _several(returned):
        kind = type(returned).__name__
        print(f"WARNING: job.main() has to return a list of pandas.Series, not {kind}", flush=True)
        returned = [returned] if _is_series(returned) else []
    written: dict[str, float] = {}
    seen: set[str] = set()
    for number, series in enumerate(returned):
        if not _is_series(series):
            kind = type(series).__name__
            print(f"WARNING: job.main() returned a {kind} at place {number}, not a pandas.Series; left out", flush=True)
            continue
        name = _file_name(series.name, number)
        if name in seen:
            print(
                f"WARNING: job.main() returned two series of the name {name}; the second is {name}_{number}", flush=True
            )
            name = f"{name}_{number}"
        seen.add(name)
        with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            series.to_csv(file, index=True, header=[name if series.name is None else series.name])
        value = _last(series)
        if value is not None:
            written[name] = value
    if not seen:
        print("WARNING: job.main() returned no results", flush=True)
    return written


def _several(returned: Any) -> bool:
    return isinstance(returned, Iterable) and not _is_series(returned) and not isinstance(returned, (str, bytes, dict))


def _is_series(value: Any) -> bool:
    return any(kind.__name__ == "Series" and kind.__module__.startswith("pandas") for kind in type(value).__mro__)


def _file_name(name: Any, number: int) -> str:
    if name is None:
        print(f"WARNING: the series at place {number} has no name; it is written as series_{number}.csv", flush=True)
        return f"series_{number}"
    plain = str(name).replace("/", "_").replace("\0", "_").strip()
    return plain if plain.strip(".") else f"series_{number}"


def _last(series: Any) -> Optional[float]:
    try:
        value = float(series.iloc[-1])
    except (TypeError, ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def note(last: dict[str, float]) -> None:
    """For `shoal results`: the last value of each series is a metric."""
    path = os.environ.get("SHOAL_METRICS")
    if path and last:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"time": round(time.time(), 3), **last}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
