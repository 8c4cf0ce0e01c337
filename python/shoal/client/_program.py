"""The program `shoal`: where it is, and what it answers. The queue is asked through it alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Optional, Sequence

from ..errors import QueueError

#: Asking the queue takes moments; a daemon that has to start first, a little longer. Of a program that does something all the while
#: (reads a large source, sends it), so much without any of that.
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
    pipe = subprocess.PIPE
    given = subprocess.DEVNULL if text is None else pipe
    try:
        # Text that is not UTF-8 (logs) is shown as well as it goes.
        process = subprocess.Popen(
            argv, cwd=cwd, stdin=given, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise QueueError(f"{argv[0]} did not start: {error.strerror}") from error
    with process:
        try:
            out, err = _hear(process, text, patience)
        except subprocess.TimeoutExpired:
            process.kill()
            what = f"`shoal {' '.join(args[:2])}`"
            raise QueueError(f"{what} has done nothing and not answered for {patience:.0f} s") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        said = err.strip() or out.strip() or f"it ended with code {process.returncode}"
        raise QueueError(said, {"command": argv, "code": process.returncode})
    if err.strip():
        print(err.rstrip(), file=sys.stderr)
    return out


def _hear(process: subprocess.Popen[str], text: Optional[str], patience: float) -> tuple[str, str]:
    """What it printed. ``TimeoutExpired`` when it has neither read nor written nor computed anything for so long."""
    since, before = time.monotonic(), _done_by(process.pid)
    while True:
        left = since + patience - time.monotonic()
        try:
            return process.communicate(text, timeout=max(0.05, min(left, patience / 4)))
        except subprocess.TimeoutExpired:
            # What was given to it once is on its way.
            text = None
            now = _done_by(process.pid)
            if now != before:
                since, before = time.monotonic(), now
            elif left <= 0:
                raise


def _done_by(pid: int) -> Optional[tuple[str, ...]]:
    """Bytes that a process has read and written, and its time on the processor; None where the kernel does not tell."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        bytes_moved = Path(f"/proc/{pid}/io").read_text().splitlines()[:2]
    except (OSError, ValueError):
        return None
    return (*bytes_moved, *words[11:13])


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
