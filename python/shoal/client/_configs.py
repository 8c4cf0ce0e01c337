"""Are these configurations? Each has to be a dict that YAML and JSON can write, and no two may be the same."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any

#: What the queue keeps of a number is 64 bits.
_LARGEST = 2**63 - 1

Config = dict[str, Any]


def checked(param2val_list: Any) -> list[Config]:
    """The configurations as JSON has them. The first problem is an error that names the entry and the key."""
    if not isinstance(param2val_list, list):
        kind = type(param2val_list).__name__
        raise TypeError(f"param2val_list is a list of dicts, one for each configuration, not a {kind}")
    configs: list[Config] = []
    seen: dict[str, int] = {}
    for number, param2val in enumerate(param2val_list):
        where = f"param2val_list[{number}]"
        if not isinstance(param2val, dict):
            raise TypeError(f"{where} is a {type(param2val).__name__}; it has to be a dict: parameter -> value")
        config = {_name(where, name): plain(f"{where}[{name!r}]", value) for name, value in param2val.items()}
        text = canonical(config)
        if text in seen:
            raise ValueError(
                f"{where} is the same configuration as param2val_list[{seen[text]}]; "
                "to run a configuration several times, use reps"
            )
        seen[text] = number
        configs.append(config)
    if not configs:
        raise ValueError("param2val_list is empty: there is nothing to run")
    return configs


def canonical(value: Any) -> str:
    """One text for all ways to write the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


#: What fits into files, flags and variables; the queue takes no others.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


def _name(where: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where} has the key {name!r}; names of parameters are words")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{where} has the key {name!r:.120}; a name has up to 100 letters, digits, '_', '-' and '.', and starts with a letter or '_'"
        )
    return name


def _key(where: str, name: Any) -> str:
    """Within a value, any short text will do."""
    if not isinstance(name, str) or len(name) > 100:
        raise TypeError(f"{where} has the key {name!r:.120}; keys have to be texts of up to 100 characters")
    return _encodable(where, name)


def plain(where: str, value: Any, depth: int = 0) -> Any:
    """The value as JSON has it: tuples become lists, NumPy's scalars numbers, paths text."""
    if depth > 24:
        raise ValueError(f"{where} is nested too deeply")
    if value is None or isinstance(value, (bool, str)):
        return _encodable(where, value) if isinstance(value, str) else value
    if isinstance(value, int):
        if not -_LARGEST - 1 <= value <= _LARGEST:
            raise ValueError(f"{where} is {value}, which has more than 64 bits; write it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}, which JSON cannot write; use None or text")
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(f"{where}[{i}]", inner, depth + 1) for i, inner in enumerate(value)]
    if isinstance(value, dict):
        return {_key(where, name): plain(f"{where}[{name!r}]", inner, depth + 1) for name, inner in value.items()}
    if hasattr(value, "__fspath__"):
        return _encodable(where, str(value))
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return plain(where, value.item(), depth + 1)
    hint = "; use .tolist()" if hasattr(value, "tolist") else ""
    raise TypeError(f"{where} is a {type(value).__qualname__}, which YAML cannot write{hint}")


def _encodable(where: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} is text that UTF-8 cannot write: {text!r:.60}") from None
    if "\0" in text:
        raise ValueError(f"{where} is text with a NUL in it, which YAML cannot write: {text!r:.60}")
    return text


def lost_types(param2val_list: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What JSON does not keep, tuples above all: parameter -> value as JSON -> value as Python writes it.

    Goes along with the source, so that a run gets exactly what was submitted.
    """
    found: dict[str, dict[str, str]] = {}
    for param2val in param2val_list:
        for name, value in param2val.items():
            if not _same(plain(name, value), value):
                text = repr(value)
                # Paths and the like have no literal; a run gets them as text.
                try:
                    ast.literal_eval(text)
                except (ValueError, SyntaxError):
                    continue
                found.setdefault(name, {})[canonical(plain(name, value))] = text
    return found


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list):
        return type(theirs) is list and all(_same(a, b) for a, b in zip(ours, theirs))
    if isinstance(ours, dict):
        return type(theirs) is dict and all(_same(ours[name], theirs[name]) for name in ours)
    return type(ours) is type(theirs)
