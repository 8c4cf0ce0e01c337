"""How much does this worker's gradient count in the next round?"""

import math

from ._uncompiled import never_compiled


@never_compiled
def set_weight(samples):
    """The gradients of the next backward stand for this many samples; the mean over the workers is weighted by it.

    For losses that are means over a batch, and batches of different sizes: call it before each backward, on every worker.
    It holds for all models that the backward goes through, and is 1 again afterwards; what is set for backwards within
    ``no_sync`` adds up until their sum is sent. 0 is a batch that does not count.
    """
    global _last
    number = float(samples)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"the weight is {samples!r}; expected a number of samples, 0 or more")
    _last = _Said(number)


class _Said:
    """One call of ``set_weight``. It belongs to the first backward after it, which may go through several models."""

    def __init__(self, weight):
        self.weight = weight
        self._backward, self._in_nested, self._over = None, False, False

    def holds_in(self, backward, nested):
        """``backward`` is PyTorch's number of it: whoever begins later has a higher one, also within another (``nested``)."""
        if self._backward is None:
            self._backward, self._in_nested = backward, nested
        if backward == self._backward:
            return True
        if not nested and (backward > self._backward or not self._in_nested):
            self._over = True
        return not self._over

    def ended(self, backward):
        if backward == self._backward:
            self._over = True


_last = None


def backward_ended(backward):
    """An outermost backward is over: so is what was set for it."""
    if _last is not None:
        _last.ended(backward)


class Weight:
    """What was set, as one model takes it: each ``set_weight`` once at most."""

    def __init__(self):
        self._taken = self._sum = None

    def take(self, backward=None, nested=False):
        """A backward begins, or (None) a round for which this worker had none."""
        if _last is None or _last is self._taken:
            return
        self._taken = _last
        if backward is None or _last.holds_in(backward, nested):
            self._sum = _last.weight + (self._sum or 0.0)

    def forget(self):
        """The gradients for which weights were set were thrown away."""
        self._sum = None

    def of_the_round(self):
        total, self._sum = self._sum, None
        return 1.0 if total is None else total
