"""The package with NumPy arrays: results, handles, and who holds the memory and the interpreter's lock (PY-1)."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

MEMORY = pytest.mark.parametrize("shared_memory", [0, 1])


@MEMORY
def test_sum_mean_and_weighted_mean(gang, shared_memory):
    """Each is what it says, for small and large arrays and all types."""
    script = """
    shoal.init()
    r = shoal.rank()
    for n in (1, 1000, 700_000):
        x = np.full(n, r + 1, dtype=np.float32)
        shoal.push_pull(x, op="sum", name=f"sum {n}")
        assert (x == 6).all()
        x = np.full(n, r + 1, dtype=np.float64)
        shoal.push_pull(x, name=f"mean {n}")
        assert np.allclose(x, 2)
        x = np.full(n, r + 1, dtype=np.float16)
        shoal.push_pull(x, name=f"weighted {n}", weight=[1, 1, 2][r])
        assert np.allclose(x, 9 / 4, atol=1e-2)
        x = np.full(n, np.nan if r == 1 else r + 1, dtype=np.float32)
        shoal.push_pull(x, name=f"not counted {n}", weight=[1, 0, 1][r])
        assert np.allclose(x, 2)
        matrix = np.full((n, 2), r, dtype=np.float32)
        assert shoal.push_pull(matrix) is matrix and (matrix == 1).all()
    tell(rank=r, size=shoal.size())
    shoal.shutdown()
    """
    assert gang.run(3, script, shared_memory=shared_memory) == [{"rank": r, "size": 3} for r in range(3)]


@MEMORY
def test_handles(gang, shared_memory):
    """Many under way at once, waited for in another order on each rank; names may be left out."""
    script = """
    shoal.init()
    r = shoal.rank()
    arrays = [np.full(1 + 50_000 * i, r + i, dtype=np.float32) for i in range(8)]
    handles = [shoal.push_pull_async(a, op="sum", name=f"k{i}", priority=i) for i, a in enumerate(arrays)]
    for i in (range(8) if r == 0 else reversed(range(8))):
        assert handles[i].wait() is arrays[i]
        assert handles[i].done() and (arrays[i] == 1 + 2 * i).all()
        assert handles[i].wait() is arrays[i]
    unnamed = [shoal.push_pull_async(np.ones(10, dtype=np.float32), op="sum") for _ in range(3)]
    assert all((h.wait() == 2).all() for h in unnamed)
    """
    gang.run(2, script, shared_memory=shared_memory)


@MEMORY
def test_broadcast_all_gather_and_barrier(gang, shared_memory):
    script = """
    shoal.init()
    r = shoal.rank()
    for n in (3, 400_000):
        x = np.full(n, r, dtype=np.float32)
        assert (shoal.broadcast(x, root=2, name=f"w{n}") == 2).all()
        rows = shoal.all_gather(np.full(n, r, dtype=np.float64), name=f"g{n}")
        assert rows.shape == (3, n) and (rows.mean(axis=1) == [0, 1, 2]).all()
    time.sleep(0.2 * r)
    before = time.time()
    shoal.barrier()
    tell(before=before, after=time.time())
    """
    told = gang.run(3, script, shared_memory=shared_memory)
    assert min(t["after"] for t in told) >= max(t["before"] for t in told)


@MEMORY
def test_results_are_written_in_place(gang, shared_memory):
    """No copy on the way out or in: the same memory, also where the array is a part of a larger one."""
    script = """
    shoal.init()
    whole = np.arange(300_000, dtype=np.float32)
    part = whole[1000:201_000].reshape(400, 500)
    at = part.ctypes.data
    out = shoal.push_pull(part, op="sum", name="part")
    assert out is part and part.ctypes.data == at and part.base is not None
    assert (whole[1000:201_000] == 2 * np.arange(1000, 201_000, dtype=np.float32)).all()
    assert (whole[:1000] == np.arange(1000)).all() and (whole[201_000:] == np.arange(201_000, 300_000)).all()
    """
    gang.run(2, script, shared_memory=shared_memory)


@MEMORY
def test_other_threads_run_while_one_waits(gang, shared_memory):
    """PY-1: the lock is free while a worker waits for a slow peer."""
    script = """
    shoal.init()
    ticks, stop = 0, False
    def count():
        global ticks
        while not stop:
            ticks += 1
            time.sleep(0.001)
    thread = threading.Thread(target=count)
    thread.start()
    shoal.barrier()
    if shoal.rank() == 1:
        time.sleep(1.5)
    ticks = 0
    shoal.push_pull(np.ones(500_000, dtype=np.float32), name="x")
    tell(ticks=ticks)
    stop = True
    thread.join()
    """
    told = gang.run(2, script, shared_memory=shared_memory)
    assert told[0]["ticks"] > 100, told


def test_a_process_by_itself(gang):
    """Without a master, a token or a network: every operation is its own result, and misuse is still told."""
    script = """
    shoal.init(distributed=False)
    assert (shoal.rank(), shoal.size(), shoal.is_initialized()) == (0, 1, True)
    x = np.arange(5, dtype=np.float32)
    assert (shoal.push_pull(x, op="sum", name="x") == np.arange(5)).all()
    assert (shoal.push_pull(x, weight=3) == np.arange(5)).all()
    assert (shoal.broadcast(x) == np.arange(5)).all()
    assert shoal.all_gather(x).shape == (1, 5)
    shoal.barrier()
    assert shoal.stats()["operations"] >= 3
    try:
        shoal.init(distributed=False)
    except shoal.UsageError as error:
        assert "before" in str(error)
    shoal.shutdown()
    try:
        shoal.rank()
    except shoal.ShutDownError as error:
        tell(said=str(error))
    """
    assert "init" in gang.run(1, script, token="")[0]["said"]


def test_arrays_that_cannot_be_worked_on_are_refused_with_advice(gang):
    """By the type of error that Python programmers expect, before anything is sent."""
    script = """
    shoal.init(distributed=False)
    def refused(array, kind, *words):
        for call in (shoal.push_pull, shoal.push_pull_async, shoal.broadcast):
            try:
                call(array, name="x")
            except kind as error:
                assert all(w in str(error) for w in words), str(error)
            else:
                raise AssertionError(f"{call.__name__} took it")
    read_only = np.ones(4, dtype=np.float32)
    read_only.flags.writeable = False
    refused(read_only, ValueError, "read-only", "copy")
    refused(np.ones((4, 4), dtype=np.float32)[:, 1], ValueError, "contiguous", "ascontiguousarray")
    refused(np.ones((4, 4), dtype=np.float32).T[1:], ValueError, "contiguous")
    refused(np.ones(4, dtype=np.int64), TypeError, "int64", "float32")
    refused(np.ones(4, dtype=">f4"), TypeError, "byte order")
    refused([1.0, 2.0], TypeError, "numpy.ndarray", "list")
    refused(None, TypeError, "numpy.ndarray")
    unaligned = np.frombuffer(bytearray(41), dtype=np.uint8)[1:].view(np.float32)
    refused(unaligned, ValueError, "aligned")
    for op, weight in (("max", None), (None, float("nan")), (None, -1)):
        try:
            shoal.push_pull(np.ones(3, dtype=np.float32), op=op, weight=weight, name="y")
        except ValueError:
            continue
        raise AssertionError((op, weight))
    """
    gang.run(1, script)
