"""Which gradients are products of two thin matrices? Looks at a flat jaxpr; decides nothing about the network.

A linear layer's weight gradient is a ``dot_general`` that contracts the batch (for a sequence: batch and positions):
the mean over workers of such products is one product of everybody's operands stacked. Reshapes and transposes do no
harm.
"""

import math

import numpy as np
from jax import lax
from jax.extend import core

from .._factors import SMALLEST

_RESHAPES = ("reshape", "squeeze", "expand_dims", "copy", "copy_p")


class Contraction:
    """A gradient that is ``dot_general(lhs, rhs)`` followed by ``after``: transposes (tuples) and reshapes (lists)."""

    def __init__(self, lhs, rhs, params, after):
        self.lhs, self.rhs, self._params, self._after = lhs, rhs, params, after
        (left, right), _ = params["dimension_numbers"]
        self._left = _split(lhs.aval.shape, left)
        self._right = _split(rhs.aval.shape, right)
        self._free = tuple(lhs.aval.shape[d] for d in self._left[1]) + tuple(rhs.aval.shape[d] for d in self._right[1])
        outputs = math.prod(lhs.aval.shape[d] for d in self._left[1])
        inputs = math.prod(rhs.aval.shape[d] for d in self._right[1])
        self.sizes = (math.prod(lhs.aval.shape[d] for d in left), outputs, inputs)

    def matrices(self, lhs, rhs):
        """``x`` of rows x inputs and ``dy`` of rows x outputs."""
        rows, outputs, inputs = self.sizes
        x = rhs.transpose(self._right[0] + self._right[1]).reshape(rows, inputs)
        return x, lhs.transpose(self._left[0] + self._left[1]).reshape(rows, outputs)

    def gradient(self, lhs, rhs):
        """This worker's own, as the program would have computed it."""
        return self._behind(lax.dot_general_p.bind(lhs, rhs, **self._params))

    def rebuild(self, x, dy):
        """The gradient from everybody's rows, inside the program."""
        keep = {name: self._params[name] for name in ("precision", "preferred_element_type")}
        return self._behind(lax.dot_general(dy, x, (((0,), (0,)), ((), ())), **keep))

    def product(self, x, dy):
        """The same with NumPy, for the rare step that cannot do it in the program."""
        return self._behind(np.matmul(dy.T, x))

    def _behind(self, product):
        product = product.reshape(self._free)
        for step in self._after:
            product = product.transpose(step) if isinstance(step, tuple) else product.reshape(step)
        return product


def _split(shape, contracted):
    """Contracted and free dimensions."""
    return tuple(contracted), tuple(d for d in range(len(shape)) if d not in contracted)


def contraction(variable, producers):
    """The contraction behind a gradient, or None. ``producers`` maps variables of the jaxpr to their equations."""
    after, dtype = [], variable.aval.dtype
    while True:
        equation = producers.get(variable)
        if equation is None:
            return None
        kind = equation.primitive.name
        if kind == "dot_general":
            break
        if kind == "transpose":
            after.insert(0, tuple(equation.params["permutation"]))
        elif kind in _RESHAPES and equation.params.get("dimensions") is None or kind == "squeeze":
            after.insert(0, list(equation.outvars[0].aval.shape))
        elif kind != "convert_element_type" or equation.invars[0].aval.dtype != dtype:
            return None
        variable = equation.invars[0]
    lhs, rhs = equation.invars
    _, batch = equation.params["dimension_numbers"]
    # Literals have no producer; other types than float32 would be rounded elsewhere than dense gradients are.
    if any(batch) or any(isinstance(v, core.Literal) for v in (lhs, rhs)):
        return None
    if {v.aval.dtype.name for v in (lhs, rhs, equation.outvars[0])} != {"float32"} or dtype.name != "float32":
        return None
    found = Contraction(lhs, rhs, equation.params, after)
    return found if min(found.sizes[1:]) >= SMALLEST and found.sizes[0] else None


def worth(found, workers, use_sfb):
    """Whether factors could be fewer bytes than dense; the planner decides for good when all have been heard."""
    rows, outputs, inputs = found.sizes
    return use_sfb is True or workers * rows * (outputs + inputs) <= 2 * outputs * inputs


def too_many_rows(found, workers):
    """Why not, in words."""
    rows, outputs, inputs = found.sizes
    return f"factors of {rows} rows from each of {workers} workers are more than the {outputs} x {inputs} numbers they make up"
