"""A PyTorch model as `shoal plan` reads it: its layers, what they compute, and their gradients.

    python -m shoal.describe train.py:make_model --batch 32 > model.json

The function makes the model: it returns a module, or a module and an example of its input (a tensor or a tuple of them)
for one batch. It may take the batch as its only argument. Nothing is trained, and without ``--measure`` nothing is
computed: shapes are followed through the model on torch's meta device.
"""

import argparse
import contextlib
import importlib
import importlib.util
import inspect
import json
import logging
import math
import os
import sys
import time
import traceback

BATCH = 32
#: Timed steps; the first ones warm up.
_STEPS, _WARM_UP = 3, 1


class Trouble(Exception):
    """Something to be said in one line, with a hint."""

    def __init__(self, what, hint=None):
        super().__init__(what + (f"\n  hint: {hint}" if hint else ""))


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m shoal.describe", description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="module:function or file.py:function")
    parser.add_argument("--batch", type=int, help="samples in a worker's batch (%d)" % BATCH)
    parser.add_argument("--input", help="the shape of one sample, if the function gives no example: 3x224x224")
    parser.add_argument("--measure", action="store_true", help="run the model here and time its layers")
    parser.add_argument("--speed", action="store_true", help="only print operations a second of this machine")
    arguments = parser.parse_args(argv)
    # What models print while they are made must not get between us and who reads the description.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            if arguments.speed:
                text = repr(_speed())
            elif arguments.model is None:
                parser.error("name a model, as module:function or file.py:function")
            else:
                text = json.dumps(_describe(arguments), indent=1)
        except Trouble as trouble:
            sys.stderr.write(f"{parser.prog}: {trouble}\n")
            return 2
        except Exception as error:  # noqa: BLE001 - the model's own: where it comes from says more than we could
            traceback.print_exc()
            sys.stderr.write(f"{parser.prog}: {arguments.model or 'measuring'} failed: {type(error).__name__}: {error}\n")
            return 2
    print(text)
    return 0


def _describe(arguments):
    torch = _torch()
    module, inputs, batch = _make(torch, arguments.model, arguments.batch or BATCH, arguments.input)
    if arguments.measure:
        layers, extra = _timed(torch, module, inputs)
        extra["matrix_flops"] = _speed()
    else:
        layers, extra = _traced(torch, module, inputs), {}
    if not layers:
        raise Trouble(f"{arguments.model} has no parameters", "there is nothing to synchronise")
    return {"model": arguments.model, "batch": batch, **extra, "layers": layers}


def _torch():
    try:
        import torch
    except ImportError:
        raise Trouble("this Python has no torch", "run it with the Python of your environment") from None
    return torch


def _speed():
    """With torch's product where torch is there, as it is what most models multiply with."""
    from ._measure import matrix_speed

    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - being there is enough
    return matrix_speed()


def _make(torch, spec, batch, shape):
    """The module, a tuple of inputs for one batch, and how many samples that is."""
    made, told = _call(_function(spec), batch, spec)
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        kind = type(module).__name__
        hint = "it should return a torch.nn.Module, or one and an example of its input"
        raise Trouble(f"{spec} returned {kind}", hint)
    if shape is not None:
        inputs = torch.zeros(batch, *(int(side) for side in shape.split("x")))
    elif inputs is None:
        inputs = _guessed(torch, module, batch, spec)
    elif not told:
        # An example of its own length, whatever batch was asked for: `shoal plan` scales what is said of it.
        batch = _samples(torch, inputs, batch)
    return module, inputs if isinstance(inputs, (tuple, list)) else (inputs,), batch


def _samples(torch, inputs, otherwise):
    """The first side of the first tensor of an example."""
    first = next((i for i in (inputs if isinstance(inputs, (tuple, list)) else (inputs,)) if isinstance(i, torch.Tensor)), None)
    return len(first) if first is not None and first.dim() and len(first) else otherwise


def _guessed(torch, module, batch, spec):
    first = next((m for m in module.modules() if list(m.parameters(recurse=False))), None)
    if isinstance(first, torch.nn.Linear):
        return torch.zeros(batch, first.in_features)
    hint = "--input 3x224x224 gives the shape of a sample; or let the function return (module, example)"
    raise Trouble(f"{spec} does not say what goes into the model", hint)


def _function(spec):
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise Trouble(f"{spec!r} is no module:function", "train:make_model or path/train.py:make_model, say")
    try:
        owner = _load(place)
    except Trouble:
        raise
    except ModuleNotFoundError as error:
        hint = f"is the name right, and {os.getcwd()} the folder it is in?" if error.name == place else None
        raise Trouble(f"cannot import {place}: {error}", hint) from None
    for part in name.split("."):
        if not hasattr(owner, part):
            close = _close(part, dir(owner))
            hint = f"did you mean {close}?" if close else "is it defined at the top level?"
            raise Trouble(f"{place} has no {name}", hint)
        owner = getattr(owner, part)
    if not callable(owner):
        hint = "name the function or class that makes the model"
        raise Trouble(f"{spec} is no function but {type(owner).__name__}", hint)
    return owner


def _load(place):
    sys.path.insert(0, os.getcwd())
    if not place.endswith(".py"):
        return importlib.import_module(place)
    if not os.path.isfile(place):
        raise Trouble(f"there is no file {place} in {os.getcwd()}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
    # Not __main__, so that the script's own training does not start.
    specification = importlib.util.spec_from_file_location("described", place)
    module = importlib.util.module_from_spec(specification)
    sys.modules["described"] = module
    specification.loader.exec_module(module)
    return module


def _close(name, names):
    import difflib

    found = difflib.get_close_matches(name, names, 1)
    return found[0] if found else None


def _call(function, batch, spec):
    """What the function returns, and whether it was told the batch."""
    try:
        needed = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        needed = []
    if len(needed) > 1:
        names = ", ".join(p.name for p in needed)
        raise Trouble(f"{spec} needs arguments: {names}", "name a function that takes none, or only the batch")
    return function(*[batch] * len(needed)), bool(needed)


def _own(module):
    """The parameters of this very module that are trained."""
    return [(name, p) for name, p in module.named_parameters(recurse=False) if p.requires_grad]


def _leaves(module):
    """Modules with parameters of their own, each once and each parameter once: tied weights have one gradient."""
    seen = set()
    for name, part in module.named_modules():
        own = [(n, p) for n, p in _own(part) if id(p) not in seen]
        seen.update(id(p) for _, p in own)
        if own:
            yield name or "model", part, own


def _layer(torch, name, part, own, rows, flops):
    """The description of one module: a linear or convolutional one as such, others by their parameters."""
    parameters = dict(own)
    weight = parameters.get("weight")
    layers, rest = [], dict(parameters)
    simple = weight is not None and set(parameters) <= {"weight", "bias"}
    # One that is never called as such has no rows that could be seen, and so no factors.
    linear = simple and isinstance(part, torch.nn.Linear) and rows > 0
    conv = simple and isinstance(part, torch.nn.modules.conv._ConvNd) and not part.transposed
    if linear or conv:
        kind = "linear" if linear else "conv"
        layers.append({"name": name, "kind": kind, "shape": list(weight.shape), "bias": "bias" in parameters})
        if linear:
            layers[0]["rows"] = rows
        rest = {}
    for own_name, parameter in rest.items():
        layers.append({"name": f"{name}.{own_name}", "kind": "other", "shape": list(parameter.shape) or [1]})
    layers[0]["flops"] = flops
    return layers


def _order(module, inputs, leaves, look):
    """Leaves in the order in which the forward pass uses them; ``look(part, inputs)`` is called for each use."""
    leaves = {part: (name, own) for name, part, own in leaves}
    order, handles = [], []

    def hook(part, inputs, output):
        if part not in order:
            order.append(part)
        look(part, inputs)

    for part in leaves:
        handles.append(part.register_forward_hook(hook))
    try:
        module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    # A module whose parameters are used without calling it still has gradients: it stands behind the one before it.
    before = None
    for part in leaves:
        if part not in order:
            order.insert(0 if before is None else order.index(before) + 1, part)
        before = part
    return [(part, *leaves[part]) for part in order]


def _traced(torch, module, inputs):
    """On the meta device: shapes without numbers."""
    # It says that it cannot count what no model of ours has.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    from torch.utils.flop_counter import FlopCounterMode

    try:
        # Moving unties what is tied, so that is looked at before.
        leaves = list(_leaves(module))
        module = module.to("meta")
        inputs = tuple(i.to("meta") if isinstance(i, torch.Tensor) else i for i in inputs)
        rows = {}
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            order = _order(module, inputs, leaves, lambda part, given: _count_rows(torch, part, given, rows))
        counts = counter.get_flop_counts()
    except Trouble:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the model does on meta tensors, the way out is the same
        hint = "--measure runs it for real; an example of another shape may help too"
        raise Trouble(f"the model cannot be followed without numbers: {type(error).__name__}: {error}", hint) from error
    total, used, layers = sum(counts.get("Global", {}).values()), 0, []
    root = type(module).__name__
    for part, name, own in order:
        flops = sum(counts.get(root if part is module else f"{root}.{name}", {}).values())
        used += flops
        layers += _layer(torch, name, part, own, rows.get(part, 0), flops)
    if total > used:
        # Attention and other arithmetic between layers has no parameters but takes its time.
        layers.append({"name": "(between layers)", "kind": "other", "flops": total - used})
    return layers


def _count_rows(torch, part, given, rows):
    if isinstance(part, torch.nn.Linear) and given and isinstance(given[0], torch.Tensor):
        # A layer that is used several times in a step has the rows of all its uses.
        rows[part] = rows.get(part, 0) + math.prod(given[0].shape[:-1])


def _timed(torch, module, inputs):
    """Real steps on this machine. Seconds between two gradients belong to the layer whose gradient ends them."""
    rows, best = {}, None
    order = _order(module, inputs, list(_leaves(module)), lambda part, given: _count_rows(torch, part, given, rows))
    for step in range(_WARM_UP + _STEPS):
        times = _one_step(torch, module, inputs, order)
        if step >= _WARM_UP and (best is None or sum(times.values()) < sum(best.values())):
            best = times
    layers = []
    for part, name, own in order:
        described = _layer(torch, name, part, own, rows.get(part, 0), 0)
        del described[0]["flops"]
        for layer in described:
            layer["forward_seconds"] = layer["backward_seconds"] = 0.0
        described[0]["forward_seconds"] = best.get(("forward", part), 0.0)
        described[0]["backward_seconds"] = best.get(("backward", part), 0.0)
        layers += described
    return layers, {}


def _one_step(torch, module, inputs, order):
    times, handles, now = {}, [], [0.0]

    def lap(kind, part):
        last, now[0] = now[0], time.perf_counter()
        times[kind, part] = times.get((kind, part), 0.0) + now[0] - last

    for part, _, own in order:
        handles.append(part.register_forward_hook(lambda part, given, out: lap("forward", part)))
        for _, parameter in own:
            handles.append(parameter.register_post_accumulate_grad_hook(lambda p, part=part: lap("backward", part)))
    try:
        module.zero_grad(set_to_none=True)
        now[0] = time.perf_counter()
        loss = _sum(torch, module(*inputs))
        if order:
            lap("forward", order[-1][0])
        if not loss.requires_grad:
            hint = "does it return its loss or its scores?"
            raise Trouble("nothing that comes out of the model can be differentiated", hint)
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return times


def _sum(torch, output):
    """Something to differentiate: the mean of all numbers that come out."""
    if isinstance(output, torch.Tensor):
        if output.is_floating_point() and output.requires_grad:
            return output.mean()
        return torch.zeros(())
    if isinstance(output, dict):
        output = list(output.values())
    if hasattr(output, "to_tuple"):
        output = output.to_tuple()
    if isinstance(output, (tuple, list)):
        return sum((_sum(torch, part) for part in output), torch.zeros(()))
    return torch.zeros(())


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
