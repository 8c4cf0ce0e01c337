"""Lossy schemes for those who ask for them: one parameter's way through `shoal.compress`, as a handle like the engine's."""

from .. import compress


class Lossy:
    def __init__(self, scheme, key, priority):
        self._scheme, self._key, self._priority = scheme, key, priority
        self._way, self._landing = None, None

    @property
    def scheme(self):
        """What it comes to: "dense" where the scheme has nothing to offer; the one asked for before it was ever used."""
        return self._scheme if self._way is None else self._way.scheme

    def takes(self, array):
        """An array or a tensor."""
        return str(array.dtype).removeprefix("torch.") == "float32"

    def start(self, array, weight):
        """Sends; the array holds the result after ``wait``."""
        shape = array.shape if array.ndim == 2 else (array.shape[0], -1) if array.ndim > 2 else array.shape
        array = array.reshape(shape)  # a convolution is a matrix of its outputs; still the same memory
        if self._way is None or self._way.shape != array.shape:
            self._way = compress.make(self._scheme, self._key, array.shape, self._priority)
        self._way.start(array, weight)
        return self

    @property
    def advanced(self):
        return self._way.advanced

    def advance(self):
        """For schemes that speak twice: waits until the second message can be made, and sends it."""
        self._way.advance()

    def wait(self):
        self._way.wait()

    def done(self):
        return self._way.done()
