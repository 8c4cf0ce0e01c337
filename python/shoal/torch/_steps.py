"""Every optimizer's ``step()`` first completes the rounds of the parameters it is about to change."""

import logging
import weakref

import torch.optim.optimizer as _optimizer
from torch.optim import LBFGS

from ..trace import trace
from ._parameter import slot_of
from ._timeline import compute
from ._uncompiled import never_compiled

log = logging.getLogger("shoal")

_known = weakref.WeakKeyDictionary()
_watching = False


def watch():
    """One hook for all optimizers, those yet to be made included."""
    global _watching
    if not _watching:
        _watching = True
        _optimizer.register_optimizer_step_pre_hook(_before_step)
        _optimizer.register_optimizer_step_post_hook(_after_step)
        trace.watched_by(compute)


def reducers_of(optimizer):
    """The reducers of an optimizer's parameters, each with the slots of those."""
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    found = _known.get(optimizer)
    if found is None or found[0] != (count, _generation):
        slots = [slot_of(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        by_reducer = {}
        for slot in slots:
            if slot is not None:
                by_reducer.setdefault(id(slot.reducer), (slot.reducer, []))[1].append(slot)
        reducers = list(by_reducer.values())
        if None in slots and (reducers or _of_a_known_model(optimizer)):
            log.warning(
                "%d of an optimizer's %d parameters came after distribute(); their gradients stay this worker's own. "
                "Make all of them first, and distribute() then (load_state_dict(assign=True) makes new ones)",
                slots.count(None),
                len(slots),
            )
        found = _known[optimizer] = ((count, _generation), reducers)
    return found[1]


def _of_a_known_model(optimizer):
    """Whether it has parameters of a model that was distributed, but none of those that were."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return any(id(parameter) in wanted for model in _models if model() is not None for parameter in model().parameters())


_models = []


def remember(model):
    """For ``_of_a_known_model``: this one was distributed."""
    _models[:] = [here for here in _models if here() is not None] + [weakref.ref(model)]


_generation = 0


def parameters_changed_hands():
    """What is known of optimizers is looked up again."""
    global _generation
    _generation += 1


@never_compiled
def _before_step(optimizer, args, kwargs):
    # After the optimizer itself, `args` may hold a closure: then backward is still to come, inside of step().
    has_closure = kwargs.get("closure") is not None or any(callable(arg) for arg in args if arg is not optimizer)
    compute.step_begins()
    reducers = reducers_of(optimizer)
    for reducer, slots in reducers:
        reducer.before_step(optimizer, has_closure, slots)
    if has_closure and reducers and isinstance(optimizer, LBFGS):
        return _with_the_mean_loss(reducers[0][0], args, kwargs)
    return None


def _with_the_mean_loss(reducer, args, kwargs):
    """How often LBFGS calls its closure depends on the loss; workers that look at losses of their own would part there."""

    def mean(closure):
        return lambda: reducer.mean_loss(closure())

    kwargs = {name: mean(value) if name == "closure" and callable(value) else value for name, value in kwargs.items()}
    return (args[0], *(mean(arg) if callable(arg) else arg for arg in args[1:])), kwargs


@never_compiled
def _after_step(optimizer, args, kwargs):
    for reducer, _ in reducers_of(optimizer):
        reducer.after_step()
    compute.step_ends()
