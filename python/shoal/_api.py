"""The functions of the package: one engine per process, and what happens when the process ends."""

import atexit
import sys
import threading

import numpy as np

from ._shoal import Engine, Handle as _RawHandle
from .errors import ShutDownError, UsageError

_engine = None
_crashed = None
_lock = threading.Lock()
_auto = set()


class Handle:
    """A tensor on its way. ``wait()`` returns the array, which then holds the result."""

    def __init__(self, raw: _RawHandle, auto_name=None):
        self._raw = raw
        self._auto_name = auto_name

    def wait(self):
        try:
            return self._raw.wait()
        finally:
            self._release()

    def done(self):
        return self._raw.done()

    def waiting_for(self):
        return self._raw.waiting_for()

    def _release(self):
        name, self._auto_name = self._auto_name, None
        if name is not None:
            with _lock:
                _auto.discard(name)


def init(**settings):
    """Join the run. Keyword arguments win over ``SHOAL_*`` in the environment; returns when all nodes are there."""
    global _engine
    if _engine is not None:
        raise UsageError("shoal.init() was called before; call shoal.shutdown() first")
    _engine = Engine(**settings)
    _watch_the_end()


def is_initialized():
    return _engine is not None


def _current():
    if _engine is None:
        raise ShutDownError("shoal.init() has not been called, or shoal.shutdown() has")
    return _engine


def rank():
    """This worker's number, from 0."""
    return _current().rank


def size():
    """The number of workers."""
    return _current().size


def _auto_name(array, kind):
    """A name for a tensor without one: its kind, type and shape, and a number if several are under way at once.

    Ranks that make the same calls in the same order get the same names.
    """
    stem = f"{kind} {array.dtype.name} {array.shape}"
    with _lock:
        number = 0
        while f"{stem} {number}" in _auto:
            number += 1
        name = f"{stem} {number}"
        _auto.add(name)
    return name


def _need_array(array):
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected a numpy.ndarray, got {type(array).__name__}")


def _op(op, weight):
    if op is None:
        op = "mean" if weight is None else "weighted_mean"
    elif op == "mean" and weight is not None:
        op = "weighted_mean"
    return op, 1.0 if weight is None else float(weight)


def push_pull(array, op=None, name=None, weight=None, priority=0):
    """Replace ``array`` by its mean (or ``op="sum"``) over all workers, in place, and return it.

    With ``weight`` (the number of samples behind this worker's gradient, say) the mean is weighted.
    """
    if name is not None:
        op, weight = _op(op, weight)
        _current().push_pull_wait(array, name, op, weight, priority)
        return array
    return push_pull_async(array, op, None, weight, priority).wait()


def push_pull_async(array, op=None, name=None, weight=None, priority=0):
    """Like ``push_pull``, but returns a ``Handle`` at once. The array belongs to the engine until ``wait()``."""
    _need_array(array)
    engine = _current()
    op, weight = _op(op, weight)
    auto = _auto_name(array, "push_pull") if name is None else None
    try:
        return Handle(engine.push_pull(array, name or auto, op, weight, priority), auto)
    except BaseException:
        if auto is not None:
            with _lock:
                _auto.discard(auto)
        raise


def broadcast(array, root=0, name=None):
    """Replace ``array`` by the root's, in place, and return it."""
    _need_array(array)
    engine = _current()
    auto = _auto_name(array, f"broadcast from {root}") if name is None else None
    try:
        engine.broadcast(array, f"{name} (broadcast)" if auto is None else auto, root)
    finally:
        with _lock:
            _auto.discard(auto)
    return array


def all_gather(array, name=None):
    """Every worker's array, stacked along a new first dimension in the order of their ranks."""
    _need_array(array)
    engine = _current()
    out = np.empty((engine.size, *array.shape), dtype=array.dtype)
    out[engine.rank] = array
    auto = _auto_name(array, "all_gather") if name is None else None
    try:
        engine.all_gather(out, f"{name} (all_gather)" if auto is None else auto)
    finally:
        with _lock:
            _auto.discard(auto)
    return out


def barrier():
    """Return when every worker has called it."""
    _current().barrier()


def finish():
    """This worker is done; the others go on without it. ``shutdown`` must still follow."""
    _current().finish()


def stats():
    """Counters since ``init``: bytes, frames, and for each key how long it queued, was sent and waited for others."""
    return _current().stats()


def abort(why):
    """End the run for all workers, giving the reason."""
    global _engine
    engine, _engine = _current(), None
    engine.abort(why)


def shutdown():
    """Finish, wait until nobody needs this process's shard any more, and hang up."""
    global _engine
    if _engine is None:
        return
    engine, _engine = _engine, None
    engine.shutdown()


def _watch_the_end():
    """A script that ends well finishes; one that ends by an exception must not look as if it had."""
    if getattr(_watch_the_end, "done", False):
        return
    _watch_the_end.done = True
    previous = sys.excepthook

    def hook(kind, value, trace):
        global _crashed
        _crashed = f"{kind.__name__}: {value}"
        previous(kind, value, trace)

    sys.excepthook = hook

    def at_exit():
        global _engine
        engine, _engine = _engine, None
        if engine is None:
            return
        if _crashed is not None:
            engine.abort(f"its script ended with {_crashed}")
        else:
            engine.shutdown()

    atexit.register(at_exit)
