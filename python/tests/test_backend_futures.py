"""What PyTorch builds on the backend: callbacks of futures that await operations of their own, DDP's hooks, and DDP compiled."""

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("torch", reason="the backend is for PyTorch, which is not installed")

START = """
import torch, torch.distributed as dist
import shoal.torch.backend
torch.set_num_threads(1)
me = int(os.environ["SHOAL_CLIENT_ID"])
dist.init_process_group("shoal", init_method=f"file://{os.getcwd()}/store", rank=me, world_size=2)
"""

NESTED = START + """
def future_of(value):
    return dist.all_reduce(torch.full((3,), float(value)), async_op=True).get_future()

def twice(future):
    return future_of(future.value()[0][0]).wait()[0]

def deeper(future):
    # Not the operation's own future, but one that follows from it.
    return future_of(future.value()[0]).then(twice).wait()

first = [future_of(i) for i in range(5)]
# Long enough that what follows is still under way.
long = dist.all_reduce(torch.ones(8_000_000), async_op=True).get_future()
earlier, later = future_of(7), future_of(9)
waits_for_a_later_one = earlier.then(lambda future: later.wait())
for i, future in enumerate(first):
    got = future.then(twice).then(deeper).wait()
    assert got.tolist() == [16.0 * i] * 3, got
assert waits_for_a_later_one.wait()[0].tolist() == [18.0] * 3
tell(nested=True)
os._exit(0)
"""


def test_a_callback_may_wait_for_operations_of_its_own(gang):
    assert gang.run(2, NESTED) == [{"nested": True}] * 2


HOOKS = START + """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.ReLU(), torch.nn.Linear(60, 50), torch.nn.Linear(50, 2))
# Small buckets: several are under way at once.
wrapped = DistributedDataParallel(model, bucket_cap_mb=0.001)
if NAME == "powersgd":
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
else:
    wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
x = torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(1))[me]
y = x[:, :2]
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = (wrapped(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
whole = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
rows = [torch.empty_like(whole) for _ in range(2)]
dist.all_gather(rows, whole)
tell(alike=torch.equal(rows[0], rows[1]), learnt=losses[-1] < losses[0])
os._exit(0)
"""


@pytest.mark.parametrize("name", ["bf16", "powersgd"])
def test_hooks_of_ddp_end_and_keep_replicas_alike(gang, name):
    """PowerSGD's hook waits in a callback for the next of its operations."""
    assert gang.run(2, HOOKS.replace("NAME", repr(name))) == [{"alike": True, "learnt": True}] * 2


COMPILED = START + """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
compiled = torch.compile(DistributedDataParallel(model), backend="eager")
x = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))[me]
for _ in range(2):
    model.zero_grad()
    compiled(x).square().mean().backward()
gradients = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
rows = [torch.empty_like(gradients) for _ in range(2)]
dist.all_gather(rows, gradients)
tell(alike=torch.equal(rows[0], rows[1]))
os._exit(0)
"""


def test_ddp_may_be_compiled(gang):
    """Its buffers travel in the forward pass, from C++, while the compiler watches."""
    assert gang.run(2, COMPILED) == [{"alike": True}] * 2
