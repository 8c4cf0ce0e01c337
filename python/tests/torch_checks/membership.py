"""Who takes part in a round, and in which bundle: decided once, and on all workers alike (GRAD-5)."""

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

from .tools import batch, check, close, mine, mlp, models_close, pair, same_everywhere, schemes


class Spare(nn.Module):
    """With a layer that no batch uses."""

    def __init__(self):
        super().__init__()
        self.used, self.spare = mlp(), nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


def train(model, ours, reference, theirs, numbers, before=None, between=None):
    for step in numbers:
        for net, optimizer, (x, y) in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):
            optimizer.zero_grad(set_to_none=True)
            if before is not None:
                before(net)
            loss = F.mse_loss(net(x), y)
            loss.backward()
            if between is not None:
                between(net)
            optimizer.step()


def thaw(*names, frozen=False):
    def change(net):
        for name in names:
            net.get_parameter(name).requires_grad_(frozen is False)

    return change


@check
def thawed_between_backward_and_step():
    for use_sfb in schemes():
        for names in (("used.0.bias",), ("used.0.weight", "used.2.bias"), ("spare.bias", "used.0.bias")):
            trained = pair(Spare, use_sfb=use_sfb)
            train(*trained, range(3))
            train(*trained, range(3, 7), before=thaw(*names, frozen=True), between=thaw(*names))
            train(*trained, range(7, 9))
            models_close(trained[0], trained[2])
            same_everywhere(trained[0])


@check
def frozen_between_backward_and_step():
    """What is frozen there has mostly been sent; what nobody used is sent nevertheless, or its bundle never left."""
    for use_sfb in schemes():
        for names in (("spare.weight", "spare.bias"), ("used.0.bias",), ("used.0.weight",), ("used.2.weight", "spare.bias")):
            trained = pair(Spare, use_sfb=use_sfb)
            train(*trained, range(3))
            train(*trained, range(3, 7), before=thaw(*names), between=thaw(*names, frozen=True))
            train(*trained, range(7, 9), before=thaw(*names))
            models_close(trained[0], trained[2])
            same_everywhere(trained[0])


@check
def frozen_between_forward_and_backward():
    """Then nothing is added to its gradient, though backward comes by."""
    for use_sfb in schemes():
        trained = pair(Spare, use_sfb=use_sfb)
        train(*trained, range(3))
        for step in range(3, 7):
            model, ours, reference, theirs = trained
            for net, optimizer, (x, y) in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):
                optimizer.zero_grad()
                loss = F.mse_loss(net(x), y)
                thaw("used.0.bias", "used.2.bias", frozen=True)(net)
                loss.backward()
                optimizer.step()
                thaw("used.0.bias", "used.2.bias")(net)
        train(*trained, range(7, 9))
        models_close(trained[0], trained[2])
        same_everywhere(trained[0])


@check
def a_hook_on_one_worker_alone():
    """It looks at gradients in the middle of backward; the others must not go on with other bundles than this one."""
    for use_sfb in schemes():
        trained = pair(use_sfb=use_sfb)
        seen = []
        if shoal.rank() == 0:
            for parameter in trained[0].parameters():
                parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm()))
        train(*trained, range(5))
        models_close(trained[0], trained[2])
        same_everywhere(trained[0])
        assert len(seen) >= (16 if shoal.rank() == 0 else 0)
        # One that comes later may look at anything but a gradient that travels in company; from the next round on at that, too.
        trained = pair(use_sfb=use_sfb)
        train(*trained, range(3))
        calls, bias = [], trained[0][2].bias
        if shoal.rank() == 1:
            bias.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad if calls else 0))
        train(*trained, range(3, 6))
        models_close(trained[0], trained[2])
        same_everywhere(trained[0])
        assert len(calls) == (3 if shoal.rank() == 1 else 0)


@check
def hooks_of_the_script_come_after_ours():
    """Also those that were there before: they may take a step with what they find."""
    from .tools import seeded

    reference, model = seeded(0, mlp), seeded(shoal.rank(), mlp)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step_now(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step_now)
    shoal.torch.distribute(model)
    theirs = torch.optim.SGD(reference.parameters(), lr=0.1)
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
def a_late_hook_that_would_see_only_its_own_is_an_error():
    model, ours, reference, theirs = pair(lambda: nn.Sequential(*(nn.Linear(16, 16) for _ in range(2))), use_sfb=False)
    for step in range(2):
        x, _ = mine(*batch(step))
        ours.zero_grad()
        model(x).sum().backward()
        ours.step()
    bias = model[1].bias
    bundled = bias.__dict__["_shoal"].bundle is not None
    errors = []

    def look(p):
        try:
            errors.append(p.grad)
        except shoal.UsageError as error:
            errors.append(error)

    handle = bias.register_post_accumulate_grad_hook(look)
    x, _ = mine(*batch(5))
    ours.zero_grad()
    model(x).sum().backward()
    ours.step()
    handle.remove()
    if bundled:
        assert isinstance(errors[0], shoal.UsageError) and "1.bias" in str(errors[0]), errors
    else:
        close(errors[0], bias.grad)
    same_everywhere(model)
