"""Which scheme does each tensor travel by? Asked once all workers know their tensors, and again when something changed.

All workers decide from the same numbers, which they gather from each other first, so all decide alike.
"""

import logging

import numpy as np

from . import _api
from ._factors import SMALLEST

log = logging.getLogger("shoal")

DENSE, FACTORS = "dense", "factors"


class Choice:
    """What a tensor does: ``scheme``, for factors the agreed ``rows``, and ``why`` in words."""

    def __init__(self, scheme, rows=0, why=""):
        self.scheme, self.rows, self.why = scheme, rows, why

    def __repr__(self):
        return f"Choice({self.scheme!r}, rows={self.rows}, why={self.why!r})"


class Planner:
    """Front ends call ``saw`` for each tensor of a step, in the same order on every worker, and ``settle`` at its end."""

    def __init__(self, prefix, use_sfb="auto"):
        if use_sfb not in ("auto", True, False):
            raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
        self.prefix, self.use_sfb = prefix, use_sfb
        self._seen, self._settled = {}, 0
        self.choices = {}

    def saw(self, name, elements, rows=0, outputs=0, inputs=0):
        """A tensor of ``elements`` numbers; with ``rows`` > 0 it is a linear layer's weight and has factors."""
        if name not in self._seen or self._seen[name][1] < rows:
            self._seen[name] = (elements, rows, outputs, inputs)

    def settle(self):
        """Decides; a meeting of all workers, with the same tensors seen everywhere. Returns ``choices``."""
        names = list(self._seen)
        rows = np.array([self._seen[name][1] for name in names], dtype=np.float64)
        # Factors need every worker's batch to fit, and one that has no factors to offer rules them out for all.
        everyone = _api.all_gather(rows, name=f"{self.prefix}: rows {self._settled} of {len(names)}")
        self._settled += 1
        for name, most, least in zip(names, everyone.max(0), everyone.min(0)):
            choice = self._choose(name, int(most) if least > 0 else 0)
            if name not in self.choices or self.choices[name].scheme != choice.scheme:
                log.info("%s: %s %s", name, choice.scheme, choice.why)
            self.choices[name] = choice
        self._seen = {}
        return self.choices

    def _choose(self, name, rows):
        elements, _, outputs, inputs = self._seen[name]
        workers = _api.size()
        if not rows or min(outputs, inputs) < SMALLEST or workers == 1:
            return Choice(DENSE, why="no linear layer" if not rows else "too thin")
        if self.use_sfb is False:
            return Choice(DENSE, why="use_sfb is off")
        dense, factors = 2 * elements * (workers - 1) / workers, (workers - 1) * rows * (outputs + inputs)
        if self.use_sfb is True or factors <= dense / 2:
            return Choice(FACTORS, rows, f"{4 * factors:.0f} instead of {4 * dense:.0f} bytes")
        return Choice(DENSE, why=f"factors of {rows} rows would be {4 * factors:.0f} bytes, not {4 * dense:.0f}")
