"""When gradients leave, and in which order a step waits for them."""

import contextlib

import torch
from torch import nn

import shoal
import shoal.torch
from shoal import _api
from shoal.torch import _reducer

from .tools import check, factored, same_everywhere, schemes, seeded


class Mark(torch.autograd.Function):
    """Says when backward comes by."""

    @staticmethod
    def forward(ctx, x, say):
        ctx.say = say
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        ctx.say()
        return dy, None


class Layers(nn.Module):
    """Used in another order than they are registered in: c, a, b. Too large for a bundle."""

    def __init__(self, say):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(128, 128, bias=False) for _ in range(3))
        self.say = say

    def forward(self, x):
        for name in "cab":
            x = Mark.apply(getattr(self, name)(x), lambda name=name: self.say(f"backward reaches {name}"))
        return Mark.apply(x, lambda: self.say("backward begins"))


@contextlib.contextmanager
def watched(say):
    """Tells of what is sent, and of what a step waits for."""
    kept = _api.push_pull_async, _api.all_gather_async, _reducer.Reducer.settle

    def push_pull_async(array, *rest, **named):
        name = named.get("name", "")
        if name.endswith(".weight"):
            say(f"{name[-8]} leaves")
            say(f"{name[-8]} has priority {named['priority']}")
        return kept[0](array, *rest, **named)

    def all_gather_async(array, name, *rest, **named):
        if ".weight dy" in name:
            say(f"{name.split('.weight')[0][-1]} leaves")
        return kept[1](array, name, *rest, **named)

    def settle(reducer, slot):
        say(f"waits for {slot.name[0]}")
        return kept[2](reducer, slot)

    _api.push_pull_async, _api.all_gather_async, _reducer.Reducer.settle = push_pull_async, all_gather_async, settle
    try:
        yield
    finally:
        _api.push_pull_async, _api.all_gather_async, _reducer.Reducer.settle = kept


@check
def gradients_leave_while_backward_goes_on():
    """Wait-free backpropagation: when backward comes to the first layer, those of the layers behind it have left."""
    for use_sfb in schemes():
        said = []
        model = seeded(0, lambda said=said: Layers(said.append))
        model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), lr=0.01), use_sfb)
        for step in range(3):
            optimizer.zero_grad()
            said.clear()
            with watched(said.append):
                model(torch.randn(4, 128)).sum().backward()
                said.append("backward ends")
                optimizer.step()
            told = [line for line in said if "priority" not in line and "waits" not in line]
            assert told == [
                "backward begins",
                "backward reaches b",
                "b leaves",
                "backward reaches a",
                "a leaves",
                "backward reaches c",
                "c leaves",
                "backward ends",
            ], told
        assert len(factored(model)) == (3 if use_sfb else 0)
        same_everywhere(model)


@check
def what_the_next_forward_needs_first_is_sent_and_waited_for_first():
    """Learnt from the first backward: what it reaches last."""
    for use_sfb in schemes():
        said = []
        model = seeded(0, lambda said=said: Layers(said.append))
        model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), lr=0.01), use_sfb)
        for step in range(3):
            optimizer.zero_grad()
            said.clear()
            with watched(said.append):
                model(torch.randn(4, 128)).sum().backward()
                said.append("backward ends")
                optimizer.step()
            after = said[said.index("backward ends") :]
            waits = list(dict.fromkeys(line[-1] for line in after if line.startswith("waits")))
            assert waits == ["c", "a", "b"], (step, waits)
            if step and not use_sfb:
                order = {line[0]: int(line.split()[-1]) for line in said if "priority" in line}
                assert order == {"c": 0, "a": 1, "b": 2}, order
