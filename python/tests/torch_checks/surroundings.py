"""What the rest of PyTorch sees of a distributed model."""

import copy
import gc
import io
import weakref

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

from .tools import (
    batch,
    check,
    close,
    digest,
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
    for wrong in (
        {"device_ids": [0, 1]},
        {"bucket": 3},
        {"process_group": some_of_them()},
        {"mixed_precision": object()},
        {"delay_all_reduce_named_params": [("a", None)]},
        {"param_to_hook_all_reduce": object()},
    ):
        try:
            shoal.torch.DistributedDataParallel(mlp(), **wrong)
        except (TypeError, ValueError) as error:
            assert next(iter(wrong)) in str(error), str(error)
        else:
            raise AssertionError(wrong)
    shoal.torch.DistributedDataParallel(mlp(), None, None, 0, False)  # by place, as PyTorch has them


def some_of_them():
    """A group of this worker alone."""
    store = torch.distributed.HashStore()
    return torch.distributed.distributed_c10d.ProcessGroup(store, 0, 1)


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
