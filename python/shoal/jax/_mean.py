"""Mean and sum of a pytree over all workers, inside a compiled step or outside."""

import jax
import jax.numpy as jnp

from .. import _api
from ..errors import UsageError
from ._call import guard
from ._names import flatten, names
from ._parcels import parcels
from ._program import Leaf, Program


def pmean(tree, weight=None, use_sfb="auto"):
    """The mean of every leaf over all workers; with ``weight`` (this worker's number of samples) the weighted mean.

    Inside ``jit`` each leaf leaves as soon as it is computed. All workers call it with the same structure and types.
    """
    if use_sfb not in ("auto", True, False):
        raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
    if use_sfb is True:
        raise UsageError(
            "shoal.jax.pmean gets finished gradients and cannot see their factors; use_sfb=True needs "
            "shoal.jax.grad or shoal.jax.value_and_grad, which look into the backward pass"
        )
    return _reduce("pmean" if weight is None else "weighted pmean", "mean", tree, weight)


def psum(tree):
    """The sum of every leaf over all workers."""
    return _reduce("psum", "sum", tree, None)


def _reduce(kind, op, tree, weight):
    paths, leaves, structure = flatten(tree, f"the {kind} of ")
    leaves = guard(leaves)
    if _api.size() == 1:
        return jax.tree_util.tree_unflatten(structure, [alone(leaf, weight) for leaf in leaves])
    name, keys = names(kind, paths, leaves)
    packed = parcels(leaves)
    shapes = [Leaf(parcel.shape, parcel.dtype, min(n, 65535)) for n, parcel in enumerate(packed)]
    program = Program(name, op, [parcel.key(keys) for parcel in packed], shapes, weight)
    program.begin()
    for n, parcel in enumerate(packed):
        program.start(n, parcel.join([leaves[index] for index in parcel.members]))
    leaves = list(leaves)
    for parcel, mean in zip(packed, program.end()):
        for index, part in parcel.split(mean):
            leaves[index] = part
    return jax.tree_util.tree_unflatten(structure, leaves)


def alone(leaf, weight):
    """With one worker the mean is its own; that of no samples at all is 0, as with many."""
    return leaf if weight is None else jnp.where(jnp.asarray(weight) > 0, leaf, jnp.zeros_like(leaf))
