"""The host's side of an exchange: buffers, keys and waits of one pytree of gradients. Nothing here knows XLA.

A program calls ``open`` once, ``start_*`` for each leaf as soon as it is computed, and ``finish`` when all have
started. Only ``finish`` waits, and when it does all of this worker's parts are under way; so whatever order XLA picks,
on whichever worker, every wait ends (GRAD-5). `_program` makes ``open`` and ``finish`` ordered calls: exchanges follow
one another, in the same order on all workers, and keys are never under way twice.
"""

import threading
import weakref

import numpy as np

from .. import _api
from .._factors import Factors
from .._measure import gather
from .._planner import FACTORS, Planner
from ..errors import UsageError
from ._interrupt import waiting
from ._named_errors import remember

_all = {}
_lock = threading.Lock()


def exchange(name, op, keys, use_sfb):
    """The exchange with this name; programs traced for other batch sizes share it."""
    with _lock:
        identity = (name, use_sfb)
        if identity not in _all:
            _all[identity] = Exchange(name, op, keys, use_sfb)
        return _all[identity]


class Slot:
    """One leaf: where its dense form lies, and what is under way for it."""

    def __init__(self):
        self.dense = None  # the gradient, and afterwards the mean
        self.handle = None
        self.factors = None  # agreed with the others, or None: dense
        self.own = None  # this worker's factors of this step
        self.gathered = None

    def buffer(self, shape, dtype):
        if self.dense is None or self.dense.shape != shape or self.dense.dtype != dtype:
            self.dense = np.empty(shape, dtype)
        return self.dense


class Exchange:
    def __init__(self, name, op, keys, use_sfb):
        _api.end_together()
        self.name, self.op, self.keys, self.use_sfb = name, op, keys, use_sfb
        self._programs = weakref.WeakSet()  # all that were traced for this exchange and still exist
        self._engine = None
        self._open = False

    def _begin_anew(self):
        """A new run in this process: nothing agreed in the last one holds."""
        self._engine = _api._current()
        self._slots = [Slot() for _ in self.keys]
        self._planner = Planner(self.name, self.use_sfb) if self.use_sfb else None
        self._in_programs = False  # whether programs multiply the factors, or the hosts
        self._planned = False
        self._open = False

    def register(self, program):
        """A program that takes part, before it asks for ``rows_agreed``: another thread may just be agreeing."""
        with _lock:
            self._programs.add(program)

    def rows_agreed(self, leaf):
        """How many rows of factors each worker sends for this leaf; None before that is agreed, or if it is dense."""
        if self._engine is None or self._engine is not _api._engine:
            return None
        factors = self._slots[leaf].factors
        return None if factors is None else factors.rows

    def open(self, wanted):
        """Begins a step; says for each leaf in ``wanted`` whether it goes as factors (1) or dense (0)."""
        with _reported():
            if _api._current() is not self._engine:
                self._begin_anew()
            if self._open:
                raise UsageError(
                    f"the exchange `{self.name}` is still under way: a step before this one failed, or two threads or "
                    "devices of this process run the same step; Shoal wants one device and one step at a time"
                )
            self._open = True
            return (np.array([self._slots[leaf].factors is not None for leaf in wanted] or [0], np.int32),)

    def start_dense(self, leaf, shape, weight, priority, array):
        with _reported():
            slot = self._slots[leaf]
            np.copyto(slot.buffer(shape, array.dtype), array.reshape(shape))
            if slot.factors is None:
                self._push(leaf, weight, priority)
            else:
                # The others expect factors. One row too many says that here are none, and all go dense in `finish`.
                slot.factors.start(range(slot.factors.rows + 1), None, 1.0 if weight is None else weight)

    def start_factors(self, leaf, weight, x, dy):
        with _reported():
            slot = self._slots[leaf]
            # Kept for the case that somebody's batch does not fit; thin, so the copy costs little.
            slot.own = (x.copy(), dy.copy())
            slot.factors.start(*slot.own, 1.0 if weight is None else weight)

    def _push(self, leaf, weight, priority):
        slot = self._slots[leaf]
        slot.handle = _api.push_pull_async(slot.dense, self.op, self.keys[leaf], weight, priority)

    def finish(self, leaves, weight):
        """Waits for all leaves, the most urgent first; then ``dense`` or ``gathered`` of each slot holds the mean."""
        with _reported():
            self._multiplied_in_programs = self._in_programs  # of this step, whatever is agreed at its end
            order = sorted(range(len(leaves)), key=lambda leaf: leaves[leaf].priority)
            misfits = [leaf for leaf in order if not self._wait(leaf)]
            for leaf in misfits:
                slot, shape = self._slots[leaf], leaves[leaf]
                if slot.own is not None:
                    np.copyto(slot.buffer(shape.shape, shape.dtype), shape.contraction.product(*slot.own))
                self._push(leaf, weight, shape.priority)
            for leaf in misfits:
                self._wait_dense(leaf)
            if self._planner is not None:
                self._plan(leaves, misfits)
            self._open = False

    def _wait(self, leaf):
        """False if somebody's factors did not fit; all workers see the same."""
        slot = self._slots[leaf]
        slot.gathered = None
        if slot.factors is None:
            self._wait_dense(leaf)
            return True
        with waiting(f"`{self.keys[leaf]}`"):
            slot.gathered = slot.factors.wait()
        return slot.gathered is not None

    def _wait_dense(self, leaf):
        slot = self._slots[leaf]
        with waiting(f"`{self.keys[leaf]}`"):
            slot.handle.wait()
        slot.handle = None

    def _plan(self, leaves, misfits):
        """At the first step's end, and when a batch did not fit: chooses each leaf's scheme.

        Both are seen alike by all workers, so all come to ``settle`` together.
        """
        if self._planned and not misfits:
            if self._planner.step():  # now and then it looks whether the link has changed
                self._take_up(leaves, self._planner.choices)
            return
        if any(slot.factors is not None and slot.factors.present < _api.size() for slot in self._slots):
            # Somebody has finished and comes to no meeting; what all the others know is who did not fit.
            for leaf in misfits:
                self._slots[leaf].factors = None
            return
        self._planned = True
        for key, leaf in zip(self.keys, leaves):
            rows, outputs, inputs = leaf.contraction.sizes if leaf.contraction else (0, 0, 0)
            self._planner.saw(key, int(np.prod(leaf.shape)), rows, outputs, inputs, leaf.why_not)
        self._take_up(leaves, self._planner.settle())

    def _take_up(self, leaves, choices):
        for index, (key, leaf) in enumerate(zip(self.keys, leaves)):
            slot, choice = self._slots[index], choices[key]
            if choice.scheme != FACTORS:
                slot.factors = None
            elif slot.factors is None or slot.factors.rows != choice.rows:
                _, outputs, inputs = leaf.contraction.sizes
                slot.factors = Factors(key, choice.rows, outputs, inputs, leaf.priority)
                slot.factors.present = _api.size()
        # XLA and NumPy round differently, so all multiply in the same place, or replicas would drift apart (GRAD-3).
        # Programs traced from now on expect what was just agreed; of earlier ones only some do, and any may run again.
        with _lock:
            ready = all(program.expects(self.rows_agreed) for program in self._programs)
        self._in_programs = bool(gather([ready], f"{self.name}: ready to multiply").all())

    def result(self, leaf):
        """The mean in dense form."""
        return self._slots[leaf].dense

    def factors_of(self, leaf, shape):
        """Everybody's factors if the program is to multiply them, else None, and ``result`` has the mean."""
        slot = self._slots[leaf]
        gathered, slot.gathered = slot.gathered, None
        own, slot.own = slot.own, None
        if gathered is None:
            return None
        if self._multiplied_in_programs and own is not None:
            return gathered
        np.copyto(slot.buffer(shape.shape, shape.dtype), shape.contraction.product(gathered.x, gathered.dy))
        return None


class _reported:
    """Remembers what went wrong, because JAX only passes on its text."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            remember(error)
        return False
