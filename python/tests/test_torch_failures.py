"""Bad days with PyTorch: who fails is named to the others by step(), who is done leaves quietly (GRAD-5, GANG-2)."""

import importlib.util
import time

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")
if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed: `pip install torch`", allow_module_level=True)

MODEL = """
import torch, shoal.torch
import torch.nn.functional as F
from torch import nn
torch.set_num_threads(1)

class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, act):
        ctx.act = act
        return x.clone()
    @staticmethod
    def backward(ctx, dy):
        ctx.act()
        return dy, None

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16), nn.LayerNorm(16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

TRAIN = """
where = "start"
try:
    shoal.torch.distribute(model, optimizer, use_sfb=True)  # so some gradients are factors, and some are whole
    for step in range(10_000):
        where = "forward"
        x = torch.randn(8, 16)
        optimizer.zero_grad()
        hidden = Once.apply(model[1](model[0](x)), lambda: act(step))
        loss = (model[3](model[2](hidden)) - 1).square().mean()
        where = "backward"
        loss.backward()
        where = "step"
        optimizer.step()
        tell(step=step)
except shoal.ShoalError as error:
    tell(kind=type(error).__name__, rank=getattr(error, "rank", None), where=where, text=str(error))
    sys.exit(7)
"""


def script(act="pass"):
    return MODEL + f"def act(step):\n    {act}\n" + TRAIN


def caught(worker):
    assert worker.end() == 7, worker.err.read_text()
    return worker.told()[-1]


def test_a_worker_that_dies_in_backward_is_named_out_of_step(gang):
    dies = script("step == 4 and os.kill(os.getpid(), signal.SIGKILL)")
    workers = gang.start([script(), dies, script()], shared_memory=0)
    assert workers[1].end() == -9
    for worker in (workers[0], workers[2]):
        error = caught(worker)
        assert (error["kind"], error["rank"], error["where"]) == ("DeadRankError", 1, "step"), error


def test_an_exception_in_backward_that_nobody_catches_reaches_all(gang):
    raises = script("step == 4 and (_ for _ in ()).throw(ValueError('no luck today'))")
    workers = gang.start([script(), raises])
    assert workers[1].end() == 1 and "no luck today" in workers[1].err.read_text()
    error = caught(workers[0])
    assert (error["kind"], error["rank"], error["where"]) == ("AbortedError", 1, "step"), error
    assert "no luck today" in error["text"]


def test_ctrl_c_while_step_waits(gang):
    # It goes on when it is told to, so nothing but the signal can end the other's wait.
    held = '[time.sleep(0.05) for _ in iter(lambda: os.path.exists("go"), True)]'
    slow = script(f"step == 3 and (tell(sleeping=True), {held})")
    workers = gang.start([script(), slow])
    workers[1].until(lambda line: "sleeping" in line)
    time.sleep(0.5)
    workers[0].interrupt()
    workers[0].end()
    assert "KeyboardInterrupt" in workers[0].err.read_text()
    (gang.folder / "go").touch()
    error = caught(workers[1])
    assert (error["kind"], error["rank"]) == ("AbortedError", 0), error


def test_a_shape_that_differs_is_named(gang):
    other = script().replace("nn.Linear(32, 16)", "nn.Linear(32, 20)")
    for worker in gang.start([script(), other]):
        error = caught(worker)
        assert error["kind"] == "MismatchError" and "torch0.2." in error["text"], error


FINISHES = """
import torch, shoal.torch
from torch import nn
torch.set_num_threads(1)
shoal.init()

def make(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))

reference = make(0)
single = torch.optim.SGD(reference.parameters(), lr=0.1)
models = [make(shoal.rank()) for _ in range(2)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
for model, optimizer, use_sfb in zip(models, optimizers, (False, True)):
    shoal.torch.distribute(model, optimizer, use_sfb=use_sfb)
batches = [3, 6, 6]
for step in range(batches[shoal.rank()]):
    present = [r for r in range(3) if step < batches[r]]
    sizes = {r: 4 + r + step % 2 for r in present}
    data = {r: torch.randn(sizes[r], 16, generator=torch.Generator().manual_seed(10 * step + r)) for r in present}
    single.zero_grad()
    reference(torch.cat(list(data.values()))).square().mean().backward()
    single.step()
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        shoal.torch.set_weight(sizes[shoal.rank()])
        model(data[shoal.rank()]).square().mean().backward()
        optimizer.step()
shoal.finish()
for name, model in zip(("whole", "factors"), models):
    away = max((a - b).abs().max().item() for a, b in zip(model.parameters(), reference.parameters()))
    tell(**{name: away, f"{name} sum": float(sum(p.detach().double().sum() for p in model.parameters()))})
"""


@pytest.mark.parametrize("shared_memory", [0, 1])
def test_a_worker_out_of_batches_finishes_and_the_others_go_on(gang, shared_memory):
    """Sample-weighted over those who are still there, as one process with their joined batches."""
    told = gang.run(3, FINISHES, shared_memory=shared_memory)
    for name in ("whole", "factors"):
        assert all(t[name] < 2e-5 for t in told), told
        assert told[1][f"{name} sum"] == told[2][f"{name} sum"]


ALONE = MODEL + """
try:
    shoal.torch.distribute(model, optimizer, use_sfb=SFB)
    for step in range(6):
        if step == 3 and HOW == "frozen" and shoal.rank() == 1:
            model[0].weight.requires_grad_(False)
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        if step == 3 and HOW == "none" and shoal.rank() == 1:
            model[0].weight.grad = None
        if CLIP:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tell(step=step)
except shoal.ShoalError as error:
    tell(kind=type(error).__name__, text=str(error))
    sys.exit(7)
"""


@pytest.mark.parametrize("use_sfb", [False, True])
@pytest.mark.parametrize(("how", "clip"), [("none", False), ("frozen", False), ("frozen", True)])
def test_what_one_worker_alone_leaves_out_is_an_error_on_all(gang, how, clip, use_sfb):
    """Otherwise the replicas would part without a word (GRAD-3), or the others would wait for ever (GRAD-5)."""
    head = f"HOW, CLIP, SFB = {how!r}, {clip}, {use_sfb}\n"
    for worker in gang.start([head + ALONE] * 2):
        error = caught(worker)
        assert error["kind"] in ("UsageError", "AbortedError"), error
        assert "0.weight: worker 1 alone left this parameter out" in error["text"], error
        # A step late at most: what was set to None is told with the next round.
        assert worker.told()[-2]["step"] == (3 if how == "none" else 2)


SKIPS = MODEL + """
second = torch.optim.Adam(model[3].parameters()) if HOW == "one of two" else None
if second is not None:
    optimizer = torch.optim.SGD(model[:3].parameters(), lr=0.1)
try:
    shoal.torch.distribute(model, [o for o in (optimizer, second) if o is not None], use_sfb=SFB)
    for step in range(8):
        model.zero_grad()
        for _ in range(2):  # accumulates, without saying so
            loss = model(torch.randn(8, 16)).square().mean()
            loss.backward()
        here = shoal.rank() == 1 and step == 3
        if not here or HOW == "one of two":
            optimizer.step()
        if second is not None and not here:
            second.step()
        tell(step=step)
except shoal.ShoalError as error:
    tell(kind=type(error).__name__, text=str(error))
    sys.exit(7)
"""


@pytest.mark.parametrize("use_sfb", [False, True])
@pytest.mark.parametrize("how", ["all", "one of two"])
def test_a_step_that_one_worker_alone_skips_after_backward_is_an_error_on_all(gang, how, use_sfb):
    """``if loss.isnan(): continue``: the replicas would part without a word (GRAD-3)."""
    who = "worker 1 alone took no step" if how == "all" else "workers took steps of different optimizers, or not equally many"
    for worker in gang.start([f"HOW, SFB = {how!r}, {use_sfb}\n" + SKIPS] * 3):
        error = caught(worker)
        assert error["kind"] in ("UsageError", "AbortedError"), error
        assert who in error["text"], error
        assert worker.told()[-2]["step"] == 3, worker.told()


def test_a_worker_that_gives_up_is_a_dead_one_to_the_others():
    import shoal

    assert issubclass(shoal.AbortedError, shoal.DeadRankError)


WRONG = MODEL + """
import json
shoal.init(distributed=False)
def said(*args):
    try:
        shoal.torch.distribute(*args)
    except (TypeError, shoal.UsageError) as error:
        return f"{type(error).__name__}: {error}"
tell(said=[said(3), said(model, "adam"), said(nn.Linear(3, 3, device="meta"))])
"""


def test_what_cannot_be_distributed_is_said_before_anything_travels(gang):
    (told,) = gang.run(1, WRONG)
    module, optimizer, meta = told["said"]
    assert module == "TypeError: expected a torch.nn.Module, got int"
    assert optimizer.startswith("TypeError: expected a torch.optim.Optimizer") and optimizer.endswith("got str")
    assert meta.startswith("UsageError: weight is on the device meta"), meta
