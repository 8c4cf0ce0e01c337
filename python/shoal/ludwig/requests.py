"""Which configurations do ``param2requests`` and ``param2default`` ask for?"""

from __future__ import annotations

import difflib
import itertools
from typing import Any, Iterator

from ..client._configs import plain
from .job import ADDED


def gen_all_param2vals(param2requests: dict[str, list], param2default: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the requested values, with defaults for the rest. The first parameter turns fastest, as in Ludwig."""
    for name, values in param2requests.items():
        if not isinstance(values, list):
            raise ValueError(f'the value of param2requests["{name}"] has to be a list, not {values!r:.60}')
        if not values:
            raise ValueError(f'the list param2requests["{name}"] is empty')
    full = {name: param2requests.get(name, [default]) for name, default in param2default.items()}
    for chosen in itertools.product(*reversed(full.values())):
        yield dict(zip(full, reversed(chosen)))


def check(param2requests: Any, param2default: Any, param2debug: Any = None) -> None:
    """Ludwig's rules, each broken one an error that says where and what to write instead."""
    for what, value in [
        ("param2requests", param2requests),
        ("param2default", param2default),
        ("param2debug", param2debug),
    ]:
        if not isinstance(value, dict) and not (value is None and what == "param2debug"):
            raise TypeError(f"{what} has to be a dict: parameter -> value; it is a {type(value).__name__}")
    for name, value in param2default.items():
        where = f'param2default["{name}"]'
        if not isinstance(name, str):
            raise TypeError(f"param2default has the key {name!r}; names of parameters are words")
        if name in ADDED:
            raise ValueError(f"{where}: Ludwig adds the key {name} by itself; use another name")
        _single(where, value)
    for what, given in [("param2requests", param2requests), ("param2debug", param2debug or {})]:
        for name in given:
            if name not in param2default:
                near = difflib.get_close_matches(str(name), param2default, 1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise ValueError(f'{what}["{name}"] is not in param2default{hint}')
    for name, value in (param2debug or {}).items():
        _single(f'param2debug["{name}"]', value)
    for name, values in param2requests.items():
        where = f'param2requests["{name}"]'
        if not isinstance(values, list):
            raise TypeError(f"{where} has to be a list of values, not {values!r:.60}; write [{values!r:.60}]")
        if not values:
            raise ValueError(f"{where} is an empty list, which asks for no configuration at all")
        for number, value in enumerate(values):
            _single(f"{where}[{number}]", value)
            if value in values[:number]:
                raise ValueError(f"{where} has {value!r} twice; each value may be there once")


def _single(where: str, value: Any) -> None:
    """One value: no lists, because configurations are compared by content and Ludwig's users rely on tuples; no dicts."""
    if isinstance(value, list):
        raise TypeError(f"{where} is a list; write it as a tuple: {tuple(value)!r:.60}")
    if isinstance(value, dict):
        raise TypeError(f"{where} is a dict; give each of its entries a parameter of its own")
    if isinstance(value, tuple):
        for number, inner in enumerate(value):
            _single(f"{where}[{number}]", inner)
    plain(where, value)
