"""What the checks share: models, batches, comparisons, and the list of all checks."""

import hashlib

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

BATCH = 6  # of each worker
checks = {}


def check(function):
    checks[function.__name__] = function
    return function


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
