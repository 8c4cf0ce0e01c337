"""Bad days in Python: each failure has its class, its culprit, and reaches everyone (GANG-2, GRAD-5)."""

import socket
import textwrap
import time

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

MEMORY = pytest.mark.parametrize("shared_memory", [0, 1])

# Steps until something goes wrong, and then what.
TRAIN = """
shoal.init()
try:
    step = 0
    while True:
        shoal.push_pull(np.ones(100_000, dtype=np.float32), name="w")
        step += 1
        tell(step=step)
except shoal.ShoalError as error:
    fields = {k: getattr(error, k, None) for k in ("role", "rank", "host", "pid", "ranks", "key", "field")}
    tell(kind=type(error).__name__, text=str(error), **fields)
    sys.exit(7)
"""


def failure(worker):
    """What the worker caught."""
    assert worker.end() == 7, worker.err.read_text()
    return worker.told()[-1]


@MEMORY
def test_a_dead_rank_is_named(gang, shared_memory):
    """Killed, or gone without a word: the same to the others, within the bound."""
    leaves = """
    shoal.init()
    for _ in range(3):
        shoal.push_pull(np.ones(100_000, dtype=np.float32), name="w")
    os._exit(0)
    """
    workers = gang.start([TRAIN, TRAIN, leaves], shared_memory=shared_memory)
    assert workers[2].end() == 0
    since = time.monotonic()
    for worker in workers[:2]:
        error = failure(worker)
        assert (error["kind"], error["role"], error["rank"]) == ("DeadRankError", "worker", 2), error
        assert (error["host"], error["pid"]) == (socket.gethostname(), workers[2].child.pid)
    took = time.monotonic() - since
    print(f"all ended {took:.2f} s after the death")
    assert took < 5


@MEMORY
def test_a_mismatch_names_both_ranks(gang, shared_memory):
    other = TRAIN.replace("100_000", "100_001")
    for worker in gang.start([TRAIN, other], shared_memory=shared_memory):
        error = failure(worker)
        assert error["kind"] == "MismatchError" and sorted(error["ranks"]) == [0, 1], error
        assert (error["key"], error["field"]) == ("w", "shape") and "100001" in error["text"], error


# Ways to fail that pass by the hook that looks for exceptions.
SILENT = {
    "a hook of the script's own": "sys.excepthook = lambda *_: None; raise ValueError('on purpose')",
    "exit": "exit(3)",
    "from sys import exit": "leave(3)",
}


@pytest.mark.parametrize("how", SILENT)
def test_a_script_that_failed_has_not_finished(gang, how):
    """The others must not go on without it as if it had called finish()."""
    fails = f"""
    shoal.init()
    for _ in range(3):
        shoal.push_pull(np.ones(100_000, dtype=np.float32), name="w")
    {SILENT[how]}
    """
    workers = gang.start([TRAIN, "from sys import exit as leave\n" + textwrap.dedent(fails)])
    error = failure(workers[0])
    assert (error["kind"], error["rank"]) == ("AbortedError", 1), error
    assert "ended with" in error["text"] and ("on purpose" in error["text"] or "3" in error["text"]), error
    assert workers[1].end() in (1, 3)


def test_a_death_is_seen_though_a_forked_child_lives_on(gang):
    """Workers of a DataLoader, say, have copies of all connections; the kernel closes those when the last copy is gone."""
    forks = """
    shoal.init()
    if os.fork() == 0:
        os.write(1, b'{"child": true}\\n')
        end = time.monotonic() + 100
        while time.monotonic() < end and not os.path.exists("over"):
            time.sleep(0.1)
        os._exit(0)
    for _ in range(3):
        shoal.push_pull(np.ones(100_000, dtype=np.float32), name="w")
    tell(ready=True)
    time.sleep(100)
    """
    workers = gang.start([TRAIN, forks], shared_memory=0)
    try:
        workers[1].until(lambda line: "child" in line)
        workers[1].until(lambda line: "ready" in line)
        workers[1].kill()
        error = failure(workers[0])
        assert (error["kind"], error["rank"]) == ("DeadRankError", 1), error
    finally:
        (gang.folder / "over").touch()


@MEMORY
def test_an_exception_in_one_script_reaches_all(gang, shared_memory):
    """Its words too; and the script itself ends as Python scripts do."""
    raises = """
    shoal.init()
    shoal.push_pull(np.ones(100_000, dtype=np.float32), name="w")
    raise ValueError("batch 7 is empty")
    """
    workers = gang.start([TRAIN, raises, TRAIN], shared_memory=shared_memory)
    assert workers[1].end() == 1
    assert "ValueError: batch 7 is empty" in workers[1].err.read_text()
    for worker in (workers[0], workers[2]):
        error = failure(worker)
        assert (error["kind"], error["rank"]) == ("AbortedError", 1), error
        assert "ValueError: batch 7 is empty" in error["text"]


WAITS = {
    "push_pull": "shoal.push_pull(np.ones(10, dtype=np.float32), name='never')",
    "handle": "shoal.push_pull_async(np.ones(10, dtype=np.float32), name='never').wait()",
    "broadcast": "shoal.broadcast(np.ones(10, dtype=np.float32), root=1, name='never')",
    "barrier": "shoal.barrier()",
    "shutdown": "shoal.shutdown()",
}


@MEMORY
@pytest.mark.parametrize("wait", list(WAITS))
def test_ctrl_c_ends_a_wait(gang, wait, shared_memory):
    """With KeyboardInterrupt for the one, and AbortedError, naming it, for the others."""
    waits = f"""
    shoal.init()
    tell(waiting=True)
    try:
        {WAITS[wait]}
    except KeyboardInterrupt:
        tell(kind="KeyboardInterrupt")
        raise
    """
    busy = TRAIN.replace("try:", "tell(waiting=True)\ntime.sleep(2.5)\ntry:")
    workers = gang.start([waits, busy], shared_memory=shared_memory)
    for worker in workers:
        worker.until(lambda line: "waiting" in line)
    time.sleep(0.5)
    since = time.monotonic()
    workers[0].interrupt()
    workers[0].end()
    took = time.monotonic() - since
    assert workers[0].told()[-1] == {"kind": "KeyboardInterrupt"}, workers[0].err.read_text()
    assert took < 1.9, f"{took:.1f} s: it was not the signal that ended the wait"
    error = failure(workers[1])
    assert (error["kind"], error["rank"]) == ("AbortedError", 0), error


def test_ctrl_c_ends_init(gang):
    """While the others are still to come."""
    script = """
    tell(waiting=True)
    try:
        shoal.init(num_workers=2)
    except KeyboardInterrupt:
        tell(kind="KeyboardInterrupt")
        sys.exit(7)
    """
    workers = gang.start([script, "time.sleep(30)"])
    workers[0].until(lambda line: "waiting" in line)
    time.sleep(0.7)
    since = time.monotonic()
    workers[0].interrupt()
    assert workers[0].end() == 7
    assert time.monotonic() - since < 5


def test_what_cannot_start_says_why(gang):
    """Settings, absence and tokens each have their error, and the error its advice."""
    script = """
    def raises(kind, *words, **settings):
        try:
            shoal.init(**settings)
        except kind as error:
            assert all(w in str(error) for w in words), str(error)
        else:
            raise AssertionError("it started")
    raises(shoal.SettingError, "block_size", "1024", block_size=7)
    raises(shoal.SettingError, "on_death", "continue", on_death="shrug")
    raises(shoal.SettingError, "SHOAL_TOKEN", token="")
    raises(shoal.ConnectError, "127.0.0.1:9", master_address="tcp://127.0.0.1:9", connect_timeout=1)
    raises(shoal.ConnectError, "token", token="guess")
    shoal.init()
    first = np.ones(10, dtype=np.float32)
    shoal.push_pull(first, name="again")
    try:
        shoal.push_pull(np.ones(11, dtype=np.float32), name="again")
    except shoal.UsageError as error:
        assert "again" in str(error) and "[10]" in str(error) and "[11]" in str(error), str(error)
    """
    gang.run(1, script)


def test_a_world_size_without_a_run_is_refused(tmp_path):
    """A script that nobody launched, or torchrun did, must not train alone on a part of the data."""
    import os
    import subprocess
    import sys

    def init(call="shoal.init()", **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_") and k not in ("RANK", "WORLD_SIZE")}
        argv = [sys.executable, "-c", f"import shoal; {call}; print(shoal.size())"]
        return subprocess.run(argv, env={**clean, **env}, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
        refused = init(**{name: "2", "RANK": "0"})
        assert refused.returncode == 1 and "SettingError" in refused.stderr, refused
        assert f"{name} is 2" in refused.stderr and "shoal run -n 2" in refused.stderr, refused.stderr
    for fine in (init(), init(WORLD_SIZE="1", RANK="0"), init("shoal.init(distributed=False)", WORLD_SIZE="2")):
        assert fine.returncode == 0 and fine.stdout.strip() == "1", fine.stderr
