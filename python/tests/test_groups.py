"""Operations of some of the workers, and from one to another: they wait for their own alone, and differences are named."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

WAYS = pytest.mark.parametrize("way", [{"shared_memory": 0}, {"shared_memory": 1}, {"servers": 2, "shared_memory": 1}])

GROUPS = """
shoal.init()
me = shoal.rank()
groups = [[0, 2], [1, 2, 3], [3], [0, 1, 2, 3]]
for turn in range(3):
    for n in (1, 1000, 400_000):
        for members in groups:
            if me not in members:
                continue
            x = np.full(n, me + 1.0, dtype=np.float32)
            shoal.push_pull_async(x, op="sum", name=f"sum {members} {n}", members=members).wait()
            assert (x == sum(r + 1 for r in members)).all(), (members, n, x)
            a = np.zeros((len(members), n), dtype=np.float32)
            a[members.index(me)] = me
            shoal.all_gather_async(a, f"rows {members} {n}", members=members).wait()
            assert (a == np.array(members)[:, None]).all(), (members, n, a)
            x[:] = me
            shoal.broadcast_async(x, members[-1], f"copy {members} {n}", members=members).wait()
            assert (x == members[-1]).all()
    # Around a ring, both at once.
    out, back = np.full(100_000, me, dtype=np.float32), np.zeros(100_000, dtype=np.float32)
    handles = [shoal.send_async(out, (me + 1) % 4, "ring"), shoal.recv_async(back, (me - 1) % 4, "ring")]
    for handle in handles:
        handle.wait()
    assert (back == (me - 1) % 4).all()
for bad in ([0, 0, me], [me, 9], [r for r in range(3) if r != me][:2], [-1, me]):
    try:
        shoal.push_pull_async(np.zeros(3, dtype=np.float32), name="odd", members=bad).wait()
    except (shoal.UsageError, ValueError) as error:
        assert "member" in str(error), error
    else:
        raise AssertionError(bad)
tell(ok=True)
"""


@WAYS
def test_groups_sum_gather_copy_and_send(gang, way):
    assert all(told["ok"] for told in gang.run(4, GROUPS, **way))


def test_a_group_goes_on_when_another_has_finished_and_when_another_died(gang):
    """A finished or dead worker is nothing to a group it is not in."""
    script = """
    shoal.init(on_death="continue")
    me = shoal.rank()
    if me == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if me == 3:
        shoal.finish()
    else:
        for step in range(50):
            x = np.full(200_000, me, dtype=np.float32)
            shoal.push_pull_async(x, op="sum", name="pair", members=[0, 1]).wait()
            assert (x == 1).all()
            shoal.broadcast_async(x, 0, "copy", members=[0, 1]).wait()
            time.sleep(0.01)
    tell(ok=True)
    """
    workers = gang.start([script] * 4, servers=1)
    for rank in (0, 1, 3):
        assert workers[rank].end() == 0, workers[rank].err.read_text()


def test_members_that_differ_are_named(gang):
    script = """
    shoal.init()
    x = np.zeros(10, dtype=np.float32)
    members = [0, 1] if shoal.rank() == 0 else [0, 1, 2]
    try:
        shoal.push_pull_async(x, name="g", members=members).wait()
    except shoal.MismatchError as error:
        tell(text=str(error))
        os._exit(0)
    """
    workers = gang.start([script] * 2 + ["shoal.init(); time.sleep(1); os._exit(0)"], shared_memory=0)
    for worker in workers[:2]:
        assert worker.end() == 0, worker.err.read_text()
        text = worker.told()[-1]["text"]
        assert "members differs" in text and "[0, 1]" in text and "worker 0" in text and "worker 1" in text, text


def test_names_that_go_round_need_no_more_memory(gang):
    script = """
    import resource
    shoal.init()
    me = shoal.rank()
    x = np.zeros(1000, dtype=np.float32)
    def rounds(count):
        for i in range(count):
            if me < 2:
                (shoal.send_async if me == 0 else shoal.recv_async)(x, 1 - me, f"p{i % 4}").wait()
    rounds(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds(6000)
    tell(grown=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    assert all(told["grown"] < 3000 for told in gang.run(3, script, shared_memory=0))
