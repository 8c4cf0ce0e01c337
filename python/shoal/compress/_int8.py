"""Eight bits a number, with a scale for every 256 of them; everybody gets everybody's numbers and adds them up.

A sum of quantised numbers cannot be sent quantised without rounding again at every shard, so these are gathered: bytes
grow with the number of workers, and from five on bfloat16 sends fewer.
"""

import numpy as np

from .. import _api
from ..errors import UsageError
from ._wire import Wire

BLOCK = 256
MOST_WORKERS = 4


class Int8(Wire):
    scheme = "int8"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        workers = _api.size()
        if workers > MOST_WORKERS:
            raise UsageError(
                f"int8 for `{self.name}`: quantised pieces go from everybody to everybody, which with {workers} "
                f"workers is more than bf16 sends ({workers} / 8 of dense, not 1 / 2); use bf16, powersgd, or at most "
                f"{MOST_WORKERS} workers"
            )
        self._blocks = -(-self.size // BLOCK)
        # The engine gathers floats, and copies them bit by bit: weight, scales, and four numbers in each further word.
        self._words = np.zeros((workers, 1 + self._blocks + self._blocks * BLOCK // 4), np.float32)
        self._padded = np.zeros((self._blocks, BLOCK), np.float32)

    @property
    def bytes_sent(self):
        return self._words[0].nbytes * (_api.size() - 1)

    def _parts(self, worker):
        """Scales and numbers of one worker."""
        row = self._words[worker]
        return row[1 : 1 + self._blocks], row[1 + self._blocks :].view(np.int8).reshape(self._blocks, BLOCK)

    def _send(self, flat, weight):
        self._padded.reshape(-1)[: self.size] = flat
        scales, numbers = self._parts(_api.rank())
        np.divide(np.abs(self._padded).max(axis=1), np.float32(127), out=scales)
        with np.errstate(invalid="ignore", divide="ignore"):
            # A block of zeros has the scale 0; one that is not finite has a scale that says so to everybody.
            quotients = np.where(scales[:, None] > 0, self._padded / scales[:, None], 0)
            numbers[...] = np.nan_to_num(np.rint(quotients), nan=0, posinf=0, neginf=0)
            said = (numbers * scales[:, None]).reshape(-1)[: self.size]
        self._keep(flat, said)
        self._words[:, 0] = 0  # of whom nothing comes, nothing is taken
        self._words[_api.rank(), 0] = 1.0 if weight is None else weight
        self._handle = _api.all_gather_async(self._words, f"{self.name} int8", self.priority, partial=True)

    def _receive(self, flat):
        self._handle.wait()
        weights = self._words[:, 0].copy()
        total = weights.sum(dtype=np.float64)
        mean = np.zeros((self._blocks, BLOCK), np.float32)
        for worker, weight in enumerate(weights):
            if weight > 0:
                scales, numbers = self._parts(worker)
                # In the order of ranks, one multiplication and one addition each: the same bytes on every processor.
                with np.errstate(invalid="ignore"):
                    mean += numbers * (scales * np.float32(weight / total))[:, None]
        flat[...] = mean.reshape(-1)[: self.size]
