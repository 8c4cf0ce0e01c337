"""Gradients are synchronised where an optimizer of version 1 applies them, whichever optimizer it is."""

import weakref

import tensorflow

from ...errors import UsageError
from .. import _ops
from .._exchange import Exchange
from . import launched, view

_v1 = tensorflow.compat.v1


class Graph:
    """What one graph has of ours: its exchanges, by the name of the operation that waits for each."""

    def __init__(self, graph):
        self.waits = {}
        self._reached = {}
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(None):
            # Fed with False by sessions that are not distributed.
            self.active = _v1.placeholder_with_default(True, [], name="shoal/active")

    def exchanges(self, operations):
        """The exchanges that running these operations takes part in."""
        found = set()
        for operation in operations:
            if operation.name not in self._reached:
                self._reached[operation.name] = self._behind(operation)
            found |= self._reached[operation.name]
        return found

    def _behind(self, operation):
        found, seen, todo = set(), {operation.name}, [operation]
        while todo:
            at = todo.pop()
            if at.name in self.waits:
                found.add(self.waits[at.name])
            for before in (*(tensor.op for tensor in at.inputs), *at.control_inputs):
                if before.name not in seen:
                    seen.add(before.name)
                    todo.append(before)
        return frozenset(found)


_graphs = weakref.WeakKeyDictionary()


def of(graph):
    """Ours in this graph, or None."""
    return _graphs.get(graph)


def install():
    """All optimizers come by this method of their common base, those that wrap others too."""
    native = _v1.train.Optimizer.apply_gradients

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        pairs = list(grads_and_vars)
        if launched.is_launched():
            pairs = synchronised(pairs)
        return native(self, pairs, *args, **kwargs)

    apply_gradients.__doc__ = native.__doc__
    _v1.train.Optimizer.apply_gradients = apply_gradients


def synchronised(pairs):
    """The same pairs of gradient and variable, with everybody's mean in place of this worker's gradient."""
    with_gradient = [(g, v) for g, v in pairs if g is not None]
    if not with_gradient:
        return pairs  # TensorFlow explains that
    if tensorflow.executing_eagerly():
        raise UsageError(
            "gradients of a tf.train optimizer are applied eagerly; make that a graph (tf.disable_eager_execution()), "
            "or use shoal.tensorflow.DistributedOptimizer with a Keras optimizer"
        )
    graph = _v1.get_default_graph()
    if all(_is_ours(gradient) for gradient, _ in with_gradient):
        return pairs  # an optimizer that wraps another one has seen to them
    if graph not in _graphs:
        _graphs[graph] = Graph(graph)
    ours = _graphs[graph]
    names = [variable.op.name for _, variable in with_gradient]
    gradients = [_ops.check(_v1.convert_to_tensor_or_indexed_slices(g), n) for (g, _), n in zip(with_gradient, names)]
    use_sfb = "auto" if view.may_use_sfb() else False  # what it will be, the session's settings say
    prefix = f"tf{len(ours.waits)}"
    exchange = _Exchange(prefix, _ops.tensors(prefix, gradients, names, use_sfb))
    with tensorflow.device("/cpu:0"):
        means, waits = _ops.in_graph(exchange, gradients, ours.active, gated=True)
        means = [tensorflow.identity(mean, name="shoal_mean") for mean in means]
    ours.waits[waits.name] = exchange
    replaced = iter(means)
    return [(g if g is None else next(replaced), v) for g, v in pairs]


def _is_ours(gradient):
    return isinstance(gradient, tensorflow.Tensor) and gradient.op.name.rpartition("/")[2].startswith("shoal_mean")


class _Exchange(Exchange):
    """Whether factors are wanted is known when the session is made, later than the graph."""

    @property
    def use_sfb(self):
        return launched.use_sfb

    @use_sfb.setter
    def use_sfb(self, value):
        pass
