"""The program `shoal`: where it is, and what it answers. The queue is asked through it alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

from ..errors import QueueError

#: Asking the queue takes moments; a daemon that has to start first, a little longer.
PATIENCE = 120.0


def find() -> str:
    """``$SHOAL_BIN`` (the program, or the folder it is in), else beside this interpreter, else on PATH."""
    said = os.environ.get("SHOAL_BIN")
    if said:
        file = Path(said) / "shoal" if Path(said).is_dir() else Path(said)
        if not os.access(file, os.X_OK):
            raise QueueError(f"SHOAL_BIN is {said}, and there is no program `shoal` there")
        return str(file)
    beside = Path(sys.executable).with_name("shoal")
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("shoal")
    if found is None:
        raise QueueError(
            f"the program `shoal` is neither beside {sys.executable} nor on PATH; "
            "install it, or say where it is with SHOAL_BIN=FILE"
        )
    return found


def run(args: Sequence[str], text: Optional[str] = None, cwd: Optional[Path] = None, patience: float = PATIENCE) -> str:
    """Runs `shoal ARGS` and gives what it printed; what it complained about becomes the error."""
    argv = [find(), *args]
    try:
        # Text that is not UTF-8 (logs) is shown as well as it goes.
        done = subprocess.run(
            argv, input=text, capture_output=True, cwd=cwd, timeout=patience, encoding="utf-8", errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise QueueError(f"`shoal {' '.join(args[:2])}` has not answered for {patience:.0f} s") from None
    except OSError as error:
        raise QueueError(f"{argv[0]} did not start: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"it ended with code {done.returncode}"
        raise QueueError(said, {"command": argv, "code": done.returncode})
    if done.stderr.strip():
        print(done.stderr.rstrip(), file=sys.stderr)
    return done.stdout


def follow(args: Sequence[str], timeout: Optional[float]) -> bool:
    """Runs `shoal ARGS` for as long as it takes, at most ``timeout`` seconds: whether it has ended, well (0) or not (1)."""
    argv = [find(), *args, "--json"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        done = subprocess.run(argv, timeout=timeout, encoding="utf-8", errors="replace", **quiet)
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        raise QueueError(f"{argv[0]} did not start: {error.strerror}") from error
    said = done.stderr.strip()
    if done.returncode not in (0, 1) or (done.returncode == 1 and said.startswith("shoal ")):
        raise QueueError(said or f"it ended with code {done.returncode}", {"command": argv, "code": done.returncode})
    return True


def ask(args: Sequence[str], text: Optional[str] = None, cwd: Optional[Path] = None) -> Any:
    """The same, for answers in JSON."""
    said = run([*args, "--json"], text, cwd)
    try:
        return json.loads(said)
    except ValueError:
        raise QueueError(f"`shoal {' '.join(args)} --json` printed something else: {said[:200]!r}") from None
