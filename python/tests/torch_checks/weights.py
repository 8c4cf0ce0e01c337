"""Batches of different sizes, where one model or one backward is not all there is."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import shoal
import shoal.torch

from .tools import batch, check, close, mlp, models_close, pair, same_everywhere, schemes, seeded

CUTS = ([0, 3, 12], [0, 7, 12], [0, 12, 12])  # who has which rows of the joined batch; at last, worker 1 has none


def here(cut):
    return slice(cut[shoal.rank()], cut[shoal.rank() + 1])


def models_of(use_sfb, makers):
    """Each distributed by itself, and what one process would train."""
    return [pair(make, use_sfb=use_sfb) for make in makers]


@check
def a_weight_holds_for_all_models_of_its_backward():
    """Encoder and decoder, one loss; also where one of them is used in a checkpoint, or a worker has no rows at all."""
    for use_sfb in schemes():
        for reentrant in (None, "encoder", "decoder"):
            encoder, decoder = models_of(use_sfb, [lambda: mlp(16, 24, 16), lambda: mlp(16, 24, 8)])
            for step in range(7):
                x, y = batch(step, rows=12)
                part = here(CUTS[step % 3])

                def loss(encode, decode, x, y, how=None):
                    if how is None:
                        return F.mse_loss(decode(encode(x)), y)
                    x = x.clone().requires_grad_()
                    x = checkpoint(encode, x, use_reentrant=True) if how == "encoder" else encode(x)
                    return F.mse_loss(checkpoint(decode, x, use_reentrant=True) if how == "decoder" else decode(x), y)

                for _, ours, _, theirs in (encoder, decoder):
                    ours.zero_grad()
                    theirs.zero_grad()
                loss(encoder[2], decoder[2], x, y).backward()
                shoal.torch.set_weight(len(x[part]))
                if len(x[part]):
                    loss(encoder[0], decoder[0], x[part], y[part], reentrant).backward()
                for _, ours, _, theirs in (encoder, decoder):
                    ours.step()
                    theirs.step()
            for trained in (encoder, decoder):
                models_close(trained[0], trained[2])
                same_everywhere(trained[0])


@check
def a_weight_is_not_for_another_models_next_backward():
    one, other = models_of(False, [mlp, mlp])
    x, y = batch(0, rows=12)
    part = here([0, 3, 12])
    shoal.torch.set_weight(len(x[part]))
    F.mse_loss(one[0](x[part]), y[part]).backward()
    F.mse_loss(other[0](x[part]), y[part]).backward()
    halves = [F.mse_loss(other[2](x[rows]), y[rows]) / 2 for rows in (slice(0, 3), slice(3, 12))]
    sum(halves).backward()
    close(other[0][0].weight.grad, other[2][0].weight.grad)
    F.mse_loss(one[2](x), y).backward()
    close(one[0][0].weight.grad, one[2][0].weight.grad)


@check
def weights_of_backwards_that_are_not_exchanged_add_up():
    """Two parts of 3 rows on one worker, two of 9 on the other: what is sent stands for 6 and 18."""
    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        for step in range(4):
            ours.zero_grad()
            theirs.zero_grad()
            with shoal.torch.no_sync(model):
                if step == 2:  # thrown away, and so is its weight
                    shoal.torch.set_weight(100 + shoal.rank())
                    model(batch(0)[0]).sum().backward()
                    ours.zero_grad()
            for part in range(2):
                x, y = batch(10 * step + part, rows=12)
                F.mse_loss(reference(x), y).backward()
                rows = here([0, 3, 12])
                shoal.torch.set_weight(len(x[rows]) if part == 0 else 3 * len(x[rows]))
                if part == 0:
                    with shoal.torch.no_sync(model):
                        F.mse_loss(model(x[rows]), y[rows]).backward()
                else:
                    F.mse_loss(model(x[rows]), y[rows]).backward()
            ours.step()
            theirs.step()
        models_close(model, reference)
        same_everywhere(model)
    # Whatever is set for the parts, none is lost: 1 + 1 and 3 + 1; and what is set for the kept part alone is that of the round.
    for last, wanted in (([1, 1], 8 * 4 / 6), (None, 8 * 3 / 4)):
        model = seeded(0, lambda: nn.Linear(8, 8))
        shoal.torch.distribute(model)
        shoal.torch.set_weight([1, 3][shoal.rank()])
        with shoal.torch.no_sync(model):
            model(torch.full((4, 8), float(shoal.rank()))).sum().backward()
        if last is not None:
            shoal.torch.set_weight(last[shoal.rank()])
        model(torch.full((4, 8), float(shoal.rank()))).sum().backward()
        close(model.weight.grad, torch.full((8, 8), wanted))
