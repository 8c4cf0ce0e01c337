"""Sufficient factors: a linear layer's gradient travels as the two thin matrices it is the product of.

For a weight of ``outputs`` x ``inputs`` and a batch of K rows the gradient is ``dy.T @ x`` with ``dy`` of K x outputs and
``x`` of K x inputs. Every worker gets every worker's factors and multiplies once; all multiply the same bytes in the same
order, so all hold the same gradient (GRAD-3), as far as their processors round alike.
"""

import numpy as np

from . import _api

# What the extra row of `x` says about its sender. The row opposite in `dy` is zero, so it adds nothing to the product.
_ROWS, _WEIGHT, _FIELDS = 0, 1, 2

#: Thinner layers have no room for the fields, and nothing to gain.
SMALLEST = 8


class Gathered:
    """Everybody's factors. ``dy.T @ x`` is the mean of the gradient, and ``dy.sum(0)`` that of the bias."""

    def __init__(self, x, dy):
        self.x, self.dy = x, dy


class Factors:
    """The exchange for one weight, for batches of up to ``rows`` rows on each worker. All workers make the same calls."""

    def __init__(self, name, rows, outputs, inputs, priority=0):
        if min(outputs, inputs) < SMALLEST:
            raise ValueError(f"a layer of {outputs} x {inputs} is too thin for factors")
        workers = _api.size()
        self.name, self.rows, self.priority = name, rows, priority
        self._x = np.zeros((workers, rows + 1, inputs), dtype=np.float32)
        self._dy = np.zeros((workers, rows + 1, outputs), dtype=np.float32)
        self._handles = None

    @property
    def bytes_sent(self):
        """What a worker with a shard of its own sends for one step."""
        return (self._x[0].nbytes + self._dy[0].nbytes) * (_api.size() - 1)

    def start(self, x, dy, weight=1.0):
        """Sends this worker's factors: ``x`` of K x inputs, ``dy`` of K x outputs; ``weight`` as in ``push_pull``.

        More rows than agreed are not sent; then ``wait()`` returns None everywhere and the gradient must go dense.
        """
        me, k = _api.rank(), len(x)
        self._x[:, -1, :_FIELDS] = 0  # of whom nothing comes, nothing is taken
        own_x, own_dy = self._x[me], self._dy[me]
        fits = k <= self.rows
        if fits:
            own_x[:k], own_dy[:k] = x, dy
            own_x[k:], own_dy[k:] = 0, 0
        own_x[-1, _ROWS], own_x[-1, _WEIGHT] = (k if fits else -k), weight
        self._handles = (
            _api.all_gather_async(self._x, f"{self.name} x{self.rows}", self.priority, partial=True),
            _api.all_gather_async(self._dy, f"{self.name} dy{self.rows}", self.priority, partial=True),
        )

    def refuse(self, rows, weight=1.0):
        """Takes part without sending: then the gradient goes dense everywhere. ``rows`` is how many there would have been."""
        rows = range(max(rows, self.rows + 1))  # only its length is looked at
        self.start(rows, rows, weight)

    def done(self):
        """Whether ``wait()`` would return at once."""
        return self._handles is not None and all(handle.done() for handle in self._handles)

    def wait(self):
        """Everybody's factors, scaled so that their product is the weighted mean; None if somebody's did not fit."""
        handles, self._handles = self._handles, None
        for handle in handles:
            handle.wait()
        rows, weights = self._x[:, -1, _ROWS].copy(), self._x[:, -1, _WEIGHT].copy()
        absent = (rows == 0) & (weights == 0)
        # One that died between the two gave a new factor and an old one, or a part of one.
        absent[[rank for handle in handles for rank in handle.absent()]] = True
        self.present = int((~absent).sum())
        self.needed = int(np.abs(rows[~absent]).max(initial=0))
        if (rows[~absent] < 0).any():
            return None
        total = float(weights[~absent].sum())
        for worker in range(len(rows)):
            share = 0.0 if absent[worker] or total == 0.0 else weights[worker] / total
            # The product with zeros of a worker that is gone would still be wrong if its old numbers were not finite.
            if share == 0.0:
                self._x[worker, :-1], self._dy[worker] = 0, 0
            else:
                self._dy[worker, :-1] *= np.float32(share)
        return Gathered(self._x.reshape(-1, self._x.shape[2]), self._dy.reshape(-1, self._dy.shape[2]))
