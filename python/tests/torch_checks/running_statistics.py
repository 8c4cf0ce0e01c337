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
