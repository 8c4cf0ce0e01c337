"""How much does this worker's gradient count? One number for the process, until it is set again."""

import math

_weight = 1.0


def set_weight(samples):
    """The gradients of the next backward stand for this many samples; the mean over the workers is weighted by it.

    For losses that are means over a batch, and batches of different sizes. 0 is a batch that does not count.
    """
    global _weight
    number = float(samples)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"the weight is {samples!r}; expected a number of samples, 0 or more")
    _weight = number


def weight():
    return _weight
