"""``torch.distributed`` over shoal: every collective against what it must give, and DDP against Gloo."""

import pytest
from gang import LONG

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("torch", reason="the backend is for PyTorch, which is not installed")

START = """
import torch, torch.distributed as dist
import shoal.torch.backend
torch.set_num_threads(1)
me = int(os.environ["SHOAL_CLIENT_ID"])
def start(world, backend="shoal", store="store"):
    dist.init_process_group(backend, init_method=f"file://{os.getcwd()}/{store}", rank=me, world_size=world)
"""

COLLECTIVES = START + """
start(3)
assert dist.get_backend() == "shoal" and dist.get_world_size() == 3 and shoal.rank() == me
def same(got, want):
    want = torch.as_tensor(want, dtype=got.dtype)
    assert torch.equal(got, want.expand(got.shape)), (got, want)

for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8):
    for n in (1, 7, 70_000):
        x = torch.full((n,), me + 1, dtype=dtype)
        dist.all_reduce(x)
        same(x, 6)
        for op, want in ((dist.ReduceOp.MAX, 3), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.PRODUCT, 6)):
            x = torch.full((n,), me + 1, dtype=dtype)
            dist.all_reduce(x, op)
            same(x, want)
        x = torch.full((n,), me + 1, dtype=dtype)
        dist.broadcast(x, 2)
        same(x, 3)
        out = [torch.zeros(n, dtype=dtype) for _ in range(3)]
        dist.all_gather(out, torch.full((n,), me + 1, dtype=dtype))
        for r in range(3):
            same(out[r], r + 1)
        flat = torch.zeros(3 * n, dtype=dtype)
        dist.all_gather_into_tensor(flat, torch.full((n,), me + 1, dtype=dtype))
        same(flat.view(3, n), [[1], [2], [3]])
x = torch.full((5,), me + 1.0)
dist.all_reduce(x, dist.ReduceOp.AVG)
same(x, 2)
big = torch.tensor([2**62, -(2**61), 2**53 + 1 + me])
dist.all_reduce(big, dist.ReduceOp.MAX)
same(big, [2**62, -(2**61), 2**53 + 3])
exact = torch.tensor([2**53 + 1])
dist.all_reduce(exact)
same(exact, [3 * (2**53 + 1)])
flags = torch.tensor([me == 1, True, False])
dist.all_reduce(flags, dist.ReduceOp.MAX)
assert flags.tolist() == [True, True, False]
bits = torch.tensor([1 << me])
dist.all_reduce(bits, dist.ReduceOp.BOR)
same(bits, 7)
z = torch.full((4,), complex(me, 1))
dist.all_reduce(z)
assert (z == complex(3, 3)).all()
strided = torch.zeros(4, 6)[:, ::2]
strided += me + 1
dist.all_reduce(strided)
same(strided, 6)

x = torch.arange(6.0) * (me + 1)
part = torch.zeros(2)
dist.reduce_scatter_tensor(part, x)
same(part, torch.arange(6.0).view(3, 2)[me] * 6)
part = torch.zeros(2, dtype=torch.int64)
dist.reduce_scatter(part, [torch.tensor([r, me]) for r in range(3)])
same(part, [3 * me, 3])
x = torch.full((4,), me + 1.0)
dist.reduce(x, 1)
same(x, 6 if me == 1 else me + 1)
out = [torch.zeros(3) for _ in range(3)] if me == 2 else None
dist.gather(torch.full((3,), float(me)), out, dst=2)
if me == 2:
    same(torch.stack(out), [[0], [1], [2]])
got = torch.zeros(3)
dist.scatter(got, [torch.full((3,), 10.0 + r) for r in range(3)] if me == 0 else None, src=0)
same(got, 10 + me)
got = [torch.zeros(2) for _ in range(3)]
dist.all_to_all(got, [torch.full((2,), 10.0 * me + r) for r in range(3)])
same(torch.stack(got), [[10.0 * r + me] for r in range(3)])
flat = torch.zeros(3)
dist.all_to_all_single(flat, torch.arange(3.0) + 10 * me)
same(flat, [me, 10 + me, 20 + me])
everything = [None] * 3
dist.all_gather_object(everything, {"rank": me, "text": "x" * (100 * me)})
assert [e["rank"] for e in everything] == [0, 1, 2] and len(everything[2]["text"]) == 200
words = [me, "from 0"] if me == 0 else [None, None]
dist.broadcast_object_list(words, src=0)
assert words == [0, "from 0"]
dist.barrier()
tell(collectives=True)

# From one to one: sizes differ under one tag, several under way at once.
if me == 0:
    dist.send(torch.arange(5), 1)
    dist.send(torch.arange(9.0), 1)
    works = [dist.isend(torch.full((3,), float(i)), 2, tag=i) for i in range(10)]
    [w.wait() for w in works]
elif me == 1:
    a, b = torch.zeros(5, dtype=torch.int64), torch.zeros(9)
    dist.recv(a, 0)
    dist.recv(b, src=0)
    same(a, torch.arange(5))
    same(b, torch.arange(9.0))
else:
    places = [torch.zeros(3) for _ in range(10)]
    works = [dist.irecv(places[i], 0, tag=i) for i in reversed(range(10))]
    [w.wait() for w in works]
    same(torch.stack(places), torch.arange(10.0)[:, None])

# Many at once, waited for in another order; futures.
xs = [torch.full((1000,), float(i + me)) for i in range(20)]
works = [dist.all_reduce(x, async_op=True) for x in xs]
for work in reversed(works):
    work.wait()
for i, x in enumerate(xs):
    same(x, 3 * i + 3)
x = torch.ones(1000)
same(dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2).wait(), 6)

# Groups: in any order of creation, with other members, and one that nobody here is in.
pair, other = dist.new_group([0, 2]), dist.new_group([1, 2])
if me in (0, 2):
    x = torch.full((1000,), me + 1.0)
    dist.all_reduce(x, group=pair)
    same(x, 4)
    dist.broadcast(x, src=2, group=pair)
if me in (1, 2):
    out = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(out, torch.full((2,), float(me)), group=other)
    same(torch.stack(out), [[1], [2]])
try:
    dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND)
except (ValueError, RuntimeError) as error:
    assert "bitwise" in str(error), error
else:
    raise AssertionError("a bitwise reduction of floats")
dist.destroy_process_group()
assert not shoal.is_initialized()
tell(done=True)
"""


@pytest.mark.parametrize("way", [{"shared_memory": 0}, {"shared_memory": 1, "servers": 1}])
def test_every_collective(gang, way):
    assert all(told["done"] for told in gang.run(3, COLLECTIVES, **way))


DDP = START + """
from torch.nn.parallel import DistributedDataParallel as DDP

def train(backend):
    start(2, backend, backend)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 64),
        torch.nn.ReLU(), torch.nn.Linear(64, 10))
    if me == 1:  # must not matter: rank 0's are broadcast
        torch.nn.init.zeros_(model[-1].weight)
    model = DDP(model, bucket_cap_mb=0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for step in range(8):
        x, y = torch.randn(16, 1, 8, 8, generator=generator), torch.randint(10, (16,), generator=generator)
        mine = slice(8 * me, 8 * me + 8)
        if step == 3:
            with model.no_sync():
                torch.nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
        loss = torch.nn.functional.cross_entropy(model(x[mine]), y[mine])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    dist.destroy_process_group()
    return losses, weights

losses, weights = train("shoal")
expected, like = train("gloo")
tell(losses=losses, expected=expected, apart=float((weights - like).abs().max()), last=weights[-1].item())
"""


@pytest.mark.parametrize("shared_memory", [0, 1])
def test_ddp_trains_as_with_gloo(gang, shared_memory):
    told = gang.run(2, DDP, shared_memory=shared_memory)
    for rank in told:
        assert rank["losses"] == pytest.approx(rank["expected"], abs=1e-5), rank
        assert rank["apart"] < 1e-4, rank
    assert told[0]["last"] == told[1]["last"]


def test_a_death_in_the_middle_is_named(gang):
    script = START + """
start(3)
for step in range(1000):
    if me == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        work = dist.all_reduce(torch.ones(100_000), async_op=True)
        work.get_future().wait() if me == 0 else work.wait()
    except (shoal.ShoalError, RuntimeError) as error:
        tell(text=str(error))
        os._exit(0)
"""
    workers = gang.start([script] * 3)
    for worker in (workers[0], workers[2]):
        assert worker.end() == 0, worker.err.read_text()
        assert "worker 1" in worker.told()[-1]["text"], worker.told()


def test_the_environment_of_a_launcher_is_enough_and_without_a_run_it_says_so(gang):
    script = START + """
os.environ.update(RANK=str(me), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
dist.init_process_group("shoal")
x = torch.ones(3)
dist.all_reduce(x)
assert x.tolist() == [2, 2, 2]
dist.destroy_process_group()
address = os.environ.pop("SHOAL_MASTER_ADDRESS")
try:
    start(2, store="again")
except shoal.SettingError as error:
    tell(text=str(error))
"""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    for told in gang.run(2, f"PORT = '{port}'\n" + script):
        assert "shoal run" in told["text"]


def test_torch_knows_the_backend_without_an_import():
    """Through its entry point: a script changes one word."""
    import importlib.metadata
    import subprocess
    import sys

    if "shoal" not in {entry.name for entry in importlib.metadata.entry_points(group="torch.backends")}:
        pytest.skip("the wheel is not installed: `cargo xtask test --only python` does it")
    ask = "import torch.distributed as dist, sys; print(dist.Backend('shoal'), 'shoal.torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=120, cwd="/")
    assert done.stdout.split() == ["shoal", "False"], done


ANYONE = START + """
start(3)
# A batch of sends and receives, in any order: a ring.
x, y = torch.full((5,), float(me)), torch.zeros(5)
after, before = (me + 1) % 3, (me + 2) % 3
for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, y, before), dist.P2POp(dist.isend, x, after)]):
    work.wait()
assert (y == before).all(), y
# Many sends before the first receive, on all sides.
sent = [torch.full((5,), 10.0 * me + k) for k in range(10)]
came = [torch.zeros(5) for _ in sent]
for work in [dist.isend(x, after) for x in sent] + [dist.irecv(y, before) for y in came]:
    work.wait()
assert [float(y[4]) for y in came] == [10.0 * before + k for k in range(10)], came
# Asking whether something is over does not wait for it.
if me > 0:
    dist.barrier()
part = torch.zeros(2)
work = dist.reduce_scatter(part, [torch.full((2,), float(k)) for k in range(3)], async_op=True)
if me == 0:
    assert not work.is_completed()
    dist.barrier()
work.wait()
assert (part == 3 * me).all(), part
# Whoever sends: two each from the others, and one by name in between.
if me == 0:
    got, tensor = [], torch.zeros(3)
    for _ in range(3):
        source = dist.recv(tensor)
        got.append(source)
        assert (tensor == source).all(), (source, tensor)
    left = 1 if got.count(1) == 1 else 2
    assert dist.recv(tensor, src=left) == left and (tensor == left).all()
    assert sorted([*got, left]) == [1, 1, 2, 2], got
    work = dist.irecv(tensor, tag=7)
    assert not work.is_completed()
    dist.barrier()
    work.wait()
    assert work._source_rank() == 2 and (tensor == 70).all()
else:
    for _ in range(2):
        dist.send(torch.full((3,), float(me)), 0)
    dist.barrier()
    if me == 2:
        dist.send(torch.full((3,), 70.0), 0, tag=7)
pair = dist.new_group([1, 2])
if me == 1:
    dist.send(torch.ones(2), 2, group=pair)
elif me == 2:
    tensor = torch.zeros(2)
    assert dist.recv(tensor, group=pair) == 1 and (tensor == 1).all()
dist.destroy_process_group()
tell(anyone=True)
"""


def test_batches_and_receiving_from_anyone(gang):
    """What pipelines and task farms use: ``batch_isend_irecv``, and ``recv`` without a source."""
    assert gang.run(3, ANYONE) == [{"anyone": True}] * 3


MESH = START + """
from torch.distributed.device_mesh import init_device_mesh
start(2)
# Rows of different lengths, an empty one among them.
rows = [torch.zeros(k, 2) for k in range(2)]
dist.all_gather(rows, torch.full((me, 2), 1.0 + me))
assert rows[1].tolist() == [[2.0, 2.0]], rows
try:
    dist.broadcast(torch.zeros(1), src=7)
except ValueError as error:
    assert "rank 7" in str(error), error
# What device meshes are made of: a group by its name. Sharded models of torch stand on them.
mesh = init_device_mesh("cpu", (2,))
total = torch.ones(3)
dist.all_reduce(total, group=mesh.get_group())
assert (total == 2).all()
from torch.distributed.tensor import Shard, distribute_tensor
whole = torch.arange(12.0).reshape(6, 2)
shards = distribute_tensor(whole, mesh, [Shard(0)])
assert torch.equal(shards.full_tensor(), whole) and float(shards.sum().full_tensor()) == 66
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model, alone = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)
alone.load_state_dict(model.state_dict())
fully_shard(model, mesh=mesh)
x = torch.randn(2, 5, 6)
for net, part in ((model, x[me]), (alone, x.reshape(-1, 6))):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net(part).square().mean().backward()
    optimizer.step()
for ours, theirs in zip(model.parameters(), alone.parameters()):
    assert torch.allclose(ours.full_tensor(), theirs, atol=1e-6)
dist.destroy_process_group()
tell(mesh=True)
"""


def test_meshes_and_rows_of_different_lengths(gang):
    """``init_device_mesh``, and what stands on it; and an ``all_gather`` whose outputs differ in size."""
    pytest.importorskip("torch.distributed.tensor", reason="this PyTorch has no DTensor")
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this PyTorch has no fully_shard")
    assert gang.run(2, MESH) == [{"mesh": True}] * 2


WAITING = START + """
start(3)
if me == 1:
    os._exit(9)
try:
    dist.recv(torch.zeros(3))
except shoal.DeadRankError as error:
    tell(rank=error.rank)
os._exit(0)
"""


def test_who_waits_for_anyone_hears_of_a_death(gang):
    workers = gang.start([WAITING] * 3)
    for worker in (workers[0], workers[2]):
        assert worker.until(lambda line: "rank" in line) == {"rank": 1}


def test_threads_may_start_operations_of_one_kind_and_a_timeout_is_answered(gang):
    script = START + """
import datetime
dist.init_process_group("shoal", init_method=f"file://{os.getcwd()}/store", rank=me, world_size=2,
                        timeout=datetime.timedelta(minutes=7))
errors, group = [], dist.group.WORLD
# Many threads at once: the kind is the same, so any two of them have the same sum.
sys.setswitchinterval(1e-6)
def many():
    try:
        for _ in range(150):
            x = torch.ones(3)
            dist.all_reduce(x)
            assert x.tolist() == [2, 2, 2], x
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=many) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
dist.destroy_process_group()
"""
    started = gang.start([script] * 2, shared_memory=0)
    for worker in started:
        assert worker.end(2 * LONG) == 0, worker.err.read_text()
        assert worker.err.read_text().count("timeout=0:07:00 is not used") == 1
