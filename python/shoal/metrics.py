"""``shoal.log(step=3, loss=0.25)``: numbers of a run that the queue shows, compares and keeps.

One JSON line for each call, appended to the file that ``$SHOAL_METRICS`` names: ``{"step": 3, "time": 1700000000.1, "loss": 0.25}``.
Outside a run of the queue the line is printed. Any process of the run may call it: a line is one write to the end of the file.
"""

from __future__ import annotations

import json
import math
import numbers
import os
import sys
import threading
import time
from typing import Any, Optional, Union

_lock = threading.Lock()
#: The open file: its name and its descriptor.
_file: Optional[tuple[str, int]] = None
#: The last line was cut (a full disk), or the file could not be opened: said once.
_torn = _told = False


def log(step: Optional[int] = None, **values: Any) -> None:
    """Note numbers: Python's, NumPy's, and tensors with one element.

    What is not a number is a ``TypeError`` that names it. NaN and infinities are noted as such. A file that cannot be written is
    told once on stderr and otherwise ignored: a training does not end because of its log.
    """
    line: dict[str, Union[int, float, str]] = {}
    if step is not None:
        line["step"] = _number("step", step)
    line["time"] = round(time.time(), 3)
    for name, value in values.items():
        if name == "time":
            raise TypeError("shoal.log() notes the time by itself; give `time` another name")
        line[name] = _number(name, value)
    _append(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def _number(name: str, value: Any) -> Union[int, float, str]:
    plain = value
    if not isinstance(plain, (int, float)):
        # NumPy's and PyTorch's scalars and one-element arrays, TensorFlow's through numpy(), JAX's.
        for way in ("item", "numpy"):
            if callable(getattr(plain, way, None)):
                try:
                    plain = getattr(plain, way)()
                except Exception as error:
                    raise TypeError(f"shoal.log({name}=...) takes one number, not {_kind(value)}: {error}") from None
        if isinstance(plain, numbers.Integral):
            plain = int(plain)
        elif isinstance(plain, numbers.Real) or type(plain).__name__ == "Decimal":
            plain = float(plain)
    if not isinstance(plain, (int, float)):
        raise TypeError(f"shoal.log({name}=...) takes a number, not {_kind(value)}")
    if isinstance(plain, float):
        plain = float(plain)
        # JSON has no word for these; the queue reads the text.
        return plain if math.isfinite(plain) else json.dumps(plain)
    return int(plain)


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    what = f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
    return f"a {what} of shape {tuple(shape)}" if shape is not None else f"{value!r:.40} ({what})"


def _append(line: str) -> None:
    global _torn
    path = os.environ.get("SHOAL_METRICS")
    if not path:
        # One write here too, so that lines of several processes do not mix.
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    with _lock:
        try:
            data = (("\n" if _torn else "") + line).encode()
            _torn = os.write(_descriptor(path), data) != len(data)
        except OSError as error:
            _complain(path, error)


def _descriptor(path: str) -> int:
    """The file, opened once. A child that was forked goes on with its parent's: each write still goes to the end."""
    global _file
    if _file is None or _file[0] != path:
        if _file is not None:
            os.close(_file[1])
            _file = None
        _file = path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return _file[1]


def _complain(path: str, error: OSError) -> None:
    global _told
    if not _told:
        _told = True
        print(f"shoal: cannot write metrics to {path}: {error.strerror}; the run goes on without", file=sys.stderr)
