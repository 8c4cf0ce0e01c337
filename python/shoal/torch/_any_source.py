"""Receiving from whoever sends first.

The engine's copies have a name that holds both ends, so the receiver must know the sender. Each ``send`` therefore first adds
one to a counter in the group's store, one for each way, tag, type and size; who receives from anyone looks for a counter that
is ahead of what it has received, and then receives from that one.
"""

import threading
import time

import numpy as np

from .. import _api

#: How often the store is asked, at first and at most.
_FIRST, _MOST = 0.0002, 0.01
#: torch's own bound for a collective.
LONGEST = 30 * 60


class Counters:
    """``ranks``: the global ranks of the group's members. ``store``: torch's, or None for groups without one."""

    def __init__(self, me, ranks, store):
        self._me, self._ranks, self._store = me, ranks, store
        self._taken, self._lock = {}, threading.Lock()

    def sent(self, target, tag, tensor):
        if self._store is not None:
            self._store.add(self._key(self._me, target, tag, tensor), 1)

    def received(self, source, tag, tensor):
        with self._lock:
            key = self._key(source, self._me, tag, tensor)
            self._taken[key] = self._taken.get(key, 0) + 1

    def ready(self, tag, tensor):
        """The group rank of one who has sent what nobody has received, which now counts as received; or None."""
        with self._lock:
            for source in range(len(self._ranks)):
                key = self._key(source, self._me, tag, tensor)
                if source != self._me and self._store.add(key, 0) > self._taken.get(key, 0):
                    self._taken[key] = self._taken.get(key, 0) + 1
                    return source
        return None

    def _key(self, source, target, tag, tensor):
        return f"shoal {source} to {target}, tag {tag}, {tensor.numel()} {tensor.dtype}"


def _raise_if_over():
    """With nothing under way nobody would say that a worker died; an operation of this worker alone is refused then (GRAD-5)."""
    alone = np.zeros(1, dtype=np.float32)
    me = _api.rank()
    _api.push_pull_async(alone, "sum", f"does the run go on, for {me}", members=[me]).wait()


class FromAnyone:
    """What a ``Work`` waits for; ``receive(source)`` starts the copy and gives its work."""

    def __init__(self, counters, tag, tensor, receive):
        self._counters, self._tag, self._tensor, self._receive = counters, tag, tensor, receive
        self._handle, self.source = None, None

    def done(self):
        self._look()
        return self._handle is not None and self._handle.is_completed()

    def wait(self):
        pause, end = _FIRST, time.monotonic() + LONGEST
        while self._handle is None:
            self._look()
            if self._handle is None:
                if time.monotonic() > end:
                    raise _api.UsageError(
                        f"recv() without a source: in {LONGEST} s nobody sent {self._tensor.numel()} numbers of "
                        f"{self._tensor.dtype} with tag {self._tag}; sizes, types and tags must agree"
                    )
                _raise_if_over()
                time.sleep(pause)
                pause = min(2 * pause, _MOST)
        return self._handle.wait()

    def _look(self):
        if self._handle is None:
            source = self._counters.ready(self._tag, self._tensor)
            if source is not None:
                self.source, self._handle = source, self._receive(source)
