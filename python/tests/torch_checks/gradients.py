"""What a step may be made of, with whole gradients and with factors."""

import contextlib
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
