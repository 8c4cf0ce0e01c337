"""Averages that layers keep beside their parameters."""

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

from .tools import BATCH, batch, check, close, mine, same_everywhere, schemes, seeded


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


class Remembers(nn.Module):
    """Changes buffers of its own in four ways; some it never changes, and one has another shape with every worker."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 8)
        for name in ("average", "behind", "replaced", "never"):
            self.register_buffer(name, torch.randn(8))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("narrow", torch.zeros(3, dtype=torch.bfloat16), persistent=False)
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.register_buffer("late", torch.zeros(5))
        self.norm, self.calls = nn.BatchNorm1d(8), 0

    def forward(self, x):
        x = self.norm(self.layer(x))
        if self.training:
            self.calls += 1
            with torch.no_grad():
                mean = x.mean(0) + shoal.rank()
                self.average.mul_(0.9).add_(mean, alpha=0.1)
                self.behind.data.lerp_(mean, 0.5)
                self.replaced = self.replaced + mean
                self.count += 1 + shoal.rank()
                self.narrow.add_(shoal.rank())
                if self.calls == 2:
                    self.cache = torch.zeros(3 + shoal.rank())
                if self.calls == 3 and shoal.rank() == 1:
                    self.late.fill_(7.0)  # on one worker alone, and not the root
        return x


@check
def other_buffers_that_training_changes_become_the_roots():
    reference = seeded(0, Remembers)
    model = seeded(shoal.rank(), Remembers)
    ours = torch.optim.SGD(model.parameters(), lr=0.01)
    shoal.torch.distribute(model, ours)
    for step in range(6):
        x, y = mine(*batch(step))
        ours.zero_grad()
        F.mse_loss(model(x), y).backward()
        ours.step()
        for name in ("average", "behind", "replaced", "never", "count", "narrow", "late"):
            here = model._buffers[name]
            assert torch.equal(here, shoal.torch.broadcast_object(here, root=0)), (step, name)
        assert (model.late == 0).all()
    same_everywhere(model)
    assert model.count == 6 and (model.narrow == 0).all()  # as worker 0 counts
    assert torch.equal(model.never, reference.never) and len(model.cache) == 3 + shoal.rank()
    apart = seeded(shoal.rank(), Remembers)
    ours = torch.optim.SGD(apart.parameters(), lr=0.01)
    shoal.torch.distribute(apart, ours, average_running_statistics=False)
    for step in range(2):
        ours.zero_grad()
        F.mse_loss(apart(mine(*batch(step))[0]), mine(*batch(step))[1]).backward()
        ours.step()
    assert apart.count == 2 * (1 + shoal.rank())
