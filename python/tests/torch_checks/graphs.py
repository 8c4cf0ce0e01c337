"""Layers and graphs of unusual form."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

from .tools import (
    BATCH,
    batch,
    check,
    close,
    factored,
    mine,
    mlp,
    models_close,
    pair,
    same_everywhere,
    schemes,
    seeded,
    steps,
)


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
