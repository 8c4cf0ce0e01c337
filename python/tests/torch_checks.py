"""What the PyTorch front end must get right, as functions that every worker of a gang runs (see test_torch.py).

Starting PyTorch takes seconds, so one gang runs many checks, each with models of its own. A check that fails ends it.
"""

import contextlib
import copy
import gc
import hashlib
import io
import json
import traceback
import weakref

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch
from shoal.torch import _bundle
from shoal.torch._wire import staging_forced

BATCH = 6  # of each worker
checks = {}


def check(function):
    checks[function.__name__] = function
    return function


def main():
    torch.set_num_threads(1)
    shoal.init()
    if staging_forced():
        _bundle.SMALL = 0  # so that each tensor goes by itself, too
    for name, function in checks.items():
        try:
            function()
        except BaseException:
            print(json.dumps({name: traceback.format_exc()}), flush=True)
            raise
        print(json.dumps({name: "ok"}), flush=True)


# Tools


def seeded(seed, make):
    torch.manual_seed(seed)
    return make()


def mlp(inputs=16, hidden=24, outputs=8):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def batch(step, inputs=16, outputs=8, rows=None):
    """The joined batch of a step; every worker makes the same."""
    generator = torch.Generator().manual_seed(1000 + step)
    rows = BATCH * shoal.size() if rows is None else rows
    return torch.randn(rows, inputs, generator=generator), torch.randn(rows, outputs, generator=generator)


def mine(*tensors):
    at = shoal.rank() * BATCH
    return [t[at : at + BATCH] for t in tensors]


def digest(model):
    return hashlib.sha256(b"".join(_bytes(t) for t in model.state_dict().values())).hexdigest()


def _bytes(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same_everywhere(model):
    """GRAD-3: the replicas are the same to the last bit."""
    ours = digest(model)
    theirs = shoal.torch.broadcast_object(ours, root=0)
    assert ours == theirs, "the replicas differ"


def close(a, b, tolerance=2e-5):
    assert a is not None and b is not None, (a, b)
    difference = (a.detach().float() - b.detach().float()).abs().max().item()
    assert difference <= tolerance, f"differs by {difference}"


def models_close(model, reference, tolerance=2e-5):
    for (name, a), b in zip(model.named_parameters(), reference.parameters()):
        difference = (a.detach() - b.detach()).abs().max().item()
        assert difference <= tolerance, f"{name} differs by {difference}"


def pair(make=mlp, rate=0.1, optimizer=torch.optim.SGD, **options):
    """A distributed model with its optimizer, and one that a single process would train."""
    reference = seeded(0, make)
    model = seeded(shoal.rank(), make)  # rank 0's is the reference's equal; the others must get it
    model, ours = shoal.torch.distribute(model, optimizer(model.parameters(), lr=rate), **options)
    return model, ours, reference, optimizer(reference.parameters(), lr=rate)


def steps(model, ours, reference, theirs, loss=F.mse_loss, count=4, first=0):
    for step in range(first, first + count):
        x, y = batch(step)
        theirs.zero_grad()
        loss(reference(x), y).backward()
        theirs.step()
        x, y = mine(x, y)
        ours.zero_grad()
        loss(model(x), y).backward()
        ours.step()


def schemes():
    return (False, True)


def factored(model):
    """The names of the weights that travel as factors now."""
    slots = {name: p.__dict__["_shoal"] for name, p in model.named_parameters()}
    return [name for name, slot in slots.items() if slot.pair and slot is slot.pair.weight and slot.pair.chosen]


# Running statistics


@check
def running_statistics_and_several_backwards_before_a_step():
    """What is written between forward and backward must not spoil a graph; the statistics are the mean over the workers."""

    def normed():
        return nn.Sequential(nn.Linear(16, 24), nn.BatchNorm1d(24), nn.Linear(24, 8))

    for use_sfb in schemes():
        model = seeded(0, normed)
        ours = torch.optim.SGD(model.parameters(), lr=0.01)
        shoal.torch.distribute(model, ours, use_sfb=use_sfb)
        replicas = [seeded(0, normed) for _ in range(shoal.size())]  # each with one worker's batches, and the same weights
        for step in range(4):
            for rank, replica in enumerate(replicas):
                replica.load_state_dict(model.state_dict())
            batches = [batch(10 * step + part) for part in range(3)]
            for rank, replica in enumerate(replicas):
                for x, _ in batches:
                    replica(x[rank * BATCH : (rank + 1) * BATCH])
            ours.zero_grad()
            if step % 2:  # forwards first
                losses = [F.mse_loss(model(x), y) for x, y in (mine(*both) for both in batches)]
                for loss in losses:
                    loss.backward()
            else:
                for both in batches:
                    x, y = mine(*both)
                    F.mse_loss(model(x), y).backward()
            ours.step()
            for name in ("running_mean", "running_var"):
                close(getattr(model[1], name), torch.stack([getattr(r[1], name) for r in replicas]).mean(0))
            same_everywhere(model)
        curved = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)
        x, y = mine(*batch(99))

        def closure():
            curved.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        for _ in range(2):
            curved.step(closure)
            same_everywhere(model)


# Whole gradients and factors alike


@check
def accumulating_with_and_without_no_sync():
    """Three backwards and a step give the mean of the sums, however many of them are exchanged."""
    for use_sfb in schemes():
        for quiet in (0, 2, 3):
            model, ours, reference, theirs = pair(use_sfb=use_sfb)
            for step in range(4):
                ours.zero_grad()
                theirs.zero_grad()
                for part in range(3):
                    x, y = batch(10 * step + part)
                    F.mse_loss(reference(x), y).backward()
                    x, y = mine(x, y)
                    with shoal.torch.no_sync(model) if part < quiet else contextlib.nullcontext():
                        F.mse_loss(model(x), y).backward()
                ours.step()
                theirs.step()
            assert factored(model) == (["0.weight", "2.weight"] if use_sfb else [])
            models_close(model, reference)
            same_everywhere(model)


@check
def gradients_can_be_read_within_no_sync():
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        alone = copy.deepcopy(reference)
        x, y = batch(50)
        F.mse_loss(reference(x), y).backward()
        theirs.zero_grad()
        ours.zero_grad()
        for part in range(2):
            x, y = batch(50 + part)
            F.mse_loss(reference(x), y).backward()
            x, y = mine(x, y)
            with shoal.torch.no_sync(model) if part == 0 else contextlib.nullcontext():
                F.mse_loss(model(x), y).backward()
            if part == 0:
                F.mse_loss(alone(x), y).backward()
                close(model[0].weight.grad, alone[0].weight.grad)
                close(model[2].bias.grad, alone[2].bias.grad)
        ours.step()
        theirs.step()
        models_close(model, reference)
        assert not factored(model), "this one plans again"
        with shoal.torch.no_sync(model):  # thrown away before it was ever sent
            F.mse_loss(model(x), y).backward()
            ours.zero_grad()
            assert model[0].weight.grad is None
        steps(model, ours, reference, theirs, first=60)
        assert len(factored(model)) == (2 if use_sfb else 0)
        models_close(model, reference)
        same_everywhere(model)


@check
def clipping_scaling_and_keeping_memory():
    """clip_grad_norm_, GradScaler and zero_grad(set_to_none=False) read and write gradients in their own ways."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        scalers = [torch.amp.GradScaler("cpu", init_scale=256.0) for _ in range(2)]
        norms = []
        for step in range(5):
            x, y = batch(step)
            x, y = torch.cat([x, 5 * x]) if step == 3 else x, torch.cat([y, y]) if step == 3 else y
            parts = [(reference, theirs, x, y), (model, ours, *(mine(x, y) if step != 3 else (x, y)))]
            for (net, optimizer, x, y), scaler in zip(parts, scalers):
                optimizer.zero_grad(set_to_none=step % 2 == 0)
                scaler.scale(F.mse_loss(net(x), y)).backward()
                scaler.unscale_(optimizer)
                norms.append(nn.utils.clip_grad_norm_(net.parameters(), 0.5))
                scaler.step(optimizer)
                scaler.update()
        for a, b in zip(norms[::2], norms[1::2]):
            close(a, b, 1e-4)
        models_close(model, reference)
        same_everywhere(model)


@check
def all_kinds_of_optimizers():
    kinds = [
        lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=0.01, foreach=True),
        lambda p, lr: torch.optim.AdamW(p, lr=lr, fused=True),
        lambda p, lr: torch.optim.RMSprop(p, lr=lr),
    ]
    for use_sfb in schemes():
        for kind in kinds:
            trained = pair(optimizer=kind, rate=0.01, use_sfb=use_sfb)
            steps(*trained)
            models_close(trained[0], trained[2], 1e-4)
            same_everywhere(trained[0])
        model, ours, reference, theirs = pair(optimizer=torch.optim.LBFGS, rate=0.5, use_sfb=use_sfb)
        for step in range(2):
            for net, optimizer, data in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):

                def closure(net=net, optimizer=optimizer, data=data):
                    optimizer.zero_grad()
                    loss = F.mse_loss(net(data[0]), data[1])
                    loss.backward()
                    return 0.0 * loss  # line searches look at gradients only, which are the same everywhere

                optimizer.step(closure)
        models_close(model, reference, 1e-3)
        same_everywhere(model)


@check
def lbfgs_with_losses_that_differ():
    """How often its closure is called depends on the loss; all workers look at the mean, and so call equally often."""
    for use_sfb in schemes():
        for search in (None, "strong_wolfe"):
            model = seeded(shoal.rank(), mlp)
            optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, line_search_fn=search)
            shoal.torch.distribute(model, optimizer, use_sfb=use_sfb)
            calls = [0]
            for step in range(4):
                x, y = batch(step)
                (here, there), loss = mine(x * (1 + 3 * shoal.rank()), y), []

                def closure(here=here, there=there, loss=loss, optimizer=optimizer, model=model):
                    calls[0] += 1
                    optimizer.zero_grad()
                    loss.append(F.mse_loss(model(here), there))
                    loss[-1].backward()
                    return loss[-1]

                seen = optimizer.step(closure)
                close(seen, torch.from_numpy(shoal.push_pull(loss[0].detach().numpy().copy().reshape(1), name="loss"))[0])
            assert calls == shoal.torch.broadcast_object(calls), "as often as worker 0"
            same_everywhere(model)


@check
def several_optimizers():
    reference, model = seeded(0, mlp), seeded(shoal.rank(), mlp)
    theirs = [torch.optim.SGD(reference[0].parameters(), lr=0.1), torch.optim.Adam(reference[2].parameters(), lr=0.01)]
    ours = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.01)]
    same, again = shoal.torch.distribute(model, ours)
    assert same is model and again is ours
    for step in range(5):
        for net, optimizers, (x, y) in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):
            for optimizer in optimizers:
                optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizers[0].step()
            if step % 2:
                optimizers[1].step()
    models_close(model, reference)
    same_everywhere(model)


@check
def two_models_in_one_process():
    """As adversarial training has them: one's loss goes through the other, whose gradients are then thrown away."""
    for use_sfb in schemes():
        maker = pair(use_sfb=use_sfb)
        judge = pair(lambda: mlp(8, 16, 8), use_sfb=use_sfb)
        for step in range(4):
            x, _ = batch(step)
            for at, part in ((2, x), (0, mine(x)[0])):
                (make, make_step), (judges, judge_step) = maker[at : at + 2], judge[at : at + 2]
                make_step.zero_grad()
                judges(make(part)).square().mean().backward()
                make_step.step()
                judge_step.zero_grad()
                (judges(make(part).detach()) - 1).square().mean().backward()
                judge_step.step()
        for trained in (maker, judge):
            models_close(trained[0], trained[2])
            same_everywhere(trained[0])


@check
def weighted_by_samples():
    """Batches of different sizes: the mean over all samples, as one process would have it."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        for step in range(5):
            x, y = batch(step, rows=12)
            cut = [0, 3, 12] if step % 2 else [0, 7, 12]
            here = slice(cut[shoal.rank()], cut[shoal.rank() + 1])
            theirs.zero_grad()
            F.mse_loss(reference(x), y).backward()
            theirs.step()
            ours.zero_grad()
            shoal.torch.set_weight(len(x[here]))
            F.mse_loss(model(x[here]), y[here]).backward()
            ours.step()
        shoal.torch.set_weight(1)
        models_close(model, reference)
        same_everywhere(model)
    for wrong in (-1, float("nan")):
        try:
            shoal.torch.set_weight(wrong)
        except ValueError as error:
            assert "samples" in str(error)
        else:
            raise AssertionError(f"{wrong} was taken")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.never = nn.Linear(16, 16), nn.Linear(16, 16)
        self.heads = nn.ModuleList(nn.Linear(16, 8) for _ in range(2))

    def forward(self, x, head):
        return self.heads[head](torch.tanh(self.body(x)))


@check
def unused_parameters():
    """Workers differ in what a batch uses; what nobody uses keeps None, and so is not touched by weight decay."""
    for use_sfb in schemes():
        reference, model = seeded(0, Branches), seeded(shoal.rank(), Branches)
        theirs = torch.optim.SGD(reference.parameters(), lr=0.1, weight_decay=0.1)
        ours = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
        shoal.torch.distribute(model, ours, use_sfb=use_sfb)
        for step in range(6):
            x, y = batch(step)
            theirs.zero_grad()
            ours.zero_grad()
            uses = [[0, 1], [0, 0], [1, 0]][step % 3]
            for rank, head in enumerate(uses):
                here = slice(rank * BATCH, (rank + 1) * BATCH)
                (F.mse_loss(reference(x[here], head), y[here]) / 2).backward()
            x, y = mine(x, y)
            F.mse_loss(model(x, uses[shoal.rank()]), y).backward()
            assert model.never.weight.grad is None and model.never.bias.grad is None
            if step % 3 == 1:
                assert model.heads[1].weight.grad is None, "nobody used it"
            ours.step()
            theirs.step()
        models_close(model, reference)
        same_everywhere(model)


@check
def a_step_without_a_backward():
    """A worker whose batch was empty calls step() like the others, and gets their gradient."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        for step in range(5):
            x, y = batch(step)
            idle = step % 2 == 1
            theirs.zero_grad()
            if idle:
                (F.mse_loss(reference(x[:BATCH]), y[:BATCH]) / 2).backward()
            else:
                F.mse_loss(reference(x), y).backward()
            theirs.step()
            x, y = mine(x, y)
            ours.zero_grad()
            if not idle or shoal.rank() == 0:
                F.mse_loss(model(x), y).backward()
            ours.step()
        models_close(model, reference)
        same_everywhere(model)


@check
def frozen_and_thawed():
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        for net in (model, reference):
            net[0].weight.requires_grad_(False)
        steps(model, ours, reference, theirs, first=10)
        for net in (model, reference):
            net[2].weight.requires_grad_(False)
            net[2].bias.requires_grad_(False)
        steps(model, ours, reference, theirs, first=20)
        for net in (model, reference):
            net.requires_grad_(True)
        steps(model, ours, reference, theirs, first=30, count=6)
        models_close(model, reference)
        same_everywhere(model)
    reference, model = seeded(0, mlp), seeded(shoal.rank(), mlp)
    for net in (reference, model):
        net[0].requires_grad_(False)  # frozen from the start
    theirs, ours = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (reference, model))
    shoal.torch.distribute(model, ours)
    steps(model, ours, reference, theirs)
    for net in (reference, model):
        net[0].requires_grad_(True)
    steps(model, ours, reference, theirs, first=10)
    models_close(model, reference)
    same_everywhere(model)


@check
def a_changed_shape():
    """Legal where all workers make the same change."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        for net in (model, reference):
            net[2].weight.grad = net[2].bias.grad = None
            net[2].weight.data = net[2].weight.data[:4].clone()
            net[2].bias.data = net[2].bias.data[:4].clone()
            net[2].out_features = 4
        steps(model, ours, reference, theirs, loss=lambda out, y: F.mse_loss(out, y[:, :4]), first=10)
        models_close(model, reference)
        same_everywhere(model)


# Types and layouts


@check
def autocast_stays_dense_and_right():
    def loss(out, y):
        return F.mse_loss(out.float(), y)

    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            steps(model, ours, reference, theirs, loss=loss)
        models_close(model, reference, 0.02)  # bfloat16 rounds each worker's part by itself
        steps(model, ours, reference, theirs, first=10)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            steps(model, ours, reference, theirs, loss=loss, first=20)
        models_close(model, reference, 0.02)
        same_everywhere(model)


@check
def narrow_and_wide_parameters():
    from shoal.torch import _wire

    for dtype, tolerance in ((torch.bfloat16, 0.03), (torch.float16, 0.005), (torch.float64, 1e-9)):
        for without in (False, True):
            kept, _wire.ml_dtypes = _wire.ml_dtypes, None if without else _wire.ml_dtypes
            model, ours, reference, theirs = pair(lambda dtype=dtype: mlp().to(dtype))

            def loss(out, y):
                wide = torch.promote_types(out.dtype, torch.float32)
                return F.mse_loss(out.to(wide), y.to(wide))

            for step in range(3):
                for net, optimizer, (x, y) in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):
                    optimizer.zero_grad()
                    loss(net(x.to(dtype)), y).backward()
                    optimizer.step()
            models_close(model, reference, tolerance)
            same_everywhere(model)
            _wire.ml_dtypes = kept


class Odd(nn.Module):
    """Parameters and buffers of unusual kinds."""

    def __init__(self):
        super().__init__()
        self.wave = nn.Parameter(torch.randn(8, dtype=torch.complex64))
        self.scale = nn.Parameter(torch.randn(()))
        self.empty = nn.Parameter(torch.empty(0))
        self.register_buffer("count", torch.randint(-9, 9, (3,)))
        self.register_buffer("flag", torch.rand(5) > 0.5)
        self.register_buffer("byte", torch.randint(0, 255, (7,), dtype=torch.uint8))
        self.register_buffer("number", torch.tensor(2**53 + int(torch.randint(0, 99, ()))))

    def forward(self, x):
        return (torch.fft.fft(x[:, :8]) * self.wave).real * self.scale


@check
def complex_scalars_and_integers():
    model, ours, reference, theirs = pair(Odd)
    for name, buffer in reference.named_buffers():
        assert torch.equal(dict(model.named_buffers())[name], buffer), name
    steps(model, ours, reference, theirs)
    close(torch.view_as_real(model.wave), torch.view_as_real(reference.wave))
    close(model.scale, reference.scale)
    same_everywhere(model)


@check
def buffers_of_odd_layouts():
    """Expanded ones are the same memory many times; sparse ones have as many numbers as they like; what cannot travel is named."""
    model = nn.Linear(2, 2)
    model.register_buffer("mask", torch.full((1, 3), float(shoal.rank())).expand(4, 3))
    model.register_buffer("step", torch.tensor(shoal.rank()).expand(5))
    shoal.torch.distribute(model)
    assert (model.mask == 0).all() and (model.step == 0).all() and model.mask.shape == (4, 3)
    model.register_buffer("neighbours", (torch.eye(3) if shoal.rank() == 0 else torch.ones(3, 3)).to_sparse())
    shoal.torch.broadcast_state(model)
    assert torch.equal(model.neighbours.to_dense(), torch.eye(3))
    model = nn.Linear(2, 2)
    model.register_buffer("coarse", torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))
    try:
        shoal.torch.distribute(model)
    except shoal.UsageError as error:
        assert "coarse (strided, torch.qint8)" in str(error), str(error)
    else:
        raise AssertionError("it was taken")


@check
def sparse_gradients_are_made_dense():
    def make():
        return nn.Sequential(nn.Embedding(20, 8, sparse=True), nn.Linear(8, 8))

    model, ours, reference, theirs = pair(make)
    for step in range(3):
        words = torch.randint(0, 20, (BATCH * shoal.size(),), generator=torch.Generator().manual_seed(step))
        for net, optimizer, w in ((reference, theirs, words), (model, ours, mine(words)[0])):
            optimizer.zero_grad()
            net(w).square().mean().backward()
            optimizer.step()
    assert not model[0].weight.grad.is_sparse
    models_close(model, reference)
    same_everywhere(model)


@check
def channels_last_and_shared_memory_of_gradients():
    def make():
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 16, 8))
        return net.to(memory_format=torch.channels_last)

    model, ours, reference, theirs = pair(make)
    for step in range(3):
        x = torch.randn(BATCH * shoal.size(), 3, 6, 6, generator=torch.Generator().manual_seed(step))
        x = x.to(memory_format=torch.channels_last)
        for net, optimizer, part in ((reference, theirs, x), (model, ours, mine(x)[0])):
            optimizer.zero_grad()
            net(part).square().mean().backward()
            optimizer.step()
    models_close(model, reference)
    same_everywhere(model)

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

        def forward(self, x):
            self.sum = self.a.view(2, 4) + self.b.view(2, 4)
            self.sum.retain_grad()
            return x.view(2, 4) * self.sum

    model = Sum()
    shoal.torch.distribute(model, None)
    model(torch.full((8,), float(shoal.rank()))).sum().backward()
    assert (model.a.grad == 0.5).all() and (model.b.grad == 0.5).all()
    assert (model.sum.grad == shoal.rank()).all(), "a retained gradient is this worker's own"


# Layers and graphs of unusual form


class Twice(nn.Module):
    """One layer used twice, one whose weight is used by hand, too, and a tied pair."""

    def __init__(self):
        super().__init__()
        self.twice, self.by_hand = nn.Linear(16, 16), nn.Linear(16, 16)
        self.words, self.out = nn.Embedding(12, 16), nn.Linear(16, 12, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        x = torch.tanh(self.twice(torch.tanh(self.twice(x))))
        x = self.by_hand(x) + 0.1 * (x @ self.by_hand.weight)
        x = x + self.words(torch.arange(len(x)) % BATCH)
        return self.out(x)[:, :8]


@check
def layers_used_twice_tied_and_by_hand():
    for use_sfb in schemes():
        trained = pair(Twice, use_sfb=use_sfb)
        steps(*trained, count=8)
        models_close(trained[0], trained[2])
        same_everywhere(trained[0])
        assert factored(trained[0]) == (["twice.weight"] if use_sfb else [])
        assert trained[0].out.weight is trained[0].words.weight


@check
def batches_that_outgrow_the_plan():
    """More rows than agreed on one worker only: that step goes dense, and the next plan has room."""
    model, ours, reference, theirs = pair(use_sfb=True)
    sizes = [(4, 4), (4, 4), (4, 9), (4, 4), (4, 4), (2, 1), (12, 3), (4, 4), (12, 12), (3, 3)]
    for step, rows in enumerate(sizes):
        x, y = batch(step, rows=sum(rows))
        at = 0 if shoal.rank() == 0 else rows[0]
        here = slice(at, at + rows[shoal.rank()])
        theirs.zero_grad()
        F.mse_loss(reference(x), y).backward()
        theirs.step()
        ours.zero_grad()
        shoal.torch.set_weight(rows[shoal.rank()])
        F.mse_loss(model(x[here]), y[here]).backward()
        if step in (1, 7, 9):
            assert len(factored(model)) == (2 if step != 7 else 0), step
        if step == 6 and shoal.rank() == 1:
            assert model[2].weight.grad is not None  # in another order than the others
        ours.step()
    shoal.torch.set_weight(1)
    models_close(model, reference)
    same_everywhere(model)


@check
def checkpoints():
    """Backwards inside of backward are part of the one round."""
    from torch.utils.checkpoint import checkpoint

    class Saving(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.reentrant = reentrant
            self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 8)

        def forward(self, x):
            x = x.clone().requires_grad_()
            x = torch.tanh(checkpoint(self.a, x, use_reentrant=self.reentrant))
            x = torch.tanh(self.b(x))
            return checkpoint(self.c, x, use_reentrant=self.reentrant)

    for use_sfb in schemes():
        for reentrant in (False, True):
            model, ours, reference, theirs = pair(lambda reentrant=reentrant: Saving(reentrant), use_sfb=use_sfb)
            before = model.a.weight.__dict__["_shoal"].reducer
            steps(model, ours, reference, theirs, count=5)
            assert before.round == 5, f"{before.round} rounds for 5 steps"
            models_close(model, reference)
            same_everywhere(model)


@check
def hooks_and_gradients_asked_for():
    """Scripts that look at gradients by other ways than .grad see this worker's own, as without Shoal."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        plain = copy.deepcopy(reference)
        x, y = mine(*batch(70))
        x.requires_grad_()
        wanted = [model[0].weight, model[2].bias, x]
        got = torch.autograd.grad(F.mse_loss(model(x), y), wanted)
        right = torch.autograd.grad(F.mse_loss(plain(x), y), [plain[0].weight, plain[2].bias, x])
        for a, b in zip(got, right):
            close(a, b)
        if shoal.rank() == 0:  # a look that the others do not take, and that is no round
            torch.autograd.grad(model(x).sum(), list(model.parameters()))
        steps(model, ours, reference, theirs, first=65)
        models_close(model, reference)
        # A gradient penalty: a graph of the gradient itself.
        for net, part in ((reference, batch(71)[0]), (model, mine(batch(71)[0])[0])):
            part = part.clone().requires_grad_()
            (slope,) = torch.autograd.grad(net(part).square().sum(), part, create_graph=True)
            net.zero_grad()
            slope.square().sum(1).mean().backward()
        for a, b in zip(model.parameters(), reference.parameters()):
            if b.grad is not None:
                close(a.grad, b.grad, 1e-4)
        ours.step()
        theirs.step()
        models_close(model, reference, 1e-4)
        seen = []
        handle = model[0].weight.register_hook(lambda g: seen.append(g.clone()))
        steps(model, ours, reference, theirs, first=80, count=5)
        assert len(seen) == 5 and all(g is not None for g in seen)
        handle.remove()
        models_close(model, reference, 1e-4)
        same_everywhere(model)


@check
def an_optimizer_for_each_parameter_in_backward():
    for use_sfb in schemes():
        reference = seeded(0, mlp)
        theirs = torch.optim.SGD(reference.parameters(), lr=0.1)
        model = seeded(shoal.rank(), mlp)
        shoal.torch.distribute(model, None, use_sfb=use_sfb)
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def step_now(p, optimizers=optimizers):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step_now)
        for step in range(4):
            x, y = batch(step)
            theirs.zero_grad()
            F.mse_loss(reference(x), y).backward()
            theirs.step()
            x, y = mine(x, y)
            F.mse_loss(model(x), y).backward()
        models_close(model, reference)
        same_everywhere(model)


@check
def an_exception_in_backward():
    """The next step works, and the others do not wait for what will not come."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, fails):
            ctx.fails = fails
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            if ctx.fails:
                raise ValueError("on purpose")
            return dy, None

    for use_sfb in schemes():
        model = seeded(shoal.rank(), mlp)
        model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), lr=0.1), use_sfb=use_sfb)
        for step in range(6):
            x, y = mine(*batch(step))
            optimizer.zero_grad()
            out = Fails.apply(model[1](model[0](x)), step == 3 and shoal.rank() == 1)
            loss = F.mse_loss(model[2](out), y)
            if step == 3 and shoal.rank() == 1:
                try:
                    loss.backward()
                except ValueError as error:
                    assert "on purpose" in str(error)
                else:
                    raise AssertionError("it did not fail")
            else:
                loss.backward()
            optimizer.step()
        same_everywhere(model)


@check
def running_statistics_stay_equal():
    model = seeded(shoal.rank(), lambda: nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8)))
    model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        x, y = mine(*batch(step))
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    same_everywhere(model)
    assert model[1].running_mean.abs().max() > 0


@check
def parameters_that_only_the_optimizer_knows():
    reference, model = seeded(0, mlp), seeded(shoal.rank(), mlp)
    extras = [nn.Parameter(torch.ones(8)), nn.Parameter(torch.full((8,), 1.0 + shoal.rank()))]
    theirs = torch.optim.SGD([*reference.parameters(), extras[0]], lr=0.1)
    ours = torch.optim.SGD([*model.parameters(), extras[1]], lr=0.1)
    shoal.torch.distribute(model, ours)
    for step in range(3):
        for net, optimizer, extra, (x, y) in (
            (reference, theirs, extras[0], batch(step)),
            (model, ours, extras[1], mine(*batch(step))),
        ):
            optimizer.zero_grad()
            F.mse_loss(net(x) * extra, y).backward()
            optimizer.step()
    models_close(model, reference)
    close(extras[1], extras[0])


# What the rest of PyTorch sees


@check
def copies_pickles_and_state_dicts_are_plain():
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        assert list(model.state_dict()) == list(reference.state_dict())
        assert all(type(value) is torch.Tensor for value in model.state_dict().values())
        assert all(isinstance(p, nn.Parameter) for p in model.parameters()) and isinstance(model[0], nn.Linear)
        assert str(model) == str(reference) and "Parameter containing" in repr(model[0].weight)
        assert [type(p) for p in nn.ParameterList(model.parameters())] == [type(p) for p in model.parameters()]
        x, y = mine(*batch(30))
        F.mse_loss(model(x), y).backward()  # copies are made while gradients are under way
        copied = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        plain = io.BytesIO()
        torch.save(model.state_dict(), plain)
        plain.seek(0)
        reference.load_state_dict(torch.load(plain, weights_only=True))
        for other in (copied, loaded, reference):
            assert digest(other) == digest(model)
        for other in (copied, loaded):
            assert type(other[0]) is nn.Linear and all(type(p) is nn.Parameter for p in other.parameters())
            F.mse_loss(other(x), y).backward()  # its gradients are its own
            assert other[0].weight.grad is not None
        assert b"shoal" not in file.getvalue()
        ours.step()
        ours.load_state_dict(copy.deepcopy(ours.state_dict()))
        model.load_state_dict(reference.state_dict())
        same_everywhere(model)


@check
def compiled_models():
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        compiled = torch.compile(model, backend="eager")
        steps(compiled, ours, reference, theirs)
        models_close(model, reference)
        same_everywhere(model)
    model, ours, reference, theirs = pair(use_sfb=True)
    steps(model, ours, reference, theirs)
    steps(torch.compile(model, backend="eager"), ours, reference, theirs, first=10)  # when factors were chosen already
    models_close(model, reference)
    same_everywhere(model)


@check
def compiled_steps():
    """The optimizer's step compiled, and all of a training step: then our hooks run inside of what is compiled."""
    for use_sfb in schemes():
        for kind in (torch.optim.SGD, torch.optim.Adam):
            for whole in (False, True):
                torch._dynamo.reset()
                model, ours, reference, theirs = pair(rate=0.01, optimizer=kind, use_sfb=use_sfb)

                def backward(x, y, model=model):
                    F.mse_loss(model(x), y).backward()

                def train(x, y, ours=ours, backward=backward):
                    ours.zero_grad()
                    backward(x, y)
                    ours.step()

                step = torch.compile(ours.step, backend="eager")
                train = torch.compile(train, backend="eager") if whole else train
                for number in range(5):
                    x, y = batch(number)
                    theirs.zero_grad()
                    F.mse_loss(reference(x), y).backward()
                    theirs.step()
                    if whole:
                        train(*mine(x, y))
                    else:
                        ours.zero_grad()
                        backward(*mine(x, y))
                        step()
                models_close(model, reference, 1e-4)
                same_everywhere(model)


@check
def scripted_and_traced_models():
    model, ours, reference, theirs = pair(use_sfb=True)
    steps(model, ours, reference, theirs)
    x = mine(*batch(5))[0]
    with torch.no_grad():
        for made in (torch.jit.script(model), torch.jit.trace(model, x)):
            close(made(x), model(x))


@check
def models_are_freed():
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        steps(model, ours, reference, theirs)
        gone = [weakref.ref(model), weakref.ref(model[0].weight), weakref.ref(ours)]
        del model, ours
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3


@check
def parameters_added_later_are_told_of():
    model, ours, reference, theirs = pair()
    steps(model, ours, reference, theirs, count=1)
    ours.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    steps(model, ours, reference, theirs, count=3, first=1)
    models_close(model, reference)


@check
def functional_calls_and_parametrizations():
    model, ours, reference, theirs = pair(use_sfb=True)
    steps(model, ours, reference, theirs)
    x, y = mine(*batch(5))
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y).backward()
    assert all(p.grad is not None for p in parameters.values()) and model[0].weight.grad is not None
    inputs = torch.func.vmap(torch.func.grad(lambda one: model(one).square().sum()))(x)
    assert inputs.shape == x.shape
    norm = nn.utils.parametrizations.weight_norm
    normed = pair(lambda: nn.Sequential(norm(nn.Linear(16, 16)), nn.Linear(16, 8)), use_sfb=True)
    steps(*normed)
    models_close(normed[0], normed[2])
    same_everywhere(normed[0])


@check
def the_wrapper():
    for use_sfb in schemes():
        reference = seeded(0, mlp)
        wrapped = shoal.torch.DistributedDataParallel(
            seeded(shoal.rank(), mlp), find_unused_parameters=True, bucket_cap_mb=1, use_sfb=use_sfb
        )
        ours, theirs = (torch.optim.Adam(net.parameters(), lr=0.01) for net in (wrapped, reference))
        assert list(wrapped.state_dict()) == [f"module.{name}" for name in reference.state_dict()]
        steps(wrapped, ours, reference, theirs)
        x, y = batch(20)
        ours.zero_grad()
        theirs.zero_grad()
        for part in (x, 2 * x):
            F.mse_loss(reference(part), y).backward()
        with wrapped.no_sync():
            F.mse_loss(wrapped(mine(x)[0]), mine(y)[0]).backward()
        F.mse_loss(wrapped(2 * mine(x)[0]), mine(y)[0]).backward()
        for a, b in zip(wrapped.parameters(), reference.parameters()):
            close(a.grad, b.grad)
        ours.step()
        theirs.step()
        models_close(wrapped.module, reference)
        same_everywhere(wrapped)
        smooth = copy.deepcopy(wrapped)
        assert digest(smooth) == digest(wrapped) and smooth.module is not wrapped.module
        with torch.no_grad():
            close(smooth(x), wrapped(x))
    for wrong in ({"device_ids": [0, 1]}, {"bucket": 3}):
        try:
            shoal.torch.DistributedDataParallel(mlp(), **wrong)
        except (TypeError, ValueError) as error:
            assert "device" in str(error) or "bucket" in str(error)
        else:
            raise AssertionError(wrong)


@check
def dealing_out_samples():
    data = list(range(11))
    for shuffle in (False, True):
        theirs = torch.utils.data.DistributedSampler(data, shoal.size(), shoal.rank(), shuffle=shuffle, seed=3)
        ours = shoal.torch.DistributedSampler(data, shuffle=shuffle, seed=3)
        for epoch in (0, 1):
            theirs.set_epoch(epoch)
            ours.set_epoch(epoch)
            assert list(ours) == list(theirs) and len(ours) == len(theirs)
        for uneven in ("drop", "keep"):
            parts = [
                list(shoal.torch.DistributedSampler(data, 3, rank, shuffle=shuffle, uneven=uneven)) for rank in range(3)
            ]
            assert [len(part) for part in parts] == ([3, 3, 3] if uneven == "drop" else [4, 4, 3])
            dealt = sum(parts, [])
            assert len(dealt) == len(set(dealt)) and (uneven == "drop" or sorted(dealt) == data)
    assert len(list(shoal.torch.DistributedSampler(data, drop_last=True))) == 11 // shoal.size()


@check
def what_makes_no_sense_is_refused():
    model, critic = mlp(), mlp()
    shoal.torch.distribute(model, torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1))
    for call, words in (
        (lambda: shoal.torch.distribute(critic), "ModuleList"),
        (lambda: shoal.torch.distribute(model), "already"),
        (lambda: shoal.torch.distribute(nn.Linear(2, 2), use_sfb="maybe"), "use_sfb"),
        (lambda: shoal.torch.distribute([1]), "Module"),
        (lambda: shoal.torch.distribute(nn.LazyLinear(3)), "forward"),
        (lambda: shoal.torch.DistributedSampler([1], uneven="?"), "uneven"),
    ):
        try:
            call()
        except (ValueError, TypeError) as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError(words)


@check
def state_of_optimizers_and_objects():
    model = seeded(0, mlp)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (1 + shoal.rank()))
    if shoal.rank() == 0:
        F.mse_loss(model(batch(0)[0]), batch(0)[1]).backward()
        optimizer.step()
    shoal.torch.broadcast_optimizer_state(optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.01 and len(optimizer.state) == 4
    assert shoal.torch.broadcast_object({"epoch": 3} if shoal.rank() == 0 else None) == {"epoch": 3}
