"""What this worker computes, for ``shoal.trace``: each layer's forward, what backward took from gradient to gradient, and steps.

Only while something is recorded do modules have hooks for it; then every call of every module looks whether it has
parameters that are distributed.
"""

import threading
import time

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ..trace import trace
from ._parameter import slot_of


class Compute:
    """What is on the track "compute" follows one another or lies within one another: backward begins where the last thing ended."""

    def __init__(self):
        self._hooks, self._calls, self._ended = [], threading.local(), 0

    def begin(self):
        self._ended = time.monotonic_ns()
        self._hooks = [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]

    def end(self):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _before(self, module, inputs):
        if not torch.compiler.is_compiling() and _name(module) is not None:
            self._begins(module).append(time.monotonic_ns())

    def _after(self, module, inputs, output):
        if torch.compiler.is_compiling():
            return
        begins = self._begins(module)
        if begins:
            self._note(f"forward {_name(module)}", begins.pop())

    def _begins(self, module):
        if not hasattr(self._calls, "begins"):
            self._calls.begins = {}
        return self._calls.begins.setdefault(id(module), [])

    def backward_reached(self, slot):
        """This parameter's gradient, or its factors, are there."""
        if trace.is_on:
            self._note(f"backward {slot.key}", self._ended)

    def step_begins(self):
        self._ended = self.stepped = time.monotonic_ns()

    def step_ends(self):
        if trace.is_on:
            self._note("step", self.stepped)

    def _note(self, name, begin):
        self._ended = time.monotonic_ns()
        trace.note_compute(name, begin, self._ended)


def _name(module):
    """The layer as its parameters' keys have it; None if it has none that is distributed."""
    for parameter in module._parameters.values():
        slot = None if parameter is None else slot_of(parameter)
        if slot is not None:
            return slot.key.rpartition(".")[0] or slot.key
    return None


compute = Compute()
