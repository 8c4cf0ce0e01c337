"""Gathers that go on without those who are gone, and half types without an extra package (GRAD-3, GRAD-5)."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

WAYS = pytest.mark.parametrize("way", [{"shared_memory": 0}, {"shared_memory": 1}, {"servers": 2, "shared_memory": 1}])

# Rank r gathers 2 r times and finishes; who is left keeps what was in the rows of those who have gone.
LEAVING = """
shoal.init()
me = shoal.rank()
for step in range(2 * me):
    for n in (1, 3000, 200_000):
        a = np.full((3, n), -1.0, dtype=np.float32)
        a[me] = 10 * me + step
        h = shoal.all_gather_async(a, f"g{n}", partial=True)
        h.wait()
        gone = [r for r in range(3) if step >= 2 * r]
        assert h.absent() == gone, (h.absent(), gone)
        for r in range(3):
            assert (a[r] == (-1 if r in gone else 10 * r + step)).all(), (step, n, r, a[r])
shoal.finish()
tell(steps=2 * me)
"""

# Rank 2 dies between two gathers.
DYING = """
shoal.init(on_death="continue")
me, seen = shoal.rank(), []
for step in range(300):
    a = np.full((3, 5000), -1.0, dtype=np.float32)
    a[me] = step
    h = shoal.all_gather_async(a, "g", partial=True)
    h.wait()
    if me == 2 and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(h.absent())
    if 2 not in h.absent():
        assert (a == step).all()
    elif seen[-2:] == [[2], [2]]:
        assert (a[2] == -1).all() and (a[:2] == step).all()
        break
tell(seen=seen[4:])
"""


@WAYS
def test_rows_of_the_finished_stay_as_they_were(gang, way):
    assert [told["steps"] for told in gang.run(3, LEAVING, **way)] == [0, 2, 4]


def test_a_death_is_survived_where_the_run_goes_on(gang):
    workers = gang.start([DYING] * 3, servers=1)
    assert workers[2].end() == -9
    assert workers[0].end() == 0 and workers[1].end() == 0, workers[0].err.read_text()
    seen = [worker.told()[-1]["seen"] for worker in workers[:2]]
    assert seen[0] == seen[1] and seen[0][-1] == [2], seen


@pytest.mark.parametrize("shared_memory", [0, 1])
def test_a_death_under_fail_is_still_the_named_error(gang, shared_memory):
    script = """
    shoal.init()
    me = shoal.rank()
    a = np.zeros((3, 1000), dtype=np.float32)
    shoal.all_gather_async(a, "g", partial=True).wait()
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        shoal.all_gather_async(a, "g", partial=True).wait()
    except shoal.DeadRankError as error:
        tell(rank=error.rank)
        os._exit(0)
    """
    workers = gang.start([script] * 3, shared_memory=shared_memory)
    for worker in (workers[0], workers[2]):
        assert worker.end() == 0, worker.err.read_text()
        assert worker.told()[-1] == {"rank": 1}


def test_whether_holes_are_allowed_must_agree(gang):
    script = """
    shoal.init()
    a = np.zeros((2, 100_000), dtype=np.float32)
    from shoal import _api
    try:
        _api._current().all_gather_async(a, "g", 0, shoal.rank() == 0).wait()
    except shoal.MismatchError as error:
        tell(text=str(error))
        os._exit(0)
    """
    workers = gang.start([script] * 2, shared_memory=0)
    for worker in workers:
        assert worker.end() == 0, worker.err.read_text()
        assert "partial differs" in worker.told()[-1]["text"]


HALVES = """
shoal.init()
me = shoal.rank()
def bits(x):
    return (np.asarray(x, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
for n in (10, 300_000):
    x = bits(np.full(n, me + 1.0))
    shoal.push_pull(x, op="sum", name=f"b{n}", dtype="bfloat16")
    assert (x == bits(np.full(n, 3.0))).all()
x = bits(np.full(7, me + 1.0))
shoal.push_pull(x, dtype="bfloat16")
assert (x == bits(np.full(7, 1.5))).all()
h = np.full(7, me + 1.0, dtype=np.float16)
shoal.push_pull(h.view(np.uint16), op="sum", name="h", dtype="float16")
assert (h == 3).all()
x = bits(np.full(7, me + 1.0))
shoal.broadcast_async(x, 1, "c", dtype="bfloat16").wait()
assert (x == bits(np.full(7, 2.0))).all()
for array, dtype in ((np.zeros(3, dtype=np.uint16), None), (np.zeros(3, dtype=np.float32), "bfloat16")):
    try:
        shoal.push_pull(array, name="odd", dtype=dtype)
    except TypeError as error:
        assert "bfloat16" in str(error), error
    else:
        raise AssertionError(dtype)
tell(ok=True)
"""


@pytest.mark.parametrize("shared_memory", [0, 1])
def test_bfloat16_as_plain_bits(gang, shared_memory):
    assert all(told["ok"] for told in gang.run(2, HALVES, shared_memory=shared_memory))
