"""``grad`` and ``value_and_grad`` whose gradients are the mean over all workers, linear layers by their factors.

The gradient function is traced once more, equation by equation: a gradient starts on its way right behind the equation
that computes it, and where factors may be fewer bytes the product itself is only computed in steps that need it.
"""

import functools

import jax
import numpy as np
from jax.extend import core

from .. import _api
from ._call import guard
from ._contractions import contraction, too_many_rows, worth
from ._flat import evaluate, flat_jaxpr, read
from ._mean import alone
from ._names import check, names
from ._parcels import parcels
from ._program import Leaf, Program


def value_and_grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=(), *, use_sfb="auto", weight=None
):
    """Like ``jax.value_and_grad``; the value is this worker's own, the gradients are the mean over all workers.

    ``weight``: this worker's number of samples, or a function of ``fun``'s arguments that gives it: a weighted mean.
    ``use_sfb``: ``"auto"`` sends linear layers' gradients as factors where that is fewer bytes, ``True`` wherever they
    have them, ``False`` never.
    """
    if use_sfb not in ("auto", True, False):
        raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
    local = jax.value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @functools.wraps(fun)
    def distributed(*args, **kwargs):
        samples = weight(*args, **kwargs) if callable(weight) else weight
        if _api.size() == 1:
            value, grads = local(*args, **kwargs)
            return value, jax.tree.map(lambda leaf: alone(leaf, samples), grads)
        return _distributed(local, argnums, args, kwargs, samples, use_sfb)

    return distributed


def grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=(), *, use_sfb="auto", weight=None
):
    """Like ``jax.grad``, but the gradients are the mean over all workers. See ``value_and_grad``."""
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes, use_sfb=use_sfb, weight=weight)

    @functools.wraps(fun)
    def distributed(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return distributed


def _distributed(local, argnums, args, kwargs, weight, use_sfb):
    leaves, structure = jax.tree.flatten((args, kwargs))
    # Flags, strings and the like stay what they are, as with jax.grad; whatever is differentiated is an array.
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    differentiated = [n % len(args) for n in chosen] if args else []
    marks = [k in differentiated for k, argument in enumerate(args) for _ in jax.tree.leaves(argument)]
    marks += [False] * (len(leaves) - len(marks))
    traced = [n for n, leaf in enumerate(leaves) if marks[n] or isinstance(leaf, (jax.Array, np.ndarray, np.generic))]

    def flat(*arrays):
        whole = list(leaves)
        for n, array in zip(traced, arrays):
            whole[n] = array
        args, kwargs = jax.tree.unflatten(structure, whole)
        return local(*args, **kwargs)

    arguments = guard([leaves[n] for n in traced])
    closed, (value, grads) = flat_jaxpr(flat, *arguments)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(grads)[0]]
    values = len(jax.tree.leaves(value))
    outputs = _run(closed, arguments, values, paths, weight, use_sfb)
    value = jax.tree.unflatten(jax.tree.structure(value), outputs[:values])
    return value, jax.tree.unflatten(jax.tree.structure(grads), outputs[values:])


def _run(closed, arguments, values, paths, weight, use_sfb):
    """Evaluates the jaxpr; its outputs behind the first ``values`` are gradients, and come back as means."""
    jaxpr = closed.jaxpr
    gradients = jaxpr.outvars[values:]
    kind = "grad" if weight is None else "weighted grad"
    for path, variable in zip(paths, gradients):
        check(path, variable.aval, "the gradient of ")
    avals = [variable.aval for variable in gradients]
    name, keys = names(kind, paths, avals)
    packed = parcels(avals)
    leaves = _leaves(jaxpr, gradients, packed, use_sfb)
    program = Program(name, "mean", [parcel.key(keys) for parcel in packed], leaves, weight, use_sfb)
    program.begin()
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *arguments]))
    needs = [_needs(leaf, parcel, gradients) for leaf, parcel in zip(leaves, packed)]
    awaited = {}  # which parcels wait for a variable
    missing = [{v for v in _variables(atoms) if v not in env} for atoms in needs]

    def start(index):
        operands = [jax.numpy.asarray(read(env, v)) for v in needs[index]]
        if leaves[index].contraction:
            program.start_either(index, *operands)
        else:
            program.start(index, packed[index].join(operands))

    for index, variables in enumerate(missing):
        for variable in variables:
            awaited.setdefault(variable, []).append(index)
        if not variables:
            start(index)
    for equation in _needed(jaxpr, [*jaxpr.outvars[:values], *(v for atoms in needs for v in atoms)]):
        env.update(zip(equation.outvars, evaluate(equation, [read(env, v) for v in equation.invars])))
        for variable in equation.outvars:
            for index in awaited.pop(variable, ()):
                missing[index].discard(variable)
                if not missing[index]:
                    start(index)
    means = {index: part for parcel, mean in zip(packed, program.end()) for index, part in parcel.split(mean)}
    own = [read(env, v) for v in jaxpr.outvars[:values]]
    # What has no elements has not travelled.
    return own + [means[n] if n in means else jax.numpy.zeros(v.shape, v.dtype) for n, v in enumerate(avals)]


def _leaves(jaxpr, gradients, packed, use_sfb):
    """The parcels as the program sees them, with the contractions that may travel as factors."""
    producers = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
    leaves = []
    for n, parcel in enumerate(packed):
        variable = gradients[parcel.members[0]]
        alone = len(parcel.shape) > 1 and not isinstance(variable, core.Literal)
        found = contraction(variable, producers) if alone and use_sfb is not False else None
        why_not = None
        if found is not None and not worth(found, _api.size(), use_sfb):
            found, why_not = None, too_many_rows(found, _api.size())
        leaves.append(Leaf(parcel.shape, parcel.dtype, min(n, 65535), found, why_not))
    return leaves


def _needs(leaf, parcel, gradients):
    """What must have been computed before a parcel can start."""
    if leaf.contraction:
        return [leaf.contraction.lhs, leaf.contraction.rhs]
    return [gradients[index] for index in parcel.members]


def _needed(jaxpr, wanted):
    """The equations that somebody needs; the products that factors replace are not among them."""
    needed = _variables(wanted)
    kept = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or any(v in needed for v in equation.outvars):
            kept.append(equation)
            needed |= _variables(equation.invars)
    return reversed(kept)


def _variables(atoms):
    return {v for v in atoms if not isinstance(v, core.Literal)}
