"""Where is the drive that all machines share, and what of a project's data is on it already?"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Iterator, Optional, Sequence, Union

#: What the two eras of Ludwig called the drive.
RESEARCH_DATA, LUDWIG_DATA = "research_data", "ludwig_data"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
#: Beside a project's data: which content each file on the share has.
_RECORD = ".shoal-data.json"


def project_name(name: str) -> str:
    """A project's name is also the name of its folder and of its sweep."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be the name of a project: up to 64 letters, digits, '-', '_' and '.', "
            "and no '-' or '.' in front"
        )
    return name


def find(share: Union[str, os.PathLike[str], None] = None, name: str = RESEARCH_DATA) -> Path:
    """The shared drive: what is said here, else ``$SHOAL_SHARE``, else ``name`` below ``$LUDWIG_MNT`` or /media."""
    said = share or os.environ.get("SHOAL_SHARE")
    if said:
        path = Path(said).expanduser()
    else:
        mount = os.environ.get("LUDWIG_MNT") or ("/Volumes" if sys.platform == "darwin" else "/media")
        path = Path(mount) / name
    path = Path(os.path.abspath(path))
    if not path.is_dir():
        raise FileNotFoundError(
            f"the shared drive is not there: {path} is no folder; mount it, or say where it is with SHOAL_SHARE=FOLDER"
        )
    if not said and not path.is_mount() and not any(path.iterdir()):
        # Results would go to a disk that nobody else sees, and hide below the drive when it is mounted.
        raise OSError(
            f"{path} is empty and nothing is mounted there; mount the shared drive, "
            f"or say SHOAL_SHARE={path} if this is the folder itself"
        )
    return path


def make_project(share: Path, project: str) -> Path:
    """The project's folder on the share."""
    path = share / project_name(project)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make the project's folder {path} on the shared drive: {error.strerror}") from error
    return path


def copy(sources: list[Path], project: Path) -> int:
    """Brings folders and files into the project's folder on the share, each under its own name; how many files were copied.

    A file that is there with the same content is left alone. Each arrives beside its place and is renamed, so that nobody reads
    half of it. What is on the share only stays.
    """
    jobs: list[tuple[Path, Path]] = []
    names: dict[str, Path] = {}
    for source in sources:
        name = source.resolve().name
        if names.setdefault(name, source) is not source:
            raise ValueError(f"{names[name]} and {source} would both be {project / name}; rename one")
        if name == "runs" or name.endswith(".pkl"):
            raise ValueError(
                f"{source} would be {project / name}, which is where results and instructions go; rename it"
            )
        if not source.exists():
            raise FileNotFoundError(f"there is no {source} to copy to {project}")
        jobs.extend((file, project / name / inner) for file, inner in _files(source))
    known = _read(project)
    wanted = {}
    for file, to in jobs:
        digest = _digest(file)
        key = to.relative_to(project).as_posix()
        if known.get(key) != [digest, *_stamp(to)]:
            wanted[key] = file, to, digest
    _enough(project, sum(file.stat().st_size for file, _, _ in wanted.values()))
    for key, (file, to, digest) in wanted.items():
        _bring(file, to)
        known[key] = [digest, *_stamp(to)]
    if wanted:
        _write(project, known)
    return len(wanted)


def _files(source: Path) -> Iterator[tuple[Path, Path]]:
    """Files of a tree, and where in it they are; links are followed, as a copy for other machines has to."""
    if source.is_file():
        yield source, Path()
        return
    for folder, inner, names in os.walk(source, followlinks=True):
        # A link to a folder above would never end.
        inner[:] = sorted(i for i in inner if i != "__pycache__" and not _leads_up(Path(folder) / i))
        for name in sorted(names):
            file = Path(folder) / name
            if file.is_file():
                yield file, file.relative_to(source)


def _leads_up(folder: Path) -> bool:
    return folder.is_symlink() and folder.resolve() in [folder.parent.resolve(), *folder.parent.resolve().parents]


def _digest(file: Path) -> str:
    sha = hashlib.sha256()
    with open(file, "rb") as data:
        while piece := data.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def _stamp(file: Path) -> list[int]:
    """Changes when somebody changes the file on the share; empty if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]


def _enough(project: Path, needed: int) -> None:
    free = shutil.disk_usage(project).free
    if needed > free:
        raise OSError(
            f"the shared drive has {free:,} bytes free below {project}, and {needed:,} are to be copied there"
        )


def _bring(file: Path, to: Path) -> None:
    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, part)
        with open(part, "rb") as data:
            os.fsync(data.fileno())
        with contextlib.suppress(OSError):  # a drive that knows no modes
            shutil.copymode(file, part)
        os.replace(part, to)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(f"cannot copy {file} to {to}: {error.strerror}") from error


def _read(project: Path) -> dict[str, list]:
    try:
        found = json.loads((project / _RECORD).read_text())
    except (OSError, ValueError):
        # Copies again at worst.
        return {}
    return found if isinstance(found, dict) else {}


def _write(project: Path, known: dict[str, list]) -> None:
    part = project / f"{_RECORD}.{os.getpid()}.part"
    part.write_text(json.dumps(known, sort_keys=True))
    os.replace(part, project / _RECORD)


def chosen(paths: Optional[Sequence[Union[str, os.PathLike[str]]]], what: str) -> list[Path]:
    """A list of paths, as people give it."""
    if paths is None:
        return []
    if isinstance(paths, (str, os.PathLike)):
        raise TypeError(f"{what} is a list of paths: {what}=[{paths!r}]")
    return [Path(path) for path in paths]


def refuse_strangers(project: Path) -> None:
    """Results that the queue did not make have numbers which the queue will give to other configurations."""
    for param_path in sorted((project / "runs").glob("param_*")):
        runs = [run for run in param_path.glob("*num*") if not run.name.startswith(".")]
        if runs and not any((run / "run.json").exists() for run in runs):
            raise FileExistsError(
                f"{param_path} has results that Shoal's queue did not make, of an older Ludwig perhaps; new ones would get the same numbers. "
                f"Rename the folder (`mv {project}/runs {project}/runs-before`); "
                f"gen_param_paths(..., runs_path='{project}/runs-before') still reads it"
            )
