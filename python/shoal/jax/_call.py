"""Calls from a compiled program into this process: one primitive, with the guarantees that an exchange needs.

Not ``jax.experimental.io_callback``, because that hands arrays over as JAX arrays, and waiting for one inside a
callback can deadlock the CPU backend (jax issue 24255). Here callbacks get NumPy views of XLA's own buffers, valid
during the call.

A call has a side effect for XLA, so it is neither dropped nor repeated nor cached. Calls with ``ordered`` happen in
the order of the program, and programs that contain one are executed one after the other.
"""

import jax
import numpy as np
from jax.experimental import io_callback
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from ..errors import UsageError


def _effect(ordered):
    """The effect of an ``io_callback``; JAX gives it no public name, but shows it in a jaxpr."""
    (effect,) = jax.make_jaxpr(lambda: io_callback(lambda: None, None, ordered=ordered))().effects
    return effect


_ORDERED, _FREE = _effect(True), _effect(False)

call_p = core.Primitive("shoal_call")
call_p.multiple_results = True


def call(function, results, *operands, ordered=False):
    """``function(*arrays)`` gives a tuple of arrays as in ``results`` (ShapeDtypeStructs). With and without jit."""
    shapes = tuple((tuple(r.shape), np.dtype(r.dtype)) for r in results)
    return call_p.bind(*operands, function=function, shapes=shapes, ordered=ordered)


@call_p.def_impl
def _now(*operands, function, shapes, ordered):
    # What a callback returns is a buffer that the next step writes into.
    return [jax.numpy.array(out, copy=True) for out in function(*map(np.asarray, operands))]


@call_p.def_effectful_abstract_eval
def _abstract(*operands, function, shapes, ordered):
    return [jax.core.ShapedArray(*shape) for shape in shapes], {_ORDERED if ordered else _FREE}


def _lower(context, *operands, function, shapes, ordered):
    token = context.tokens_in.get(_ORDERED) if ordered else None
    types = (context.avals_in, context.avals_out)
    results, token, _ = mlir.emit_python_callback(
        context, function, token, list(operands), *types, has_side_effect=True
    )
    if ordered:
        context.set_tokens_out(mlir.TokenSet({_ORDERED: token}))
    return results


mlir.register_lowering(call_p, _lower, cacheable=False)


# An exchange begins with a call that has no operands, which no transformation would notice: so these look first.
guard_p = core.Primitive("shoal_guard")
guard_p.multiple_results = True
guard_p.def_impl(lambda *arrays: arrays)
guard_p.def_abstract_eval(lambda *arrays: list(arrays))
mlir.register_lowering(guard_p, lambda _, *arrays: arrays)


def guard(arrays):
    """The same arrays, if they may be exchanged."""
    return guard_p.bind(*arrays) if arrays else []


def _no_derivative(*_, **__):
    raise UsageError(
        "an exchange between workers has no derivative: call shoal.jax.pmean on the gradients, outside of the function "
        "that jax.grad differentiates"
    )


def _no_vmap(*_, **__):
    raise UsageError(
        "an exchange between workers cannot be vmapped: call shoal.jax.pmean outside of jax.vmap, on the whole array"
    )


for primitive in (call_p, guard_p):
    ad.primitive_jvps[primitive] = _no_derivative
    batching.primitive_batchers[primitive] = _no_vmap
