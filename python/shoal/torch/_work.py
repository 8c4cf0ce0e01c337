"""What a collective returns: something to wait for, or a future that ends by itself."""

import queue
import threading

import torch
from torch.distributed import Work as _TorchWork

from .. import errors

_to_finish = queue.Queue()
_thread = None
_thread_lock = threading.Lock()


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
                self._future = torch.futures.Future()
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


def _finish_soon(work):
    global _thread
    with _thread_lock:
        if _thread is None:
            # A daemon: what a script leaves behind unfinished must not keep it from ending.
            _thread = threading.Thread(target=_finish_all, name="shoal-futures", daemon=True)
            _thread.start()
    _to_finish.put(work)


def _finish_all():
    while True:
        work = _to_finish.get()
        try:
            work._finish()
        except BaseException:  # noqa: BLE001 - it is in the future; this thread serves the next one
            pass
        del work
