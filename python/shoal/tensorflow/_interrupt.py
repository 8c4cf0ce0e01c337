"""Ctrl-C while TensorFlow waits for another worker.

The main thread is then deep inside TensorFlow, where Python's handlers do not run. The byte that Python writes at once
for each signal does arrive, at a thread of ours, which ends the wait; TensorFlow returns, and the KeyboardInterrupt
follows.
"""

import os
import signal
import threading

from .. import _api

_waits = 0
_lock = threading.Lock()
_watching = False
_happened = False


class watched:
    """``with watched():`` around a wait: a Ctrl-C in it ends the run for all workers, naming this one."""

    def __enter__(self):
        global _waits
        with _lock:
            _waits += 1

    def __exit__(self, *_):
        global _waits
        with _lock:
            _waits -= 1


def watch():
    """From now on. Does nothing outside of the main thread, or where somebody else watches already."""
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # the script has its own idea of what Ctrl-C means
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    previous = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    if previous != -1:
        signal.set_wakeup_fd(previous)
        os.close(reads)
        os.close(writes)
        return
    _watching = True
    threading.Thread(target=_listen, args=(reads,), name="shoal-interrupt", daemon=True).start()


def taken():
    """Whether a Ctrl-C has ended a wait; told once. TensorFlow may pass it on as an error of its own."""
    global _happened
    happened, _happened = _happened, False
    return happened


def _listen(reads):
    global _happened
    while True:
        signals = os.read(reads, 64)
        if not signals:
            return
        if signal.SIGINT in signals and _waits > 0 and _api.is_initialized():
            _happened = True
            try:
                _api.abort("Ctrl-C")
            except Exception:  # it ended by itself meanwhile
                pass
