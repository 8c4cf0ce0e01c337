"""How backward tells a reducer what it came by."""

import sys
import threading
import weakref

import torch

from ..errors import ShoalError
from ._uncompiled import never_compiled


class Guard:
    """Hooks run one at a time; what fails in one is raised where somebody needs the gradient, not out of backward."""

    def __init__(self, reducer):
        self._reducer = reducer

    def __enter__(self):
        self._reducer.lock.acquire()

    def __exit__(self, kind, error, trace):
        self._reducer.lock.release()
        if error is not None and isinstance(error, ShoalError):
            self._reducer.failure = self._reducer.failure or error
            return True
        return False


def hook(slot):
    parameter = slot.parameter
    if slot.hooked or not parameter.requires_grad:
        return
    slot.hooked = True
    slot = weakref.ref(slot)

    @never_compiled
    def before(gradient):
        here = slot()
        if here is not None:
            here.reducer.before_accumulating(here, gradient)

    @never_compiled
    def after(_):
        here = slot()
        if here is not None:
            here.reducer.accumulated(here)

    parameter.register_hook(before)
    ours = parameter.register_post_accumulate_grad_hook(after)
    # Before those of the script, which may take a step with what they find. PyTorch goes by the order of insertion.
    hooks = parameter._post_accumulate_grad_hooks
    for number in [number for number in hooks if number != ours.id]:
        hooks[number] = hooks.pop(number)


def is_nested():
    """Whether the backward that runs now was called from within another one."""
    ways_in = (torch.autograd.backward.__code__, torch.autograd.grad.__code__)
    depth, frame = 0, sys._getframe(1)
    while frame is not None:
        depth += frame.f_code in ways_in
        frame = frame.f_back
    # On a thread of a device the outermost call is on another thread's stack.
    return depth > (1 if threading.current_thread() is threading.main_thread() else 0)
