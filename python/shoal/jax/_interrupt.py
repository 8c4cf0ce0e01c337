"""Ctrl-C while a compiled step waits for other workers.

The main thread is then inside XLA, where Python handles no signals, and the wait is in one of XLA's threads, which
hears of none. So a thread of ours does: if the wait does not end by itself, it ends the run, by name (GRAD-5).
"""

import atexit
import os
import select
import signal
import threading

from .. import _api

#: How long a wait may go on after Ctrl-C. One that ends by itself leaves the matter to Python.
PATIENCE = 0.4

_lock = threading.Lock()
_waiting = {}  # what each thread waits for
_watching = False


class waiting:
    """``with waiting("w1"): ...`` around a wait in a callback."""

    def __init__(self, what):
        self._what = what

    def __enter__(self):
        with _lock:
            _waiting[threading.get_ident()] = (self, self._what)

    def __exit__(self, *_):
        with _lock:
            _waiting.pop(threading.get_ident(), None)


def watch():
    """Starts listening, once; only possible in the main thread, and only if nobody else does (asyncio, say)."""
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    _watching = True
    # Runs before JAX's own, which waits for steps under way; after a crash nobody should wait for others (GANG-1).
    atexit.register(_leave)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
        return
    threading.Thread(target=_listen, args=(heard,), name="shoal-interrupt", daemon=True).start()


def _listen(heard):
    while True:
        signals = os.read(heard, 64)
        # A script with a handler of its own decides for itself.
        if signal.SIGINT not in signals or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            continue
        with _lock:
            before = list(_waiting.values())
        select.select([], [], [], PATIENCE)
        with _lock:
            still = [what for wait, what in _waiting.values() if any(wait is w for w, _ in before)]
        if still and _api.is_initialized():
            _api._current().abort(f"interrupted while it waited for {still[0]}")


def _leave():
    if _api._crashed is not None and _api.is_initialized():
        _api._current().abort(f"its script ended with {_api._crashed}")
