"""Shoal: make an ordinary training script data-parallel.

    import shoal
    shoal.init()                          # settings from arguments or from SHOAL_* in the environment
    shoal.broadcast(weights, name="w")    # everyone starts from rank 0's values
    shoal.push_pull(gradient, name="w")   # in place: the mean over all workers
    shoal.shutdown()

Its queue, for many runs of one program: ``shoal.log(step=3, loss=0.2)`` in a run, and ``shoal.Client`` to submit (see the guides).
"""

from ._api import (
    Handle,
    abort,
    admit,
    all_gather,
    all_gather_async,
    barrier,
    broadcast,
    broadcast_async,
    finish,
    init,
    is_initialized,
    joined_late,
    members,
    push_pull,
    push_pull_async,
    rank,
    recv_async,
    root,
    send_async,
    shutdown,
    size,
    stats,
)
from ._shoal import __version__
from .errors import (
    AbortedError,
    ConnectError,
    DeadlockError,
    DeadRankError,
    MismatchError,
    ProtocolError,
    QueueError,
    RunsFailedError,
    SettingError,
    ShoalError,
    ShutDownError,
    UsageError,
)
from .metrics import log
from .trace import trace

__all__ = [
    "AbortedError",
    "Client",
    "ConnectError",
    "DeadRankError",
    "DeadlockError",
    "Handle",
    "MismatchError",
    "ProtocolError",
    "QueueError",
    "RunsFailedError",
    "SettingError",
    "ShoalError",
    "ShutDownError",
    "UsageError",
    "__version__",
    "abort",
    "admit",
    "all_gather",
    "all_gather_async",
    "barrier",
    "broadcast",
    "broadcast_async",
    "finish",
    "init",
    "is_initialized",
    "joined_late",
    "log",
    "members",
    "push_pull",
    "push_pull_async",
    "rank",
    "recv_async",
    "root",
    "send_async",
    "shutdown",
    "size",
    "stats",
    "trace",
]


def __getattr__(name):
    # Only those who submit need it.
    if name == "Client":
        from .client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
