"""LudwigCluster's client, on Shoal's queue.

    from shoal import Client                       # or: from ludwigcluster.client import Client

    client = Client("your_project")
    submission = client.submit(
        src_ps=[Path("src")], data_ps=[Path("corpora")],
        param2val_list=[{"lr": 0.1}, {"lr": 0.01}], reps=2,
    )
    submission.wait()
    submission.results()

Each configuration becomes a run of the project's own ``run.py`` with a chunk of exactly this one configuration. Submitting again tops up:
what has finished ``reps`` times does not run again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional, Sequence, Union

from . import _configs, _share, _sweep
from ._submission import Status, Submission

__all__ = ["Client", "Status", "Submission"]

_Paths = Optional[Sequence[Union[str, "os.PathLike[str]"]]]


class Client:
    """Submits the runs of one project, whose folder on the shared drive it makes.

    The drive is ``share``, else ``$SHOAL_SHARE``, else ``research_data`` below ``$LUDWIG_MNT`` or ``/media``. Hosts see it as
    ``share_on_hosts``, if that is another path there.
    """

    def __init__(
        self,
        project_name: str,
        share: Union[str, "os.PathLike[str]", None] = None,
        share_on_hosts: Union[str, "os.PathLike[str]", None] = None,
    ):
        self.project_name = _share.project_name(project_name)
        self.share = _share.find(share)
        self.share_on_hosts = Path(share_on_hosts) if share_on_hosts else self.share
        #: The project's folder: data, results, and what run.py writes.
        self.project_path = _share.make_project(self.share, self.project_name)

    def submit(
        self,
        src_ps: _Paths,
        param2val_list: Any,
        data_ps: _Paths = None,
        reps: int = 1,
        test: bool = False,
        worker: Optional[str] = None,
        run_f_name: str = "run.py",
        *,
        python: Optional[str] = None,
        **settings: Any,
    ) -> Optional[Submission]:
        """Puts every configuration into the queue until it has ``reps`` finished copies.

        ``src_ps``: folders and files that a run finds, under their names, beside ``run_f_name``; as they are now. ``data_ps``: copied to the
        project's folder on the share, if they are not there already. ``worker``: only on this host. ``test``: print what would be submitted.
        ``python``: the interpreter on the hosts. ``settings``: ``cpus``, ``gpus``, ``memory``, ``gpu_memory``, ``time_limit``, ``retries``,
        ``priority``, ``seed``, ``env``, ... as in a sweep's file.
        """
        if not isinstance(param2val_list, (dict, str, bytes)) and hasattr(param2val_list, "__iter__"):
            param2val_list = list(param2val_list)
        configs = _configs.checked(param2val_list)
        sources = _share.chosen(src_ps, "src_ps")
        data = _share.chosen(data_ps, "data_ps")
        run_file = Path(run_f_name)
        if not run_file.is_file():
            raise FileNotFoundError(f"there is no {run_f_name} in {Path.cwd()}: the script that every run executes")
        words = ["-u", "_shoal_chunk.py", "--project-path", str(self.share_on_hosts / self.project_name)]
        words += ["--run", run_file.name]
        words += [word for path in sources if _is_path_of_modules(path) for word in ("--path", path.resolve().name)]
        words += ["--worker", worker] if worker else []
        sweep = _sweep.fields(
            self.project_name,
            configs,
            reps,
            _sweep.python(python, words),
            self.share_on_hosts,
            [worker] if worker else (),
            **settings,
        )
        _share.refuse_strangers(self.project_path)
        if not test:
            copied = _share.copy(data, self.project_path)
            if copied:
                print(f"{copied} files of data copied to {self.project_path}", flush=True)
        from ..ludwig import chunk

        extra = {"_shoal_chunk.py": Path(chunk.__file__).read_text(encoding="utf-8")}
        types = _configs.lost_types(param2val_list)
        if types:
            extra[chunk.TYPES] = json.dumps(types, sort_keys=True)
        return _sweep.submit(sweep, [run_file, *sources], extra, dry_run=test)


def _is_path_of_modules(path: Path) -> bool:
    """A folder that is no package itself: its modules are imported by their own names."""
    return path.is_dir() and not (path / "__init__.py").exists()
