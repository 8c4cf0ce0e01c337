"""A matrix travels as two of rank r: r (M + N) numbers instead of M N (Vogels, Karimireddy, Jaggi: PowerSGD, 2019).

One step of the power method each time, begun where the last step ended: left factors are averaged, made orthonormal,
multiplied with the gradient, and the right factors averaged.
"""

import hashlib

import numpy as np

from .. import _api
from ._wire import Wire, summed_bytes


class PowerSgd(Wire):
    def __init__(self, name, shape, priority, error_feedback, rank):
        super().__init__(name, shape, priority, error_feedback)
        self._rows = self.shape[0] if len(self.shape) > 1 else 1
        self._columns = self.size // self._rows if self._rows else 0
        self.rank = min(rank, self._rows, self._columns)
        small = len(self.shape) < 2 or self.rank * (self._rows + self._columns) >= self.size
        self.scheme = "dense" if small else f"powersgd:{self.rank}"
        if small:
            self._error = None
            return
        self._left = np.empty((self._rows, self.rank), np.float32)
        self._right = self._beginning()

    def _beginning(self):
        """Directions to begin with: any will do, if all workers take the same."""
        seed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal((self._columns, self.rank)).astype(np.float32)

    @property
    def bytes_sent(self):
        if self.scheme == "dense":
            return summed_bytes(4 * self.size)
        return summed_bytes(self._left.nbytes) + summed_bytes(self._right.nbytes)

    def _send(self, flat, weight):
        self._weight = weight
        if self.scheme == "dense":
            self._handle = _api.push_pull_async(flat, None, self.name, weight, self.priority)
            return
        np.matmul(flat.reshape(self._rows, self._columns), self._right, out=self._left)
        self._handle = _api.push_pull_async(self._left, None, f"{self.name} left", weight, self.priority)

    def _advance(self, flat):
        if self.scheme == "dense":
            return
        self._handle.wait()
        left = self._directions = orthonormal(self._left)
        self._own = flat.reshape(self._rows, self._columns).T @ left
        self._right[...] = self._own
        self._handle = _api.push_pull_async(self._right, None, f"{self.name} right", self._weight, self.priority)

    def _receive(self, flat):
        self._handle.wait()
        if self.scheme == "dense":
            return
        left = self._directions
        self._keep(flat, outer(left, self._own).reshape(-1))
        flat[...] = outer(left, self._right).reshape(-1)
        if not np.isfinite(self._right).all():
            # One bad gradient must not spoil the steps that begin from here; all workers see the same bytes.
            self._right = self._beginning()


def orthonormal(columns):
    """The columns made orthonormal from left to right; those without a direction of their own become 0.

    In float64 and rounded at the end, so that processors which add in different orders agree on the bytes (GRAD-3).
    """
    out = columns.astype(np.float64)
    for k in range(out.shape[1]):
        before = np.sqrt((out[:, k] ** 2).sum())
        # Twice, because once leaves something over when the columns are nearly parallel.
        for _ in range(2):
            for j in range(k):
                out[:, k] -= (out[:, j] * out[:, k]).sum() * out[:, j]
        length = np.sqrt((out[:, k] ** 2).sum())
        out[:, k] = out[:, k] / length if length > 1e-7 * before else 0
    return out.astype(np.float32)


def outer(left, right):
    """``left @ right.T``, one rank after the other: no order of additions is left to the processor."""
    out = left[:, :1] * right[:, 0]
    for k in range(1, left.shape[1]):
        out += left[:, k : k + 1] * right[:, k]
    return out
