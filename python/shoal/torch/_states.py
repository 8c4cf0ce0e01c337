"""Who had a gradient of which parameter in a round, does a worker alone leave one out, and did all take the same steps?

One number for each parameter travels with every round and is summed over the workers. Its bits hold how many had a gradient,
how many left the parameter out (frozen, or its gradient was None at the last step), and the sum of those workers' ranks, which
names a single one. A parameter that some leave out and others do not would part the replicas without a word: that is an error
on all (GRAD-3, GRAD-5).

A second number says how many workers have a hook of the script on it, which decides who may travel in a bundle.

Behind them is what this worker's optimizers did since the round before, as a number: a worker that skips a step that the others
take would part the replicas, too.
"""

import zlib

import numpy as np

from .. import _api
from ..errors import UsageError

#: Counts have 12 bits each, the ranks' sum what is left of a float64's 53; so many workers and more are not checked.
_BITS = 12
_MOST = 1 << _BITS
#: Numbers for steps have so many bits: their squares, summed over 4096 workers, are still exact.
_STEP_BITS = 20
#: Behind the parameters' and buffers' numbers: those who took part, who told of steps, their numbers, the squares, who took none.
_THERE, _TOLD, _STEPS, _SQUARES, _IDLE = range(-5, 0)


class States:
    """``slots`` are a reducer's; their order is the same on every worker. So is that of ``buffers``, of which each worker
    tells what it changed."""

    def __init__(self, slots, prefix, buffers):
        self._slots, self._name, self._buffers = slots, f"{prefix}used", buffers
        self._sums = np.zeros(2 * len(slots) + len(buffers) + 5, dtype=np.float64)
        self._handle = None
        self._steps = None  # what was done since the round before; None: there is none
        self._here = 0  # as this worker told it last

    def stepped(self, slots):
        """An optimizer of these parameters took a step."""
        if self._steps is not None:
            which = zlib.crc32(np.array([slot.index for slot in slots], dtype=np.int32).tobytes())
            self._steps = (self._steps + 1 + which % ((1 << _STEP_BITS) - 1)) % (1 << _STEP_BITS)

    def push(self, round):
        """At the end of a round, when every slot that takes part has been sent."""
        rank = _api.rank()
        checked = _api.size() < _MOST
        left_out = (1 << _BITS) + (rank << 2 * _BITS) if checked else 0
        for index, slot in enumerate(self._slots):
            out = slot.round != round or slot.dropped
            self._sums[index] = slot.had + (left_out if out else 0)
            self._sums[len(self._slots) + index] = slot.watched
            slot.told_dropped, slot.dropped = slot.dropped, False
        self._sums[2 * len(self._slots) : _THERE] = self._buffers.changes(round)
        self._sums[_THERE] = 1  # so that the sum is the number of those who took part
        # Who has just come took no step in the others' last round.
        self._here, told = self._steps or 0, checked and self._steps is not None
        idle = left_out if told and self._here == 0 else 0
        self._sums[_TOLD:] = (1, self._here, self._here**2, idle) if told else 0
        self._steps = 0
        self._handle = _api.push_pull_async(self._sums, op="sum", name=self._name)

    @property
    def under_way(self):
        return self._handle is not None

    def wait(self):
        """Raises UsageError where workers differ in what they leave out; all see the same sums, so all raise it."""
        if self._handle is None:
            return
        self._handle.wait()
        self._handle = None
        there, most = int(self._sums[_THERE]), float(1 << _BITS)
        if (self._sums[: len(self._slots)] >= most).any():
            self._look_who_left_out(there)
        self._look_who_stepped()
        self._buffers.learn(self._sums[2 * len(self._slots) : _THERE])

    def _look_who_left_out(self, there):
        sums = self._sums[: len(self._slots)].astype(np.int64)
        out = (sums >> _BITS) & (_MOST - 1)
        differ = np.flatnonzero((out != 0) & (out != there))
        if len(differ):
            first = int(differ[0])
            raise UsageError(self._what(self._slots[first], int(out[first]), there, int(sums[first] >> 2 * _BITS), len(differ)))

    def _look_who_stepped(self):
        told, steps, squares, idle = (int(number) for number in self._sums[_TOLD:])
        if told * squares == steps**2:
            return
        count, ranks, me = (idle >> _BITS) & (_MOST - 1), idle >> 2 * _BITS, _api.rank()
        if count == 1:
            who = f"worker {ranks} alone took no step of an optimizer after the last backward, while others did"
        elif count:
            who = f"{count} of {told} workers took no step of an optimizer after the last backward, while others did"
        else:
            who = "after the last backward, workers took steps of different optimizers, or not equally many"
        here = f" (this one, worker {me}, {'did' if self._here else 'took none'})"
        raise UsageError(
            f"{self._name.removesuffix('.used')}: {who}{here}. The replicas differ from there on; decide on all workers alike "
            "whether to step, say by the mean of the loss over all of them and not by this worker's own"
        )

    def anyone_had(self, index):
        return int(self._sums[index]) & (_MOST - 1) > 0

    def anyone_watches(self, index):
        """Whether any worker's script had a hook on this parameter in the last round."""
        return self._sums[len(self._slots) + index] > 0

    def _what(self, slot, out, there, ranks, count):
        who = f"worker {ranks} alone" if out == 1 else f"{out} of {there} workers"
        why = "its gradient was None at the last step, or it is frozen (requires_grad=False)"
        if not slot.takes_part:
            why = "it is frozen (requires_grad=False)"
        elif slot.told_dropped:
            why = "its gradient was None at the last step"
        here = f"; on this one, worker {_api.rank()}, {why}" if not slot.takes_part or slot.told_dropped else f": {why}"
        more = f" So do {count - 1} more parameters." if count > 1 else ""
        return (
            f"{slot.key}: {who} left{'' if out == 1 else ' (not all)'} this parameter out{here}. The replicas would differ from here on; "
            f"freeze it, or set its gradient to None, on all workers at the same step.{more}"
        )
