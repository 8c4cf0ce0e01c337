"""The one call that makes a model data-parallel."""

import collections
import contextlib

import torch

from .. import _api
from ..compress import check as check_scheme
from ..errors import UsageError
from . import _linear
from ._buffers import other_buffers
from ._pair import Pair
from ._parameter import slot_of
from ._reducer import Reducer
from ._running import running_statistics
from ._start import broadcast_state, ensure_started
from ._steps import parameters_changed_hands, remember, watch

_models = 0


def distribute(model, optimizer=None, use_sfb="auto", average_running_statistics=True, compress=None):
    """Synchronises the gradients of ``model`` over all workers; returns model and optimizer, the same objects.

    ``optimizer`` may be one, a list of them, or None. ``use_sfb`` says whether linear layers may send factors instead
    of gradients: "auto" where that is less work, True wherever they can, False never. ``compress`` ("bf16", "int8",
    "powersgd:4") sends what does not go as factors in a lossy form, with error feedback. Parameters and buffers are
    overwritten with those of ``shoal.root()``; from then on BatchNorm's running statistics are averaged with each step, and
    other buffers that training changes become the root's (``average_running_statistics=False`` leaves all of them to each
    worker). ``shoal.init()`` is called if it has not been. All workers make the
    same call.
    """
    synchronise(model, optimizer, use_sfb, average_running_statistics, compress)
    return model, optimizer


def synchronise(model, optimizer, use_sfb, average_running_statistics, compress=None):
    """The reducer of the model; None where there is only one worker, and nothing to do."""
    if use_sfb not in ("auto", True, False):
        raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if compress is not None:
        check_scheme(compress)
    ensure_started()
    named = _parameters(model, optimizer)
    global _models
    prefix, _models = f"torch{_models}.", _models + 1
    broadcast_state(named + list(model.named_buffers()), prefix=prefix)
    if _api.size() == 1:
        return None
    running, others = (running_statistics(model), other_buffers(model)) if average_running_statistics else ((), ())
    _api.end_together()
    reducer = Reducer(named, prefix, use_sfb, running, others, compress)
    _pair_up(model, reducer)
    parameters_changed_hands()
    remember(model)
    watch()
    return reducer


def _parameters(model, optimizer):
    """All parameters with their names, those that only an optimizer knows (of a loss, say) included."""
    named = list(model.named_parameters())
    seen = {id(parameter) for _, parameter in named}
    optimizers = [] if optimizer is None else list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    for o, one in enumerate(optimizers):
        if not hasattr(one, "param_groups"):
            raise TypeError(f"expected a torch.optim.Optimizer, or a list of them, got {type(one).__name__}")
        for g, group in enumerate(one.param_groups):
            for k, parameter in enumerate(group["params"]):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    named.append((f"optimizer{o}.group{g}.{k}", parameter))
    for name, parameter in named:
        if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
            raise UsageError(f"{name} has no shape yet; run one forward before distribute()")
        if parameter.is_meta:
            raise UsageError(f"{name} is on the device meta and has no values; make or load it on a real one before distribute()")
        if slot_of(parameter) is not None:
            raise UsageError(
                f"{name} is distributed already, with another model or with an optimizer that was given for one; call "
                "distribute() once for each model, and for models that share parameters or an optimizer once for all: "
                "distribute(torch.nn.ModuleList([one, other]), optimizer)"
            )
    return named


def _pair_up(model, reducer):
    # A parameter found under two names is tied; one linear layer found twice is just used twice.
    uses = collections.Counter(
        id(p) for module in model.modules() for p in module._parameters.values() if p is not None
    )
    slots = {id(slot.parameter): slot for slot in reducer.slots}
    for module in model.modules():
        if not _linear.eligible(module, uses, ours=1):
            continue
        weight, bias = module.weight, module.bias
        pair = Pair(reducer, slots[id(weight)], None if bias is None else slots[id(bias)])
        reducer.pairs.append(pair)
        if reducer.use_sfb is not False:
            _linear.adopt(module, pair)


@contextlib.contextmanager
def no_sync(model):
    """Within it, backward adds to this worker's own gradients; the first backward after it sends the sum."""
    slots = [slot_of(parameter) for parameter in model.parameters()]
    reducers = list({id(slot.reducer): slot.reducer for slot in slots if slot is not None}.values())
    for reducer in reducers:
        reducer.quiet += 1
    try:
        yield
    finally:
        for reducer in reducers:
            reducer.quiet -= 1
