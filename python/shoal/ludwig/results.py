"""Reading results back: which folders hold the runs of the configurations that ``params.py`` asks for?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator, Optional, Union

from ..client import _share
from . import _yaml
from .job import ADDED
from .requests import gen_all_param2vals


def gen_param_paths(
    project_name: str,
    param2requests: dict[str, list],
    param2default: dict[str, Any],
    runs_path: Union[str, os.PathLike[str], None] = None,
    ludwig_data_path: Union[str, os.PathLike[str], None] = None,
    label_params: Optional[list[str]] = None,
    isolated: bool = False,
    label_n: bool = True,
    verbose: bool = True,
    verbose_plus: bool = False,
    require_all_found: bool = True,
) -> Iterator[tuple[Path, str]]:
    """Yields ``(param_path, label)`` for every requested configuration that has a folder.

    Runs are looked for in ``runs_path``, else in ``runs`` below this folder (``isolated``) or below the project's folder on the share
    (``ludwig_data_path``, else as everywhere). A label has a line for each requested parameter and for each of ``label_params``, sorted, and
    ``n=`` with the number of finished copies. If not all configurations are found, it ends with ``SystemExit``, as Ludwig does.
    """
    runs = _runs(project_name, runs_path, ludwig_data_path, isolated)
    for name in [*param2requests, *(label_params or [])]:
        if name not in param2default:
            raise KeyError(f"{name} is not in param2default")
    labelled = sorted({*param2requests, *(label_params or [])})
    requested = {frozen(param2val): param2val for param2val in gen_all_param2vals(param2requests, param2default)}
    say = _say if verbose else _silent
    say(f"looking for {len(requested)} configurations in {runs}")
    found = 0
    for param_path in sorted(runs.glob("param_*"), key=_number):
        try:
            stored = _yaml.read(param_path / "param2val.yaml")
        except (FileNotFoundError, NotADirectoryError):
            say(f"{param_path.name}: has no param2val.yaml")
            continue
        stored = {name: value for name, value in stored.items() if name not in ADDED}
        param2val = requested.get(frozen(stored))
        if param2val is None:
            say(f"{param_path.name}: another configuration")
            if verbose_plus:
                for line in _differences(stored, param2requests, param2default):
                    say(f"  {line}")
            continue
        found += 1
        lines = [f"{name}={param2val[name]}" for name in labelled]
        if label_n:
            lines.append(f"n={len(copies(param_path))}")
        label = "\n".join(lines)
        say(f"{param_path.name}: " + label.replace("\n", " "))
        yield param_path, label
    if found != len(requested) and require_all_found:
        raise SystemExit(f"Ludwig: found {found} of the {len(requested)} requested configurations in {runs}")


def copies(param_path: Path) -> list[Path]:
    """The folders of finished runs; what is on its way there has a dot in front."""
    return sorted(path for path in param_path.glob("*num*") if not path.name.startswith(".") and path.is_dir())


def frozen(value: Any) -> Any:
    """Equal for equal configurations: tuples are written as lists, and ``1 == 1.0`` as in Python."""
    if isinstance(value, dict):
        return frozenset((name, frozen(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(frozen(inner) for inner in value)
    return value if value.__hash__ is not None else repr(value)


def _runs(project_name: str, runs_path: Any, ludwig_data_path: Any, isolated: bool) -> Path:
    if runs_path is not None:
        runs = Path(runs_path)
    elif isolated:
        runs = Path.cwd() / "runs"
    else:
        runs = _share.find(ludwig_data_path, _share.LUDWIG_DATA) / project_name / "runs"
    if not runs.is_dir():
        raise FileNotFoundError(f"there are no runs of {project_name}: {runs} does not exist")
    return runs


def _number(param_path: Path) -> tuple[int, str]:
    """By number: param_1000 comes after param_999."""
    digits = param_path.name.rpartition("_")[2]
    return (int(digits) if digits.isdecimal() else 1 << 62), param_path.name


def _differences(
    stored: dict[str, Any], param2requests: dict[str, list], param2default: dict[str, Any]
) -> Iterator[str]:
    for name, default in param2default.items():
        wanted = param2requests.get(name, [default])
        if name not in stored:
            yield f"it has no {name}"
        elif frozen(stored[name]) not in [frozen(value) for value in wanted]:
            yield f"{name} is {stored[name]!r}, not {' or '.join(map(repr, wanted))}"
    for name in stored.keys() - param2default.keys():
        yield f"it also has {name}={stored[name]!r}"


def _say(text: str) -> None:
    print(f"Ludwig: {text}", flush=True)


def _silent(_: str) -> None:
    pass
