"""The gradients of one optimizer on their way: started one by one as they appear, awaited together. No TensorFlow here.

Starting never blocks, and only one thread ever waits, after everything has been started; so the order in which a
framework computes its gradients, on however few threads, cannot make workers wait for each other in a circle (GRAD-5).
"""

import logging
import sys
import threading

import numpy as np

from .. import _api
from .._factors import SMALLEST, Factors
from .._planner import DENSE, FACTORS, Planner
from ..errors import ShoalError, UsageError
from . import _interrupt

log = logging.getLogger("shoal")

# As TensorFlow aligns its own memory; it takes over what is aligned so, and copies the rest.
_ALIGNMENT = 64


class Tensor:
    """One gradient: its key, its urgency, and the memory it travels in."""

    def __init__(self, name, shape, dtype, priority, factored=False):
        self.name, self.shape, self.dtype, self.priority = name, tuple(shape), np.dtype(dtype), priority
        self.factored = factored and len(self.shape) == 2 and min(self.shape) >= SMALLEST and self.dtype == np.float32
        self._buffers = []

    @property
    def elements(self):
        return int(np.prod(self.shape))

    def buffer(self):
        """Memory that nobody else holds: TensorFlow may keep what it was given for as long as it likes."""
        for index in range(len(self._buffers)):
            if sys.getrefcount(self._buffers[index]) == 2:
                return self._buffers[index]
        raw = np.empty(self.elements * self.dtype.itemsize + _ALIGNMENT, dtype=np.uint8)
        skip = -raw.ctypes.data % _ALIGNMENT
        made = raw[skip : skip + self.elements * self.dtype.itemsize].view(self.dtype).reshape(self.shape)
        self._buffers.append(made)
        return self._buffers[-1]


class Exchange:
    """All gradients of one optimizer. Every worker makes the same exchanges, in the same order."""

    def __init__(self, prefix, tensors, use_sfb=False):
        _api.end_together()
        self.prefix, self.tensors, self.use_sfb = prefix, tensors, use_sfb
        self.error, self.before_wait = None, None
        self.passing = {}  # gradients of sessions that are not distributed
        self._lock = threading.Lock()
        self._planner, self._factors, self._present = None, {}, None
        self._under_way = [None] * len(tensors)

    def schemes(self):
        """For each tensor, whether it travels as factors this time."""
        return [self._goes_as_factors(tensor) for tensor in self.tensors]

    def _goes_as_factors(self, tensor):
        choice = self._planner.choices.get(tensor.name) if self._planner is not None and tensor.factored else None
        return choice is not None and choice.scheme == FACTORS

    def start(self, index, gradient=None, pair=None):
        """Sends a gradient, or its factors ``(a, b)`` with ``a.T @ b`` the gradient. Never blocks."""
        tensor = self.tensors[index]
        with self._noting():
            if self._under_way[index] is not None:
                raise UsageError(
                    f"the gradient of {tensor.name} is still under way from a step that failed on this worker; the "
                    "others have gone on without it, so this run cannot: start it again from the last checkpoint"
                )
            if gradient is None:
                factors = self._factors_of(tensor)
                # `a` is what Factors calls dy: the rows of the product come from it.
                factors.start(pair[1], pair[0])
                self._under_way[index] = factors, pair
            else:
                self._under_way[index] = self._start_dense(tensor, gradient), pair

    def _factors_of(self, tensor):
        rows = self._planner.choices[tensor.name].rows
        factors = self._factors.get(tensor.name)
        if factors is None or factors.rows != rows:
            factors = Factors(tensor.name, rows, tensor.shape[0], tensor.shape[1], tensor.priority)
            self._factors[tensor.name] = factors
        return factors

    def _start_dense(self, tensor, gradient):
        buffer = tensor.buffer()
        np.copyto(buffer, gradient.reshape(tensor.shape))
        return _api.push_pull_async(buffer, name=tensor.name, priority=tensor.priority)

    def wait(self):
        """Waits for all that was started. For each tensor a dense array, or the two factors of everybody."""
        with self._noting(), _interrupt.watched():
            if self.before_wait is not None:
                self.before_wait()
            results, replan = [None] * len(self.tensors), False
            late = []
            for index in sorted(range(len(self.tensors)), key=lambda i: self.tensors[i].priority):
                sent, pair = self._under_way[index]
                if not isinstance(sent, Factors):
                    results[index] = sent.wait()
                else:
                    gathered = sent.wait()
                    if gathered is None:
                        # Somebody's batch was larger than agreed; every worker reads so in the same bytes (GRAD-3).
                        log.info("%s: a batch of %d rows does not fit; dense this time", sent.name, sent.needed)
                        product = pair[0].T @ pair[1]
                        late.append((index, self._start_dense(self.tensors[index], product)))
                        replan = True
                    else:
                        results[index] = gathered.dy, gathered.x
                        replan |= self._present not in (None, sent.present)
                        self._present = sent.present
            for index, handle in late:
                results[index] = handle.wait()
            self._plan(replan)
            self._under_way = [None] * len(self.tensors)
            return results

    def _plan(self, again):
        """After the first step, and whenever something changed that every worker has seen alike."""
        first = self._planner is None
        if self.use_sfb is False or not any(tensor.factored for tensor in self.tensors):
            return
        if not (first or again):
            self._planner.step()  # now and then it looks whether the link has changed
            return
        if first:
            self._planner = Planner(self.prefix, self.use_sfb)
        for tensor, (_, pair) in zip(self.tensors, self._under_way):
            rows = len(pair[0]) if tensor.factored and pair is not None else 0
            self._planner.saw(tensor.name, tensor.elements, rows, *(tensor.shape if rows else (0, 0)))
        self._planner.settle()

    def _noting(self):
        return _Noting(self)


class _Noting:
    """Keeps the error that ends a step: TensorFlow passes on only its text."""

    def __init__(self, exchange):
        self._exchange = exchange

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, ShoalError):
            self._exchange.error = error
        return False


def taken_error(exchanges):
    """The error that ended the last step of one of these, if it was one of ours; given once."""
    for exchange in exchanges:
        error, exchange.error = exchange.error, None
        if error is not None:
            return error
    return None


__all__ = ["DENSE", "Exchange", "Tensor", "taken_error"]
