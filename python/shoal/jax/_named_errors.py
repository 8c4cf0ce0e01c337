"""JAX wraps whatever a callback raises into an error of its own; here it comes out again."""

import contextlib
import threading

_lock = threading.Lock()
_last = None


def remember(error):
    """Called where an exchange fails, in whatever thread XLA runs it."""
    global _last
    with _lock:
        _last = error


@contextlib.contextmanager
def named_errors():
    """Around a training loop: errors of exchanges inside compiled steps are raised as they are, such as DeadRankError.

    Without it they arrive as ``jax.errors.JaxRuntimeError``, with the same text inside.
    """
    import jax

    global _last
    with _lock:
        _last = None
    try:
        yield
        # A step that failed may not have been waited for yet.
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError as wrapped:
        with _lock:
            error, _last = _last, None
        if error is None:
            raise
        raise error from wrapped
