"""param2val.yaml: written so that every reader of YAML reads the same, and read with or without PyYAML.

Without PyYAML only what Ludwig and Shoal write is understood: a mapping of parameters to scalars, lists and maps, in block or flow style.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
#: Words that some reader of YAML takes for something else.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"}


def write(path: Path, param2val: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(
        "".join(f"{_text(k)}: {_flow(v)}\n" for k, v in sorted(param2val.items())) or "{}\n", encoding="utf-8"
    )
    os.replace(part, path)


def _flow(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(str(k))}: {_flow(v)}" for k, v in sorted(value.items())) + "}"
    return _text(str(value))


def _float(value: float) -> str:
    """To YAML 1.1 a number needs a point, and an exponent its sign: ``1e-05`` is text there."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ("-.inf" if value < 0 else ".inf")
    digits, mark, exponent = repr(value).partition("e")
    if not mark:
        return digits
    return f"{digits}{'' if '.' in digits else '.0'}e{'' if exponent[0] in '+-' else '+'}{exponent}"


def _text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text)


def read(path: Path) -> dict[str, Any]:
    """A configuration. Tuples that Ludwig wrote as such come back as tuples."""
    text = path.read_text(encoding="utf-8")
    try:
        found = _with_pyyaml(text)
    except ImportError:
        found = parse(text)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}, not parameters and their values")
    return found


_loader: Any = None


def _with_pyyaml(text: str) -> Any:
    global _loader
    import yaml

    if _loader is None:
        # A safe one: a file on a share may be anybody's, and PyYAML's own FullLoader has run code of such files before.
        class Loader(yaml.SafeLoader):
            pass

        tag = "tag:yaml.org,2002:python/tuple"
        Loader.add_constructor(tag, lambda loader, node: tuple(loader.construct_sequence(node, deep=True)))
        _loader = Loader
    try:
        return yaml.load(text, Loader=_loader)  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


# ---- without PyYAML


def parse(text: str) -> Any:
    """The subset above; anything else is a ValueError with its line."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise ValueError(f"line {number} begins with a tab")
        bare = line.strip()
        if bare and not bare.startswith("#") and bare not in ("---", "..."):
            lines.append((number, len(line) - len(line.lstrip()), bare))
    if not lines:
        return None
    value, rest = _block(lines, lines[0][1])
    if rest:
        raise ValueError(f"line {rest[0][0]} does not fit: {rest[0][2]!r}")
    return value


_Lines = list  # of (number, indent, text)


def _block(lines: _Lines, indent: int) -> tuple[Any, _Lines]:
    number, _, first = lines[0]
    if first.startswith("- ") or first == "-":
        return _sequence(lines, indent)
    if _key(first) is None:
        value, rest = _scalar_or_flow(number, first), lines[1:]
        return value, rest
    found: dict[str, Any] = {}
    while lines and lines[0][1] == indent:
        number, _, text = lines[0]
        split = _key(text)
        if split is None:
            raise ValueError(f"line {number} is no `name: value`: {text!r}")
        name, rest = split
        found[name], lines = _value(number, rest, lines[1:], indent)
    return found, lines


def _sequence(lines: _Lines, indent: int) -> tuple[list, _Lines]:
    found = []
    while lines and lines[0][1] == indent and (lines[0][2] == "-" or lines[0][2].startswith("- ")):
        number, _, text = lines[0]
        inner = text[1:].strip()
        if inner.startswith("- ") or _key(inner) is not None and not inner.startswith(("{", "[", '"', "'")):
            # `- a: 1` opens a block whose indent is that of `a`.
            deeper = indent + len(text) - len(inner)
            value, lines = _block([(number, deeper, inner), *lines[1:]], deeper)
        else:
            value, lines = _value(number, inner, lines[1:], indent)
        found.append(value)
    return found, lines


def _value(number: int, text: str, lines: _Lines, indent: int) -> tuple[Any, _Lines]:
    """What stands behind a colon or a dash, with the deeper lines that belong to it."""
    is_tuple = text.startswith("!!python/tuple")
    if is_tuple:
        text = text[len("!!python/tuple") :].strip()
    if text and not text.startswith("#"):
        value, rest = _scalar_or_flow(number, text), lines
    else:
        # A list may stand as deep as its name.
        nested = lines and (lines[0][1] > indent or lines[0][1] == indent and lines[0][2].startswith("-"))
        value, rest = _block(lines, lines[0][1]) if nested else (None, lines)
    return (tuple(value) if is_tuple else value), rest


def _key(text: str) -> Any:
    """``name: value`` -> its two halves; None if it is none."""
    if text[0] in "\"'":
        name, end = _quoted(0, text, 0)
        if text[end : end + 1] == ":" and text[end + 1 : end + 2] in ("", " "):
            return name, text[end + 1 :].strip()
        return None
    found = re.match(r"([^\s\[\]{},#&*!|>%@`\"'-][^#:]*?|-[^\s#:][^#:]*?)\s*:(?:\s+(.*)|)$", text)
    return (found.group(1), (found.group(2) or "").strip()) if found else None


def _scalar_or_flow(number: int, text: str) -> Any:
    try:
        value, end = _flow_value(number, text, 0, top=True)
    except IndexError:
        raise ValueError(f"line {number} ends too early: {text!r}") from None
    rest = text[end:].strip()
    if rest and not rest.startswith("#"):
        raise ValueError(f"line {number} has more than a value: {text!r}")
    return value


def _flow_value(number: int, text: str, at: int, top: bool = False) -> tuple[Any, int]:
    at = _skip(text, at)
    if text[at] == "[":
        items, at = [], _skip(text, at + 1)
        while text[at] != "]":
            value, at = _flow_value(number, text, at)
            items.append(value)
            at = _comma(number, text, at, "]")
        return items, at + 1
    if text[at] == "{":
        found, at = {}, _skip(text, at + 1)
        while text[at] != "}":
            name, at = _quoted(number, text, at) if text[at] in "\"'" else _bare(text, at, ":,{}[]")
            at = _skip(text, at)
            if text[at] != ":":
                raise ValueError(f"line {number} has no `:` behind {name!r}")
            found[name], at = _flow_value(number, text, at + 1)
            at = _comma(number, text, at, "}")
        return found, at + 1
    if text[at] in "\"'":
        return _quoted(number, text, at)
    if text[at] in "&*!|>%@`":
        raise ValueError(f"line {number} needs PyYAML (`pip install pyyaml`): {text!r}")
    word, at = _bare(text, at, "" if top else ",[]{}")
    return _resolve(word), at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _comma(number: int, text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    if text[at] == ",":
        return _skip(text, at + 1)
    if text[at] != end:
        raise ValueError(f"line {number}: `,` or `{end}` expected before {text[at:]!r}")
    return at


def _bare(text: str, at: int, stops: str) -> tuple[str, int]:
    end = at
    while end < len(text) and text[end] not in stops and not (text[end] == "#" and text[end - 1] == " "):
        end += 1
    return text[at:end].strip(), end


def _quoted(number: int, text: str, at: int) -> tuple[str, int]:
    if text[at] == "'":
        found = re.compile(r"'((?:[^']|'')*)'").match(text, at)
        if found is None:
            raise ValueError(f"line {number} has an open quote: {text!r}")
        return found.group(1).replace("''", "'"), found.end()
    found = re.compile(r'"((?:[^"\\]|\\.)*)"').match(text, at)
    if found is None:
        raise ValueError(f"line {number} has an open quote: {text!r}")
    # YAML's \xNN is JSON's \u00NN; the other escapes that are written are the same.
    inner = re.sub(r"\\(.)", lambda m: "\\u00" if m.group(1) == "x" else m.group(0), found.group(1))
    try:
        return json.loads(f'"{inner}"'), found.end()
    except ValueError:
        raise ValueError(f"line {number} has a quoted text that needs PyYAML: {text!r}") from None


_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?)")
_NAMED: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_NAMED |= {word: True for word in "yes Yes YES true True TRUE on On ON".split()}
_NAMED |= {word: False for word in "no No NO false False FALSE off Off OFF".split()}


def _resolve(word: str) -> Any:
    """As PyYAML (YAML 1.1) takes a word without quotes."""
    if word in _NAMED:
        return _NAMED[word]
    if _INT.fullmatch(word):
        return int(word.replace("_", ""))
    if _FLOAT.fullmatch(word):
        return float(word.replace("_", ""))
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)", word):
        return -math.inf if word[0] == "-" else math.inf
    return math.nan if word in (".nan", ".NaN", ".NAN") else word
