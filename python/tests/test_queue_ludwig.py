"""Ludwig's second form on the queue: what `shoal ludwig` asks of it."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("pandas", reason="pandas is not installed")

from ludwig_project import ludwig, project, tree  # noqa: F401
from queue_fakes import Shoal

SUBMITTED = {"sweep": "MyProject", "cells": 4, "new_cells": 4, "waiting": 12, "already_done": 0}


@pytest.fixture
def queue(project, tmp_path, monkeypatch):
    shoal = Shoal(tmp_path / "bin")
    shoal.share = tmp_path / "share"
    shoal.share.mkdir()
    shoal.answer(sweep=SUBMITTED)
    shoal.ludwig = lambda *args, **more: ludwig("-mnt", str(shoal.share), *args, SHOAL_BIN=shoal.program, **more)
    return shoal


def test_a_project_goes_to_the_queue(project, queue):
    (project / "lib").mkdir()
    (project / "lib" / "extra.py").write_text("x = 1")
    told = queue.ludwig("-r", "3", "-e", "lib", "-w", "hebb", "-g", "half1", "--gpus", "0.5")
    assert "4 configurations, 12 runs to do" in told
    (sweep,) = queue.sweeps()
    assert sweep["name"] == "MyProject" and sweep["reps"] == 3 and sweep["results"] == str(queue.share)
    assert sweep["resources"] == {"gpus": "0.5", "on": ["hebb", "half1"]}
    assert sweep["configs"][1] == {"lr": 1e-05, "layers": [2, 3], "name": "net", "bias": None}
    assert [tree["at"] for tree in sweep["source"]] == ["myproject", "_shoal_job.py"]
    assert sweep["command"][-4:] == ["--src", "myproject", "--project-path", str(queue.share / "MyProject")]
    assert (queue.share / "MyProject/lib/extra.py").exists()


def test_first_only_and_dry_run(queue):
    queue.answer(sweep={"out": "one configuration\n"})
    assert "one configuration" in queue.ludwig("-f", "-n")
    assert queue.asked()[0]["argv"][-1] == "--dry-run"
    assert len(queue.sweeps()[0]["configs"]) == 1
    assert list(queue.share.iterdir()) == []


def test_reps_of_none_stops_it(queue):
    queue.ludwig("-r", "0")
    assert queue.asked()[0]["argv"] == ["stop", "MyProject"]


def test_the_debug_configuration_runs_each_time(queue):
    done = {
        "name": "MyProject-minimal",
        "cells": 1,
        "reps": 2,
        "waiting": 0,
        "running": 0,
        "finished": 2,
        "failed": 0,
        "stopped": 0,
    }
    runs = [
        {"run": {"sweep": "MyProject-minimal", "cell": 0, "rep": rep}, "state": "finished", "differs": []}
        for rep in range(2)
    ]
    queue.answer(ps={"sweeps": [done], "runs": runs}, sweep=SUBMITTED)
    queue.ludwig("-m")
    (sweep,) = queue.sweeps()
    assert sweep["name"] == "MyProject-minimal" and sweep["reps"] == 3
    assert sweep["configs"] == [{"lr": 9.0, "layers": [2, 3], "name": "net", "bias": None}]


def test_local_means_this_host_and_waiting(queue):
    import socket

    done = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 4,
        "failed": 0,
        "stopped": 0,
    }
    queue.answer(
        hosts={"hosts": [{"name": "x"}, {"name": socket.gethostname()}]},
        ps={"sweeps": [done], "runs": []},
        sweep=SUBMITTED,
        wait={"code": 0},
    )
    assert "4 finished" in queue.ludwig("-l")
    assert queue.sweeps()[0]["resources"]["on"] == [socket.gethostname()]
    queue.answer(hosts={"hosts": [{"name": "x"}]})
    assert "is no host of the queue" in queue.ludwig("-l", code=3)


def test_local_where_no_queue_is_yet(queue):
    done = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 4,
        "failed": 0,
        "stopped": 0,
    }
    queue.answer(
        hosts={"code": 3, "err": "no queue"},
        ps=[NOBODY, {"sweeps": [done], "runs": []}],
        sweep=SUBMITTED,
        wait={"code": 0},
    )
    queue.ludwig("-l")
    assert "resources" not in queue.sweeps()[0]


NOBODY = {"sweeps": [], "runs": []}


def test_clearing_forgets_what_was_done(queue):
    run = queue.share / "MyProject/runs/param_000/2020-01-01-00:00:00_num0"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    known = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 1,
        "failed": 0,
        "stopped": 0,
    }
    answers = dict(sweep=SUBMITTED, stop={"out": ""}, wait={"code": 1}, forget={"forgotten": ["MyProject"]})
    queue.answer(ps=[{"sweeps": [known], "runs": []}, NOBODY], **answers)
    assert "nothing was deleted" in queue.ludwig("-x", stdin="\n", code=2)
    assert run.exists() and not queue.said("forget")
    queue.ludwig("-x", stdin="yes\n")
    assert queue.said("forget") == [["forget", "MyProject", "--json"]] and queue.said("stop") == [["stop", "MyProject"]]
    assert not run.exists() and len(queue.sweeps()) == 1


def test_errors_of_the_queue_have_codes(queue):
    queue.answer(sweep={"code": 3, "err": "no daemon"})
    assert "no daemon" in queue.ludwig(code=3)
    queue.answer(sweep={"code": 2, "err": "wrong"})
    assert "wrong" in queue.ludwig(code=2)
    failed = {
        "name": "MyProject",
        "cells": 4,
        "reps": 1,
        "waiting": 0,
        "running": 0,
        "finished": 3,
        "failed": 1,
        "stopped": 0,
    }
    runs = [
        {
            "run": {"sweep": "MyProject", "cell": 3, "rep": 0},
            "state": "failed",
            "differs": [["layers", [4]], ["lr", 1e-05]],
        }
    ]
    queue.answer(sweep=SUBMITTED, ps={"sweeps": [failed], "runs": runs}, retry={"runs": 1}, wait={"code": 1})
    assert "1 failed" in queue.ludwig("--wait", code=1)
