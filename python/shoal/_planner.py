"""Which scheme does each tensor travel by? Asked once all workers know their tensors, and again when something changed.

All workers decide from the same numbers, which they gather from each other first, so all decide alike. What a scheme
costs is reckoned by the engine's cost model (``shoal plan`` shows it for models that are not trained yet).
"""

import logging

from . import _measure
from ._factors import SMALLEST
from ._shoal import choose

log = logging.getLogger("shoal")

DENSE, FACTORS = "dense", "factors"

#: Steps between two looks at the link.
CHECK_EVERY = 500
#: A link that differs by this factor from the one planned with is another link.
CHANGED = 1.5

_CODES = {None: 0, DENSE: 1, FACTORS: 2}
_SCHEMES = {code: scheme for scheme, code in _CODES.items()}
#: Any will do where the answer does not depend on them: ``use_sfb`` given, or no linear layer.
_UNMEASURED = {"bandwidth": 1e9, "round_trip": 0.0, "flops": 1e11}


class Choice:
    """What a tensor does: ``scheme``, for factors the agreed ``rows``, and ``why`` in words.

    ``bytes`` and ``seconds`` are what the model reckons for a worker and a step, ``costs`` those of the alternatives.
    """

    def __init__(self, scheme, rows=0, why="", bytes=0.0, seconds=0.0, costs=None):
        self.scheme, self.rows, self.why = scheme, rows, why
        self.bytes, self.seconds, self.costs = bytes, seconds, costs or {}

    def __repr__(self):
        return f"Choice({self.scheme!r}, rows={self.rows}, why={self.why!r})"


class Planner:
    """Front ends call ``saw`` for each tensor of a step, in the same order everywhere, and ``settle`` at its end.

    ``multiply(dy, x)`` is how the front end makes ``dy.T @ x`` of float32 NumPy arrays; without it torch's or NumPy's
    way is timed. ``says_dense=False`` is for one who says in the log himself how what is not factors travels.
    """

    def __init__(self, prefix, use_sfb="auto", multiply=None, says_dense=True):
        if use_sfb not in ("auto", True, False):
            raise ValueError(f"use_sfb is {use_sfb!r}; expected 'auto', True or False")
        self.prefix, self.use_sfb, self.multiply = prefix, use_sfb, multiply
        self._says_dense, self._why_not = says_dense, {}
        self._seen, self._tensors, self._steps = {}, {}, 0
        self.choices, self.measured = {}, None

    def saw(self, name, elements, rows=0, outputs=0, inputs=0, why_not=None):
        """A tensor of ``elements`` numbers; with ``rows`` > 0 it is a linear layer's weight and has factors.

        ``why_not`` says, for the log, why a linear layer's weight has none to offer here.
        """
        if name not in self._seen or self._seen[name]["rows"] < rows:
            self._seen[name] = {"elements": elements, "rows": rows, "outputs": outputs, "inputs": inputs}
            self._why_not[name] = why_not

    def settle(self):
        """Decides; a meeting of all workers, with the same tensors seen everywhere. Returns ``choices``."""
        names = list(self._seen)
        rows = [self._seen[name]["rows"] for name in names]
        before = [_CODES[self.choices[name].scheme if name in self.choices else None] for name in names]
        # A worker that has just come knows neither what was measured nor what is in use: it is told the one, and the
        # others measure again with it.
        known = 0 if self.measured is None else self.measured.workers
        everyone = _measure.gather([known, *rows, *before], f"{self.prefix}: rows")
        workers, count = len(everyone), len(names)
        most, least = everyone[:, 1 : count + 1].max(0), everyone[:, 1 : count + 1].min(0)
        current = everyone[:, count + 1 :].max(0)
        self._tensors, self._steps = {}, 0
        for i, name in enumerate(names):
            # Factors need every worker's batch to fit, and one that has no factors to offer rules them out for all.
            tensor = {**self._seen[name], "rows": int(most[i]) if least[i] > 0 else 0}
            self._tensors[name] = (tensor, _SCHEMES[int(current[i])])
        self._seen = {}
        open_questions = any(_may_be_factors(tensor) for tensor, _ in self._tensors.values())
        if self.use_sfb == "auto" and open_questions and workers > 1 and (everyone[:, 0] != workers).any():
            self._measure()
        self._decide(workers)
        return self.choices

    def step(self):
        """Once after every step, on all workers; True when ``choices`` have changed.

        Every ``CHECK_EVERY`` steps since ``settle`` it is a meeting of all workers that looks at the link.
        """
        self._steps += 1
        if self._steps % CHECK_EVERY or self.measured is None:
            return False
        planned, now = self.measured.bandwidth, _measure.bandwidth_now(self.measured, self.prefix)
        if planned / CHANGED < now < planned * CHANGED:
            return False
        log.info("the link has changed: %.0f MB/s, planned with %.0f MB/s", now / 1e6, planned / 1e6)
        self._measure()
        self._tensors = {name: (tensor, self.choices[name].scheme) for name, (tensor, _) in self._tensors.items()}
        return self._decide(self.measured.workers)

    def _measure(self):
        self.measured = _measure.everything(self.prefix, self.multiply)
        log.info("planning for %s", self.measured)

    def _decide(self, workers):
        changed = False
        for name, (tensor, current) in self._tensors.items():
            choice = self._choose(tensor, current, workers)
            if choice.scheme == DENSE and self._why_not.get(name):
                choice.why = self._why_not[name]
            known = self.choices.get(name)
            if known is None or (known.scheme, known.rows) != (choice.scheme, choice.rows):
                if choice.scheme == FACTORS or self._says_dense:
                    log.info("%s: %s: %s", name, choice.scheme, choice.why)
                changed = True
            self.choices[name] = choice
        return changed

    def _choose(self, tensor, current, workers):
        use_sfb = {True: "true", False: "false"}.get(self.use_sfb, "auto")
        if self.measured is not None and self.measured.workers == workers:
            answer = self.measured.choose(use_sfb=use_sfb, current=current, **tensor)
        else:
            answer = choose(workers=workers, use_sfb=use_sfb, current=current, **_UNMEASURED, **tensor)
        factors = answer["scheme"] == FACTORS
        return Choice(
            # A single worker's gradient stays where it is; for a front end that is dense.
            FACTORS if factors else DENSE,
            tensor["rows"] if factors else 0,
            answer["why"],
            answer["bytes"],
            answer["seconds"],
            answer["costs"],
        )


def _may_be_factors(tensor):
    return tensor["rows"] > 0 and min(tensor["outputs"], tensor["inputs"]) >= SMALLEST
