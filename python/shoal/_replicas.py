"""Do all workers train the same model? Looked at once, from a few numbers of each parameter.

Nothing but a mean of gradients holds replicas together, so a script that forgets to begin alike trains as many models as it
has workers, and no figure says so.
"""

import numpy as np

from . import _api
from .errors import UsageError

#: So many numbers of each parameter are compared, taken from all over it.
NUMBERS = 64
#: Processors of different kinds may round a step differently; other beginnings differ by about as much as the numbers themselves.
TOLERANCE = 1e-3


def numbers_of(array):
    """At most ``NUMBERS`` of an array's, always in the same places."""
    flat = np.asarray(array).reshape(-1)
    places = np.linspace(0, max(0, flat.size - 1), min(NUMBERS, flat.size)).astype(np.int64)
    return flat[places].astype(np.float64)


def first_difference(rows, counts, absent=()):
    """The worker and the parameter that first differ from those of the lowest worker there; None if all agree.

    ``rows`` has each worker's numbers, ``counts`` how many are of each parameter.
    """
    there = [rank for rank in range(len(rows)) if rank not in absent]
    ends = np.cumsum([0, *counts])
    for rank in there[1:]:
        for index in range(len(counts)):
            theirs, ours = (rows[who][ends[index] : ends[index + 1]] for who in (there[0], rank))
            largest = np.nanmax(np.abs(theirs), initial=0)
            if not np.allclose(ours, theirs, rtol=0, atol=TOLERANCE * largest, equal_nan=True):
                return rank, there[0], index
    return None


class Replicas:
    """Compares parameters as they are at the second exchange: some begin alike only after their first step."""

    def __init__(self, name, advice):
        self._name, self._advice, self._left = name, advice, 2

    @property
    def done(self):
        return self._left == 0

    def look(self, names, arrays):
        """At every exchange until ``done``, on all workers; ``arrays()`` gives the parameters, which are read only if need be."""
        if self.done:
            return
        self._left -= 1
        # Who comes when the run is under way is alone with its first exchanges.
        if self._left or _api.size() == 1 or _api.joined_late():
            return
        ours = [numbers_of(array) for array in arrays()]
        counts = [len(numbers) for numbers in ours]
        rows = np.zeros((_api.size(), sum(counts)))
        if not rows.size:
            return
        rows[_api.rank()] = np.concatenate(ours)
        handle = _api.all_gather_async(rows, f"{self._name}: do all begin alike", partial=True)
        handle.wait()
        found = first_difference(rows, counts, handle.absent())
        if found is not None:
            rank, other, index = found
            raise UsageError(
                f"worker {rank} trains another model than worker {other}: `{names[index]}` differs between them, so the workers "
                f"did not begin alike, and the mean of their gradients is right for neither. {self._advice}"
            )
