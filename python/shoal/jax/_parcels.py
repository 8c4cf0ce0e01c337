"""Which arrays travel together? Biases, scales and the like are small and many, and each call has its price.

Decided by shapes and types alone, so all workers decide alike.
"""

import math

import jax.numpy as jnp

SMALL = 16 << 10  # bytes of an array that shares a parcel
FULL = 64 << 10  # bytes of a parcel


class Parcel:
    """One or more arrays of one type that travel as one."""

    def __init__(self, index, leaf):
        self.members, self._shapes, self.dtype = [index], [tuple(leaf.shape)], leaf.dtype

    def add(self, index, leaf):
        self.members.append(index)
        self._shapes.append(tuple(leaf.shape))

    @property
    def shape(self):
        return self._shapes[0] if len(self.members) == 1 else (sum(map(math.prod, self._shapes)),)

    def key(self, keys):
        """Its name, from those of all arrays."""
        others = len(self.members) - 1
        return keys[self.members[0]] + (f" and {others} more" if others else "")

    def join(self, arrays):
        return arrays[0] if len(arrays) == 1 else jnp.concatenate([array.reshape(-1) for array in arrays])

    def split(self, joined):
        """The arrays again, each with its index."""
        if len(self.members) == 1:
            return [(self.members[0], joined)]
        parts, at = [], 0
        for index, shape in zip(self.members, self._shapes):
            end = at + math.prod(shape)
            parts.append((index, joined[at:end].reshape(shape)))
            at = end
        return parts


def parcels(leaves):
    """The parcels of a tree's leaves; arrays without elements are in none."""
    packed, filling = [], {}
    for index, leaf in enumerate(leaves):
        size = math.prod(leaf.shape) * leaf.dtype.itemsize
        if not size:
            continue
        small = len(leaf.shape) < 2 and size <= SMALL
        parcel, filled = filling.get(leaf.dtype, (None, FULL))
        if small and filled + size <= FULL:
            parcel.add(index, leaf)
            filling[leaf.dtype] = (parcel, filled + size)
            continue
        packed.append(Parcel(index, leaf))
        if small:
            filling[leaf.dtype] = (packed[-1], size)
    return packed
