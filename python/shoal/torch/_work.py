"""What a collective returns: something to wait for, or a future that ends by itself."""

import queue
import threading
import weakref

import torch
from torch.distributed import Work as _TorchWork

from .. import errors
from ._uncompiled import never_compiled

#: Who finishes works for their futures: one thread for what the script started, one for what callbacks of those
#: futures started, and so on. So a callback may wait for an operation of its own, as DDP's PowerSGD hook does, and what
#: follows from the operations of one level is done in their order, which is the same on all ranks.
_finishers = []
_finishers_lock = threading.Lock()
_here = threading.local()


@never_compiled
class Work(_TorchWork):
    """Operations under way, and what to do with their results when all are there (``then``). ``result`` is what a future gives.

    Whoever waits first finishes it; where only a future was asked for, a thread does (DDP's reducer waits for futures in C++).
    """

    def __init__(self, handles, then=None, result=()):
        super().__init__()
        self._handles, self._then, self._result = list(handles), then, list(result)
        self._lock, self._over, self._error = threading.Lock(), False, None
        self._future = None

    def _finish(self):
        with self._lock:
            if self._over:
                return
            try:
                # All of them, also after a failure: the engine works in their memory until they have ended.
                for handle in self._handles:
                    try:
                        handle.wait()
                    except errors.ShoalError as error:
                        self._error = self._error or error
                if self._error is None and self._then is not None:
                    self._then()
            except BaseException as error:
                self._error = error
                if not isinstance(error, Exception):
                    raise
            finally:
                self._over, self._handles, self._then = True, [], None
                future = self._future
        if future is not None:
            _settle(future, self._result, self._error)

    def wait(self, timeout=None):
        self._finish()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if not self._over and not self._lock.locked() and all(handle.done() for handle in list(self._handles)):
            # Nobody may ever wait; what is asked is whether the result is in place.
            self._finish()
        return self._over

    def came_from(self, source):
        """``source()`` says, after it is over, which rank of the group sent it."""
        self._source = source

    def _source_rank(self):
        return self._source()

    def is_success(self):
        return self._over and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._result

    def get_future(self):
        with self._lock:
            if self._future is None:
                self._future = _Future(self)
                if self._over:
                    _settle(self._future, self._result, self._error)
                else:
                    _finish_soon(self)
            return self._future


def _settle(future, result, error):
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))


class _Future(torch.futures.Future):
    """Whoever waits for it finishes the work himself: in a callback, the thread that would do it may be the one that waits."""

    def __new__(cls, work):
        return super().__new__(cls)

    def __init__(self, work):
        super().__init__()
        self._work = weakref.ref(work)

    def wait(self):
        work = self._work()
        if work is not None:
            work._finish()
        return super().wait()


def _finish_soon(work):
    level = getattr(_here, "level", -1) + 1
    with _finishers_lock:
        if level == len(_finishers):
            works = queue.SimpleQueue()
            # A daemon: what a script leaves behind unfinished must not keep it from ending.
            name = f"shoal-futures-{level}"
            threading.Thread(target=_finish_all, args=(level, works), name=name, daemon=True).start()
            _finishers.append(works)
    _finishers[level].put(work)


def _finish_all(level, works):
    _here.level = level
    while True:
        work = works.get()
        try:
            work._finish()
        except BaseException:  # noqa: BLE001 - it is in the future; this thread serves the next one
            pass
        del work
