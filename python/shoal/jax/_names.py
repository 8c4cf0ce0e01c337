"""What are the keys of a pytree called? The same on all workers, whatever they traced before and in which order."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UsageError

FLOATS = ("float32", "float64", "float16", "bfloat16")


def flatten(tree, what):
    """Paths, leaves and structure of a tree of float arrays; other leaves are refused by their path."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    paths = [jax.tree_util.keystr(path) for path, _ in pairs]
    leaves = [_array(path, leaf, what) for path, (_, leaf) in zip(paths, pairs)]
    for path, leaf in zip(paths, leaves):
        check(path, leaf, what)
    return paths, leaves, structure


def _array(path, leaf, what):
    if isinstance(leaf, (jax.Array, np.ndarray)):
        return leaf
    try:
        return jnp.asarray(leaf)
    except TypeError as error:
        raise UsageError(f"{what}{path} is a {type(leaf).__name__}, not an array ({error})") from error


def check(path, leaf, what):
    if leaf.dtype.name not in FLOATS:
        raise UsageError(
            f"{what}{path} is of {leaf.dtype.name} and has no mean; use {', '.join(FLOATS[:-1])} or {FLOATS[-1]}, "
            "or leave it out of the tree"
        )


def names(kind, paths, leaves):
    """The name of one exchange and those of its keys.

    They carry a digest of all paths, shapes and types, so that two models in one process do not meet in one key.
    Exchanges of the same kind and the same arrays share their keys; they never overlap (see `_exchange`).
    """
    content = repr((kind, [(path, tuple(leaf.shape), leaf.dtype.name) for path, leaf in zip(paths, leaves)]))
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    keys = [f"jax {kind}{path} {leaf.dtype.name}{list(leaf.shape)} #{digest}" for path, leaf in zip(paths, leaves)]
    return f"jax {kind} #{digest}", keys
