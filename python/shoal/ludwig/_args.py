"""The flags of ``shoal ludwig``: Ludwig's own, and a few more."""

from __future__ import annotations

import argparse
from typing import Optional

_MORE = """\
Run it in the root of a project: a folder PROJECT with PROJECT's name in lower case in it, which has params.py (param2requests,
param2default, param2debug) and job.py with main(param2val), which returns a list of named pandas.Series. Results:
SHARE/PROJECT/runs/param_NNN/param2val.yaml and .../<time>_num<k>/<name>.csv, complete or absent.

examples:
  shoal ludwig -r 4                 until every configuration has 4 finished copies
  shoal ludwig -n                   what would run
  shoal ludwig -i -m                the debug configuration, here, without a share
  shoal ludwig -e data -w hebb      data copied to the share; on the host hebb only

Then: shoal ps, shoal logs, shoal stop, shoal results PROJECT.
exit codes: 0 submitted, or all done; 1 runs failed; 2 the project or a flag is wrong; 3 the queue could not be reached"""


def read(argv: Optional[list[str]], version: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="shoal ludwig",
        description="Run a Ludwig project on the queue's machines, or here.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "-r",
        "--reps",
        type=_reps,
        default=1,
        metavar="N",
        help="finished copies of each configuration; 0 stops the project's runs",
    )
    add("-m", "--minimal", action="store_true", help="one configuration: param2default overlaid with param2debug")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "-l", "--local", action="store_true", help="run on this machine and wait; results go to the share"
    )
    place.add_argument(
        "-i", "--isolated", action="store_true", help="run here without share and queue; results in ./runs"
    )
    add("-w", "--worker", metavar="HOST", help="only on this host")
    add("-g", "--group", metavar="GROUP", help="only on hosts of this group")
    add(
        "-x",
        "--clear_runs",
        "--clear-runs",
        action="store_true",
        help="first stop the project's runs and delete its results",
    )
    add("-f", "--first_only", "--first-only", action="store_true", help="only the first configuration")
    add(
        "-n",
        "--no-upload",
        "--dry-run",
        action="store_true",
        dest="no_upload",
        help="say what would run, and start nothing",
    )
    add(
        "-e",
        "--extra_paths",
        "--extra-paths",
        nargs="*",
        default=[],
        metavar="PATH",
        help="folders that go to the share; packages in them are importable",
    )
    add(
        "-src",
        "--src",
        metavar="NAME",
        help="the package with params.py and job.py [default: this folder's name in lower case]",
    )
    add(
        "-mnt",
        "--ludwig_data",
        "--ludwig-data",
        dest="share",
        metavar="FOLDER",
        help="the shared drive [default: $SHOAL_SHARE, $LUDWIG_MNT/ludwig_data, /media/ludwig_data]",
    )
    add("-s", "--skip-hostkey", action="store_true", help="accepted; does nothing: the queue has its own connections")
    add("-v", "--version", action="version", version=f"shoal {version}")
    add("--wait", action="store_true", help="stay until all is done")
    add("--yes", "-y", action="store_true", help="ask nothing")
    add("--share-on-hosts", metavar="FOLDER", help="where hosts have the shared drive, if elsewhere than here")
    add("--python", metavar="FILE", help="the interpreter on the hosts")
    for name, what in [
        ("cpus", "CPUs"),
        ("gpus", "GPUs, or a part of one"),
        ("memory", "memory"),
        ("time-limit", "time"),
    ]:
        add(f"--{name}", metavar="N", help=f"{what} for one run, as in a sweep's file")
    told = parser.parse_args(argv)
    if told.extra_paths and told.isolated:
        parser.error("-e copies to the share, and -i does without one")
    if (told.worker or told.group) and (told.isolated or told.local):
        parser.error("-w and -g choose other machines, and -i and -l run here")
    if told.no_upload and told.isolated:
        parser.error("-n starts nothing, and -i runs here at once; use one of them")
    return told


def _reps(text: str) -> int:
    reps = int(text)
    if not 0 <= reps <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{reps} is not between 0 and 1000000")
    return reps
