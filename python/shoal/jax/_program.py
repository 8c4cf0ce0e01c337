"""The program's side of an exchange: which calls it makes, and what each depends on.

    open (ordered) ──> start of each leaf, when it is computed ──> finish (ordered) ──> the means
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _api
from ._call import call
from ._exchange import exchange
from ._interrupt import watch

_TOKEN = jax.ShapeDtypeStruct((), np.int32)
_DONE = (np.int32(0),)


class Leaf:
    """One array as this program sees it. With a ``contraction`` it can travel as factors (see `_contractions`)."""

    def __init__(self, shape, dtype, priority, contraction=None, why_not=None):
        self.shape, self.dtype, self.priority, self.contraction = tuple(shape), np.dtype(dtype), priority, contraction
        self.why_not = why_not  # why a linear layer's gradient has no contraction here, for the log
        self.expected_rows = 0  # of each worker, in the shapes of the compiled program


class Program:
    """Made while a step is traced; ``begin``, then ``start`` for each leaf, then ``end``."""

    def __init__(self, name, op, keys, leaves, weight=None, use_sfb=False):
        watch()
        self._exchange = exchange(name, op, keys, use_sfb)
        self._leaves, self._weight = leaves, weight
        self._wanted = [index for index, leaf in enumerate(leaves) if leaf.contraction]
        self._workers = _api.size()
        self._exchange.register(self)
        for index in self._wanted:
            leaves[index].expected_rows = self._exchange.rows_agreed(index) or leaves[index].contraction.sizes[0]
        self._started = [None] * len(leaves)

    def expects(self, rows_agreed):
        """Whether its shapes are those of the factors that will come."""
        same = (rows_agreed(index) in (None, self._leaves[index].expected_rows) for index in self._wanted)
        return self._workers == _api.size() and all(same)

    def begin(self):
        if not self._leaves:
            return
        modes = jax.ShapeDtypeStruct((max(1, len(self._wanted)),), np.int32)
        opening = functools.partial(self._exchange.open, self._wanted)
        (self._modes,) = call(opening, [modes], ordered=True)
        self._weights = () if self._weight is None else (jnp.asarray(self._weight, jnp.float32),)
        self._weight = None

    def start(self, index, array):
        """The gradient itself."""
        self._started[index] = self._start_dense(index, self._modes, *self._weights, array)

    def start_either(self, index, lhs, rhs):
        """The operands of the contraction that gives the gradient; what becomes of them is known when the step runs."""
        contraction, weights = self._leaves[index].contraction, self._weights

        def factors(modes, lhs, rhs):
            return self._call(self._host_factors, index, modes, *weights, *contraction.matrices(lhs, rhs))

        def dense(modes, lhs, rhs):
            return self._start_dense(index, modes, *weights, contraction.gradient(lhs, rhs))

        chosen = self._modes[self._wanted.index(index)] == 1
        self._started[index] = _either(chosen, factors, dense, self._modes, lhs, rhs)

    def _start_dense(self, index, *operands):
        return self._call(self._host_dense, index, *operands)

    def _call(self, function, index, *operands):
        (token,) = call(functools.partial(function, index), [_TOKEN], *operands)
        return token

    def _host_dense(self, index, modes, *operands):
        leaf = self._leaves[index]
        self._exchange.start_dense(index, leaf.shape, _number(operands[:-1]), leaf.priority, operands[-1])
        return _DONE

    def _host_factors(self, index, modes, *operands):
        self._exchange.start_factors(index, _number(operands[:-2]), *operands[-2:])
        return _DONE

    def end(self):
        """The means, once everybody's parts are there."""
        if not self._leaves:
            return []
        outs = [out for leaf in self._leaves for out in self._outs(leaf)]
        finishing = functools.partial(self._host_finish, len(self._weights))
        results = iter(call(finishing, outs, *self._weights, *self._started, ordered=True))
        # The compiled program keeps this object; what belongs to the trace must not stay with it.
        self._modes, self._weights, self._started = None, (), None
        means = []
        for index, leaf in enumerate(self._leaves):
            if leaf.contraction is None:
                means.append(next(results))
            else:
                means.append(self._rebuilt(index, next(results), next(results), next(results)))
        return means

    def _outs(self, leaf):
        if leaf.contraction is None:
            return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)]
        _, outputs, inputs = leaf.contraction.sizes
        rows = self._workers * (leaf.expected_rows + 1)
        matrices = [jax.ShapeDtypeStruct((rows, n), leaf.dtype) for n in (inputs, outputs)]
        return [_TOKEN, *matrices]

    def _host_finish(self, weights, *operands):
        self._exchange.finish(self._leaves, _number(operands[:weights]))
        outs = []
        for index, leaf in enumerate(self._leaves):
            if leaf.contraction is None:
                outs.append(self._exchange.result(index))
                continue
            gathered = self._exchange.factors_of(index, leaf)
            if gathered is None:
                outs += [np.int32(0), *(np.zeros(out.shape, out.dtype) for out in self._outs(leaf)[1:])]
            else:
                outs += [np.int32(1), gathered.x, gathered.dy]
        return tuple(outs)

    def _rebuilt(self, index, came, x, dy):
        """One product of everybody's factors, or what the host has if this step went dense."""
        leaf = self._leaves[index]

        def product(came, x, dy):
            return leaf.contraction.rebuild(x, dy)

        def fetched(came, x, dy):
            (mean,) = call(lambda _: (self._exchange.result(index),), self._outs(Leaf(leaf.shape, leaf.dtype, 0)), came)
            return mean

        return _either(came == 1, product, fetched, came, x, dy)


def _either(condition, one, other, *operands):
    """``lax.cond``, or outside of a program simply the right one of them, which needs no compiling."""
    if isinstance(condition, jax.core.Tracer):
        return lax.cond(condition, one, other, *operands)
    return (one if condition else other)(*operands)


def _number(weights):
    return float(weights[0]) if weights else None
