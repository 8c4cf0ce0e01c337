"""Shoal: make an ordinary training script data-parallel.

    import shoal
    shoal.init()                          # settings from arguments or from SHOAL_* in the environment
    shoal.broadcast(weights, name="w")    # everyone starts from rank 0's values
    shoal.push_pull(gradient, name="w")   # in place: the mean over all workers
    shoal.shutdown()
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
    SettingError,
    ShoalError,
    ShutDownError,
    UsageError,
)
from .trace import trace

__all__ = [
    "AbortedError",
    "ConnectError",
    "DeadRankError",
    "DeadlockError",
    "Handle",
    "MismatchError",
    "ProtocolError",
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
