"""What all lossy schemes share: the array under way, and the memory of what has not been sent yet."""

import numpy as np

from .. import _api
from ..errors import UsageError


class Wire:
    def __init__(self, name, shape, priority, error_feedback):
        self.name, self.shape, self.priority = name, tuple(shape), priority
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self._error = np.zeros(self.size, np.float32) if error_feedback else None
        self._array, self._counts, self.advanced = None, True, False

    def start(self, array, weight=None):
        """Begins; ``array`` belongs to the wire until ``wait``. ``weight`` as in ``push_pull``."""
        if self._array is not None:
            raise UsageError(f"`{self.name}` is under way already; call wait() first")
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(f"`{self.name}` is {kind}; lossy schemes take numpy arrays of float32")
        if array.shape != self.shape:
            raise ValueError(f"`{self.name}` was made for the shape {self.shape} and got {array.shape}")
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError(f"`{self.name}` is read-only or not C-contiguous; pass a copy: it holds the result")
        flat = array.reshape(-1)
        # What weighs nothing is not said at all: what waits to be sent goes on waiting.
        self._counts = weight is None or weight != 0
        if not self._counts:
            flat.fill(0)
        elif self._error is not None:
            flat += self._error
        self._array, self.advanced = array, False
        try:
            self._send(flat, weight)
        except BaseException:
            self._array = None
            raise

    def advance(self):
        """For schemes that speak twice: waits for the first answer, which needs all workers' ``start`` only, and sends
        the second message. Who has several under way calls it for all before waiting for one, or workers that wait in
        different orders wait for each other."""
        if self._array is not None and not self.advanced:
            self._advance(self._array.reshape(-1))
            self.advanced = True

    def done(self):
        """Whether ``wait()`` would return at once."""
        return self._array is not None and self.advanced and self._handle.done()

    def wait(self):
        """The same array, which then holds the result."""
        array = self._array
        if array is None:
            raise UsageError(f"`{self.name}` is not under way; call start() first")
        try:
            self.advance()
            self._receive(array.reshape(-1))
        finally:
            self._array = None
        return array

    def _keep(self, wanted, said):
        """Remembers what the message did not say. A gradient that is not finite is not worth remembering."""
        if self._error is not None and self._counts:
            with np.errstate(invalid="ignore"):
                np.subtract(wanted, said, out=self._error)
            self._error[~np.isfinite(self._error)] = 0

    @property
    def error_norm(self):
        return 0.0 if self._error is None else float(np.sqrt(np.square(self._error, dtype=np.float64).sum()))

    @property
    def bytes_sent(self):
        raise NotImplementedError

    def _send(self, flat, weight):
        raise NotImplementedError

    def _advance(self, flat):
        """Nothing to do for schemes that speak once."""

    def _receive(self, flat):
        raise NotImplementedError


def summed_bytes(content):
    """What a worker with a shard of its own sends for a sum of ``content`` bytes."""
    workers = _api.size()
    return 2 * content * (workers - 1) // workers
