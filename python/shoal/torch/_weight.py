"""How much does this worker's gradient count in the next round?"""

import math

from ._uncompiled import never_compiled

_next = 1.0


@never_compiled
def set_weight(samples):
    """The gradients of the next backward stand for this many samples; the mean over the workers is weighted by it.

    For losses that are means over a batch, and batches of different sizes: call it before each backward, on every worker.
    It is 1 again afterwards. 0 is a batch that does not count.
    """
    global _next
    number = float(samples)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"the weight is {samples!r}; expected a number of samples, 0 or more")
    _next = number


def take_weight():
    """The weight of the round that begins."""
    global _next
    weight, _next = _next, 1.0
    return weight
