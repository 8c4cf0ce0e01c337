"""The functions of the package: one engine per process, and what happens when the process ends."""

import atexit
import logging
import os
import sys
import threading
import weakref

import numpy as np

from . import _process
from ._shoal import Engine, Handle as _RawHandle
from .errors import SettingError, ShoalError, ShutDownError, UsageError

_engine = None
_pid = None
_crashed = None
_lock = threading.Lock()
_auto = set()
_settlers = []
_finished = _together = False

#: Settings that say which run this is; without any of them there is none to join.
_OF_A_RUN = ("master_address", "client_id", "num_workers", "distributed", "token")
#: What other launchers say when there are several workers.
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
_THE_END = "the end of the script (a worker that is done before the others calls shoal.finish())"

log = logging.getLogger("shoal")
#: How often somebody has come in by ``admit()``. Front ends look here before every step; ``members()`` asks the engine.
_admissions = 0


class Handle:
    """A tensor on its way. ``wait()`` returns the array, which then holds the result."""

    def __init__(self, raw: _RawHandle, auto_name=None):
        self._raw = raw
        self._auto_name = auto_name
        self._turn, self._over, self._error = threading.Lock(), False, None

    def wait(self):
        # Threads that wait for the same tensor take turns: each returns when it is there, or raises why it never will be.
        with self._turn:
            if self._error is not None:
                raise self._error
            try:
                return self._raw.wait()
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._over = True
                self._release()

    def done(self):
        if not self._turn.acquire(blocking=False):
            return self._over
        try:
            return self._over or self._raw.done()
        finally:
            self._turn.release()

    def waiting_for(self):
        return self._raw.waiting_for()

    def absent(self):
        """After ``wait()`` of a partial gather: the ranks whose rows it did without, the same on all workers."""
        return self._raw.absent()

    def _release(self):
        name, self._auto_name = self._auto_name, None
        if name is not None:
            with _lock:
                _auto.discard(name)


def init(
    *,
    master_address=None,
    client_id=None,
    num_workers=None,
    distributed=None,
    num_push_threads=None,
    num_pull_threads=None,
    block_size=None,
    shared_memory=None,
    deterministic=None,
    on_death=None,
    token=None,
    connect_timeout=None,
    listen_host=None,
):
    """Join the run. Keyword arguments win over ``SHOAL_*`` in the environment; returns when all nodes are there."""
    settings = {name: value for name, value in locals().items() if value is not None}
    global _engine, _pid, _finished, _together
    if _engine is not None and _pid == os.getpid():
        raise UsageError("shoal.init() was called before; call shoal.shutdown() first")
    if not any(name in settings or os.environ.get(f"SHOAL_{name.upper()}") for name in _OF_A_RUN):
        _refuse_half_a_run()
        log.warning("no run to join (no SHOAL_MASTER_ADDRESS): working alone; `shoal run -n 4 -- ...` starts four workers")
        settings["distributed"] = False
    _engine = Engine(**settings)
    _pid, _finished, _together = os.getpid(), False, False
    _watch_the_end()
    _process.watch_forks(lambda: _engine.sockets() if _engine is not None and _pid == os.getpid() else [])
    if path := os.environ.get("SHOAL_TRACE"):
        from .trace import trace

        trace.start(path)


def _refuse_half_a_run():
    """Whoever says that there are several workers does not want one that trains alone, on its own part of the data."""
    for name in _SIZES:
        text = os.environ.get(name, "").strip()
        if text.isdecimal() and int(text) > 1:
            raise SettingError(
                f"{name} is {text}, but there is no run to join: SHOAL_MASTER_ADDRESS and SHOAL_TOKEN are not set, as "
                f"`shoal run -n {text} -- python ...` sets them in place of torchrun or mpirun. To train alone, unset {name} "
                "or call shoal.init(distributed=False)"
            )


def end_together():
    """For front ends: from now on a script that ends before the others' do, without ``finish()``, is an error, not the end of its part.

    Otherwise the others would go on by themselves, and the models would part without a word.
    """
    global _together
    _together = True


def before_leaving(settle):
    """For front ends: calls this method, while its object lives, before this worker leaves."""
    _settlers.append(weakref.WeakMethod(settle))


def _settle():
    """What is under way comes to its end: all workers have it under way."""
    for settle in [reference() for reference in _settlers]:
        if settle is not None:
            settle()


def _meet_at_the_end(engine):
    if _together and not _finished and engine.size > 1:
        engine.push_pull_wait(np.zeros(1, dtype=np.float32), _THE_END, "sum", 1.0, 0)


def is_initialized():
    return _engine is not None


def _current():
    if _engine is None:
        raise ShutDownError("shoal.init() has not been called, or shoal.shutdown() has")
    if _pid != os.getpid():
        raise UsageError("this process was forked after shoal.init(); only the process that called it may use it")
    return _engine


def rank():
    """This worker's number, from 0."""
    return _current().rank


def size():
    """The number of workers."""
    return _current().size


def _auto_name(array, kind, dtype=None):
    """A name for a tensor without one: its kind, type and shape, and a number if several are under way at once.

    Ranks that make the same calls in the same order get the same names.
    """
    stem = f"{kind} {dtype or array.dtype.name} {array.shape}"
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


def _check(name, priority=0, root=0):
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected a string")
    if not isinstance(priority, int) or not 0 <= priority <= 65535:
        raise ValueError(f"priority is {priority!r}; expected a whole number from 0 to 65535")
    if not isinstance(root, int) or not 0 <= root < _current().size:
        raise ValueError(f"root is {root!r}; expected a rank from 0 to {_current().size - 1}")


def _among(members, name):
    """The ranks that take part, as the engine takes them; None for all."""
    if members is None:
        return None
    if name is None:
        raise ValueError("an operation of some of the workers needs a name")
    members = [int(rank) for rank in members]
    if min(members, default=-1) < 0:
        raise ValueError(f"members is {members!r}; expected ranks from 0 to {_current().size - 1}")
    return members


def _op(op, weight):
    if op == "sum" and weight is not None:
        raise ValueError('a weight makes no sense with op="sum"; use op="mean"')
    if op is None:
        op = "mean" if weight is None else "weighted_mean"
    elif op == "mean" and weight is not None:
        op = "weighted_mean"
    return op, 1.0 if weight is None else float(weight)


def _leave_out(array, op, weight):
    """What weighs nothing does not count, whatever it is: 0 times a NaN (the mean over an empty batch) would not be 0."""
    if op == "weighted_mean" and weight == 0.0 and isinstance(array, np.ndarray) and array.flags.writeable:
        array.fill(0)


def push_pull(array, op=None, name=None, weight=None, priority=0, dtype=None):
    """Replace ``array`` by its mean (or ``op="sum"``) over all workers, in place, and return it.

    With ``weight`` (the number of samples behind this worker's gradient, say) the mean is weighted. ``dtype`` says what the
    bits of a ``uint16`` array are, for types that NumPy does not have: ``"bfloat16"`` or ``"float16"``.
    """
    if name is not None:
        _check(name, priority)
        op, weight = _op(op, weight)
        _leave_out(array, op, weight)
        _current().push_pull_wait(array, name, op, weight, priority, dtype)
        return array
    return push_pull_async(array, op, None, weight, priority, dtype).wait()


def push_pull_async(array, op=None, name=None, weight=None, priority=0, dtype=None, members=None):
    """Like ``push_pull``, but returns a ``Handle`` at once. The array belongs to the engine until ``wait()``.

    With ``members`` (ranks, this one among them) only those take part; who they are is part of what the name means, so it needs
    a name.
    """
    _need_array(array)
    engine = _current()
    members = _among(members, name)
    _check(name, priority)
    op, weight = _op(op, weight)
    _leave_out(array, op, weight)
    auto = _auto_name(array, "push_pull", dtype) if name is None else None
    try:
        return Handle(engine.push_pull(array, name or auto, op, weight, priority, dtype, members), auto)
    except BaseException:
        if auto is not None:
            with _lock:
                _auto.discard(auto)
        raise


def broadcast(array, root=0, name=None):
    """Replace ``array`` by the root's, in place, and return it."""
    _need_array(array)
    engine = _current()
    _check(name, root=root)
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
    _check(name)
    out = np.empty((engine.size, *array.shape), dtype=array.dtype)
    out[engine.rank] = array
    auto = _auto_name(array, "all_gather") if name is None else None
    try:
        engine.all_gather(out, f"{name} (all_gather)" if auto is None else auto)
    finally:
        with _lock:
            _auto.discard(auto)
    return out


def all_gather_async(array, name, priority=0, partial=False, dtype=None, members=None):
    """Like ``all_gather``, but in place and at once: ``array`` has a row for every worker, of which the own is filled in.

    With ``partial`` it goes on without workers that have finished, or died where the run goes on without them: their rows stay
    as they were, and the handle's ``absent()`` names them. Of one who died while its row was under way, a part may be there.
    With ``members`` only those take part, and there is a row for each of them, in the order of ranks.
    """
    _need_array(array)
    engine = _current()
    _check(name, priority)
    # Another name: whether a gather may have holes is part of what a key is, on all workers alike.
    name = f"{name} (all_gather{', partial' if partial else ''})"
    return Handle(engine.all_gather_async(array, name, priority, partial, dtype, _among(members, name)))


def broadcast_async(array, root, name, priority=0, dtype=None, members=None):
    """Like ``broadcast``, but returns a ``Handle`` at once. With ``members``, the root among them, only those take part."""
    _need_array(array)
    engine = _current()
    _check(name, priority, root)
    name = f"{name} (broadcast)"
    return Handle(engine.broadcast_async(array, name, root, priority, dtype, _among(members, name)))


def send_async(array, to, name, dtype=None):
    """Send ``array`` to worker ``to``, which calls ``recv_async`` with the same name. The array must be left alone until ``wait()``."""
    me = rank()
    return broadcast_async(array, me, f"{name}: {me} to {to}", dtype=dtype, members=[me, to])


def recv_async(array, source, name, dtype=None):
    """Receive what worker ``source`` sends with ``send_async`` under the same name, into ``array``."""
    me = rank()
    return broadcast_async(array, source, f"{name}: {source} to {me}", dtype=dtype, members=[source, me])


def barrier():
    """Return when every worker has called it."""
    _current().barrier()


def admit():
    """A boundary between two steps: the ranks that have just joined in place of dead ones, usually none.

    All workers call it at the same point, with nothing else under way, and all get the same list. Newcomers lack what the
    others have: broadcast it from ``root()``, as at the start. Without ``on_death="continue"`` and servers nobody can
    join, and it returns at once.
    """
    global _admissions
    joined = _current().admit()
    _admissions += bool(joined)
    return joined


def members():
    """The ranks as of the last ``admit()``, newcomers included; the same list on every rank. All of them before the first."""
    return _current().members()


def root():
    """The rank to broadcast from: the lowest that took part in the last ``admit()``; 0 before the first."""
    return _current().root()


def joined_late():
    """Whether this worker came when the run was under way."""
    return _current().joined_late


def finish():
    """This worker is done; the others go on without it. ``shutdown`` must still follow."""
    global _finished
    _current()
    _settle()
    _current().finish()
    _finished = True


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
    if _pid == os.getpid():
        _settle()
        _meet_at_the_end(_engine)
    _write_trace()
    engine, _engine = _engine, None
    engine.shutdown()


def _write_trace():
    """A timeline that is still being recorded is written while there is an engine to ask."""
    if _pid != os.getpid():
        return
    from .trace import trace

    try:
        trace.stop()
    except OSError as error:
        # A run must not fail for its picture.
        sys.stderr.write(f"shoal: the timeline could not be written: {error}\n")


def _watch_the_end():
    """A script that ends well finishes; one that ends by an exception must not look as if it had."""
    if getattr(_watch_the_end, "done", False):
        return
    _watch_the_end.done = True
    previous = sys.excepthook

    def crashed(kind, value):
        global _crashed
        _crashed = f"{kind.__name__}: {value}" if str(value) else kind.__name__

    def hook(kind, value, trace):
        crashed(kind, value)
        previous(kind, value, trace)

    def exits(how, status):
        # SystemExit passes by the hook; a script that says it failed has not finished.
        global _crashed
        _crashed = None if status in (None, 0) else f"{how}({status!r})"

    sys.excepthook = hook
    _process.watch_exits(exits)

    def at_exit():
        global _engine
        if _engine is None or _pid != os.getpid():
            # A forked child leaves its parent's connections alone.
            return
        if _crashed is None and sys.excepthook is not hook and getattr(sys, "last_value", None) is not None:
            # Somebody has put a hook of his own in the place of ours (tracebacks in colour, say); Python keeps what it printed.
            crashed(type(sys.last_value), sys.last_value)
        try:
            if _crashed is None:
                _settle()
                _meet_at_the_end(_engine)
            _write_trace()
            engine, _engine = _engine, None
            if _crashed is not None:
                engine.abort(f"its script ended with {_crashed}")
                return
            engine.shutdown()
        except ShoalError as error:
            # Too late to raise: say it in a line and fail, as an exception in the script would have.
            sys.stdout.flush()
            sys.stderr.write(f"shoal: {error}\n")
            sys.stderr.flush()
            os._exit(1)

    atexit.register(at_exit)
