"""Everyone starts from one worker's values: parameters, optimizer state, random keys."""

import jax
import jax.numpy as jnp
import numpy as np

from .. import _api
from ..errors import UsageError
from ._names import FLOATS, names


def broadcast(tree, root=None):
    """The same tree with the values of worker ``root`` (``shoal.root()`` unless told: 0, or after an ``admit()`` one who was
    there before); outside of jit. Integers, booleans and random keys go along."""
    root = _api.root() if root is None else root
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    paths = [jax.tree_util.keystr(path) for path, _ in pairs]
    leaves = [leaf for _, leaf in pairs]
    for path, leaf in zip(paths, leaves):
        if isinstance(leaf, jax.core.Tracer):
            raise UsageError(f"shoal.jax.broadcast of {path} inside jit; call it before the first step, outside of jit")
    arrays = [jnp.asarray(leaf) if not isinstance(leaf, (jax.Array, np.ndarray)) else leaf for leaf in leaves]
    _, keys = names("parameters", paths, arrays)
    raw = [_raw(array) for array in arrays]
    words = [array if array.dtype.name in FLOATS else _words(array) for array in raw]
    handles = [_api.broadcast_async(word, root, key) for word, key in zip(words, keys)]
    for handle in handles:
        handle.wait()
    return jax.tree_util.tree_unflatten(structure, [_back(*each) for each in zip(arrays, raw, words)])


def _is_key(array):
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _raw(array):
    """The array's content in memory of our own."""
    return np.array(jax.random.key_data(array) if _is_key(array) else array, order="C", copy=True)


def _words(array):
    """Bytes as the engine takes them: as float32, of which a copy keeps every bit."""
    content = array.tobytes()
    return np.frombuffer(bytearray(content + bytes(-len(content) % 4)), dtype=np.float32)


def _back(array, raw, words):
    if words is not raw:
        raw = np.frombuffer(words.tobytes()[: raw.nbytes], dtype=raw.dtype).reshape(raw.shape)
    if _is_key(array):
        return jax.random.wrap_key_data(jnp.asarray(raw), impl=jax.random.key_impl(array))
    return raw.copy() if isinstance(array, np.ndarray) else jnp.array(raw, copy=True)
