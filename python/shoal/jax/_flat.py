"""A function as one flat list of equations: what `jit` and custom derivatives wrapped is inlined."""

import jax
from jax.extend import core

_WRAPPERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")


def flat_jaxpr(function, *arguments):
    """The jaxpr of ``function`` without inner calls, and the structure of its result."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    flat = jax.make_jaxpr(lambda *values: _inline(closed.jaxpr, closed.consts, values))(*arguments)
    return flat, shape


def _inline(jaxpr, constants, arguments):
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments]))
    for equation in jaxpr.eqns:
        inputs = [read(values, v) for v in equation.invars]
        inner = _wrapped(equation)
        if inner is None:
            outputs = evaluate(equation, inputs)
        else:
            outputs = _inline(*inner, inputs)
        values.update(zip(equation.outvars, outputs))
    return [read(values, v) for v in jaxpr.outvars]


def _wrapped(equation):
    """The jaxpr inside a wrapper with its constants, or None."""
    if equation.primitive.name not in _WRAPPERS:
        return None
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    if isinstance(inner, core.ClosedJaxpr):
        return inner.jaxpr, inner.consts
    return (inner, ()) if isinstance(inner, core.Jaxpr) else None


def read(values, variable):
    return variable.val if isinstance(variable, core.Literal) else values[variable]


def evaluate(equation, inputs):
    """One equation's outputs, in whatever trace is current."""
    bound = equation.primitive.get_bind_params(equation.params)
    # Older versions give the functions apart from the parameters.
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    with jax.named_scope(str(equation.source_info.name_stack)) if str(equation.source_info.name_stack) else _nothing:
        outputs = equation.primitive.bind(*functions, *inputs, **params)
    return outputs if equation.primitive.multiple_results else [outputs]


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


_nothing = _Nothing()
