"""A new process in place of a dead worker, at a step boundary (GRAD-3, GRAD-5)."""

import time

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

# The loop of docs/guides/bad-days.md: the same script for those who start the run and those who join it.
TRAIN = """
shoal.init(on_death="continue")
weights, step = np.zeros(1000), np.zeros(1)

def fetch():
    shoal.broadcast(weights, root=shoal.root(), name="weights")
    shoal.broadcast(step, root=shoal.root(), name="step")

fetch()
tell(late=shoal.joined_late(), rank=shoal.rank(), at=int(step[0]))
while step[0] < 400:
    gradient = np.full(1000, 10.0 ** shoal.rank())
    shoal.push_pull(gradient, op="sum", name="gradient")
    weights += gradient
    step += 1
    tell(step=int(step[0]), sum=float(gradient[-1]), weight=float(weights[0]))
    joined = shoal.admit()
    if joined:
        tell(joined=joined, members=shoal.members(), root=shoal.root())
        fetch()
    time.sleep(0.005)
shoal.shutdown()
"""


def test_a_newcomer_trains_on_where_the_others_are(gang):
    workers = gang.start([TRAIN] * 3, servers=2)
    workers[0].until(lambda line: line.get("step", 0) >= 5)
    workers[0].kill()
    newcomer = gang.add("newcomer", 0, TRAIN)
    assert newcomer.until(lambda line: "late" in line)["late"] is True
    for worker in [*workers[1:], newcomer]:
        assert worker.end() == 0, worker.err.read_text()
    last = [worker.told()[-1] for worker in [*workers[1:], newcomer]]
    assert last[0] == last[1] == last[2] and last[0]["step"] == 400 and last[0]["sum"] == 111.0, last
    first = newcomer.told()[0]
    assert first["rank"] == 0 and first["at"] > 0, first
    assert {"joined": [0], "members": [0, 1, 2], "root": 1} in workers[1].told()


def test_a_wait_for_admission_ends(gang):
    """By its own patience, by Ctrl-C, or with the run; each with its own error."""
    busy = """
    shoal.init(on_death="continue")
    tell(ready=True)
    while not os.path.exists("done"):
        shoal.push_pull(np.ones(10), name="w")
        time.sleep(0.01)
    os._exit(0)
    """
    joins = """
    tell(waiting=True)
    try:
        shoal.init(on_death="continue", connect_timeout=TIME)
    except BaseException as error:
        tell(kind=type(error).__name__, text=str(error))
        sys.exit(7)
    """
    workers = gang.start([busy] * 2, servers=1)
    for worker in workers:
        worker.until(lambda line: "ready" in line)
    workers[1].kill()
    time.sleep(0.5)
    impatient = gang.add("impatient", 1, joins.replace("TIME", "1"))
    assert impatient.end() == 7
    error = impatient.told()[-1]
    assert error["kind"] == "ConnectError" and "admit()" in error["text"], error
    interrupted = gang.add("interrupted", 1, joins.replace("TIME", "60"))
    interrupted.until(lambda line: "waiting" in line)
    time.sleep(0.7)
    interrupted.interrupt()
    assert interrupted.end(5) == 7 and interrupted.told()[-1]["kind"] == "KeyboardInterrupt"
    time.sleep(0.3)
    too_late = gang.add("too_late", -1, joins.replace("TIME", "60"))
    too_late.until(lambda line: "waiting" in line)
    time.sleep(0.7)
    (gang.folder / "done").touch()
    assert too_late.end(10) == 7
    assert too_late.told()[-1]["kind"] == "ConnectError", too_late.told()


def test_admit_is_free_where_nobody_can_join(gang):
    script = """
    shoal.init()
    assert shoal.admit() == [] and shoal.members() == [0, 1] and shoal.root() == 0 and not shoal.joined_late()
    """
    gang.run(2, script)


def test_admit_needs_an_idle_worker(gang):
    script = """
    shoal.init(on_death="continue")
    if shoal.rank() == 0:
        handle = shoal.push_pull_async(np.ones(10), name="w")
        try:
            shoal.admit()
        except shoal.UsageError as error:
            tell(text=str(error))
        shoal.barrier()
        handle.wait()
    else:
        shoal.barrier()
        shoal.push_pull(np.ones(10), name="w")
    assert shoal.admit() == []
    """
    workers = gang.start([script] * 2, servers=1)
    for worker in workers:
        assert worker.end() == 0, worker.err.read_text()
    assert "wait for it before admit()" in workers[0].told()[-1]["text"]
