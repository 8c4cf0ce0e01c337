"""Leaving in odd ways: finished workers, forked children, scripts that say they failed (GRAD-5, GANG-2)."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

MEMORY = pytest.mark.parametrize("shared_memory", [0, 1])

GOES_ON = """
shoal.init()
try:
    while True:
        shoal.push_pull(np.ones(1000, dtype=np.float32), name="w")
        time.sleep(0.01)
except shoal.ShoalError as error:
    tell(kind=type(error).__name__, rank=getattr(error, "rank", None), text=str(error))
"""


@MEMORY
def test_a_gather_with_a_hole_is_an_error(gang, shared_memory):
    """A finished worker has no row to give; memory nobody wrote must not pass as one."""
    finished = "shoal.init(); shoal.finish(); time.sleep(1)"
    gathers = """
    shoal.init()
    time.sleep(0.5)
    try:
        shoal.all_gather(np.ones(10, dtype=np.float32), name="g")
        tell(kind="none")
    except shoal.ShoalError as error:
        tell(kind=type(error).__name__, text=str(error))
        os._exit(0)
    """
    workers = gang.start([finished, gathers, gathers], shared_memory=shared_memory)
    for worker in workers[1:]:
        worker.end()
        told = worker.told()[-1]
        assert told["kind"] == "UsageError" and "worker 0" in told["text"] and "finish()" in told["text"], told


@MEMORY
def test_a_forked_child_leaves_the_parents_run_alone(gang, shared_memory):
    forks = """
    shoal.init()
    x = shoal.push_pull(np.ones(10, dtype=np.float32), op="sum", name="w")
    child = os.fork()
    if child == 0:
        try:
            shoal.push_pull(np.ones(10, dtype=np.float32), name="w")
        except shoal.UsageError as error:
            tell(child=str(error))
        sys.exit(0)
    os.waitpid(child, 0)
    y = shoal.push_pull(np.ones(10, dtype=np.float32), op="sum", name="w")
    tell(total=float(y[0]))
    """
    for worker in gang.start([forks, forks], shared_memory=shared_memory):
        assert worker.end() == 0, worker.err.read_text()
        told = worker.told()
        assert "forked" in told[0]["child"], told
        assert told[-1] == {"total": 2.0}


def test_a_script_that_exits_nonzero_has_not_finished(gang):
    fails = "shoal.init(); shoal.push_pull(np.ones(1000, dtype=np.float32), name='w'); sys.exit(3)"
    workers = gang.start([GOES_ON, fails])
    assert workers[1].end() == 3
    workers[0].end()
    told = workers[0].told()[-1]
    assert told["kind"] == "AbortedError" and told["rank"] == 1 and "sys.exit(3)" in told["text"], told


def test_a_failure_found_at_exit_fails_the_script(gang):
    """Rank 0 just ends and serves its shard; the run then fails, and it must not exit as if it had not."""
    ends = "shoal.init()"
    raises = "shoal.init(); time.sleep(0.5); raise ValueError('no luck')"
    workers = gang.start([ends, raises], shared_memory=0)
    workers[1].end()
    assert workers[0].end() == 1
    text = workers[0].err.read_text()
    assert "no luck" in text and "Traceback" not in text, text
