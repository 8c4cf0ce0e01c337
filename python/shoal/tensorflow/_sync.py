"""Gradients of TensorFlow 2, eagerly or inside a ``tf.function``: one exchange, however often a function is traced."""

import itertools

from .. import _api
from .._replicas import Replicas
from . import _interrupt, _ops
from ._exchange import Exchange

_numbers = itertools.count()

_BEGIN_ALIKE = (
    "Give fit() callbacks=[shoal.tensorflow.BroadcastCallback()], or call shoal.tensorflow.broadcast_variables(model.weights) "
    "before the first step"
)


class Synchroniser:
    """Everybody's mean in place of this worker's gradients. Workers make theirs in the same order."""

    def __init__(self, use_sfb="auto"):
        if use_sfb not in ("auto", True, False):
            raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
        self._prefix, self._use_sfb = f"keras{next(_numbers)}", use_sfb
        self._exchanges = {}
        self._replicas, self._variables = Replicas(self._prefix, _BEGIN_ALIKE), []

    def means(self, gradients, variables):
        """A list like ``gradients``, None where it has None."""
        present = [(g, v) for g, v in zip(gradients, variables) if g is not None]
        if not present or _api.size() == 1:
            return list(gradients)
        _interrupt.watch()
        names = [f"{index} {_name(variable)}" for index, (_, variable) in enumerate(present)]
        checked = [_ops.check(gradient, name) for (gradient, _), name in zip(present, names)]
        self._variables = [] if self._replicas.done else [variable for _, variable in present]
        means = iter(self._synchronised(checked, names))
        return [None if gradient is None else next(means) for gradient in gradients]

    def _synchronised(self, gradients, names):
        eager = _ops.tf.executing_eagerly()
        described = _ops.tensors(self._prefix, gradients, names, self._use_sfb)
        # A function may be traced again, for another batch size say; plans and memory stay. Which gradients
        # have factors is part of the key: in another function the same gradient may be made in another way.
        key = eager, tuple((tensor.name, tensor.factored) for tensor in described)
        if key not in self._exchanges:
            self._exchanges[key] = Exchange(f"{self._prefix} {len(self._exchanges)}", described, self._use_sfb)
        exchange = self._exchanges[key]
        exchange.before_wait = self._look_at_replicas
        if eager:
            return _ops.at_once(exchange, gradients)
        return _ops.in_graph(exchange, gradients)[0]

    def _look_at_replicas(self):
        """While a step waits, and so before it changes anything."""
        if not self._replicas.done:
            variables = self._variables
            self._replicas.look([_name(v) for v in variables], lambda: [v.numpy() for v in variables])


def _name(variable):
    return getattr(variable, "path", None) or variable.name
