"""Arrays of any type, broadcast bit by bit: the engine knows only floating-point numbers, and copies them as is."""

import numpy as np

from .. import _api


class Copy:
    """One array on its way from the root to all workers."""

    def __init__(self, name, shape, dtype, priority, value=None):
        self._shape, self._dtype = tuple(shape), np.dtype(dtype)
        self._size = int(np.prod(self._shape)) * self._dtype.itemsize
        # At least one element, so that scalars, empty arrays and single bytes need no case of their own.
        self._words = np.zeros(self._size // 4 + 1, dtype=np.float32)
        if value is not None:
            flat = np.ascontiguousarray(value, dtype=self._dtype).reshape(-1)
            self._words.view(np.uint8)[: self._size] = flat.view(np.uint8)
        self._handle = _api.broadcast_async(self._words, _api.root(), f"{name} {self._dtype.name}{shape}", priority)

    def wait(self):
        self._handle.wait()
        return self._words.view(np.uint8)[: self._size].view(self._dtype).reshape(self._shape)
