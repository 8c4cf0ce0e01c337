from typing import Any, Dict, List, Literal, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from .errors import (
    AbortedError as AbortedError,
    ConnectError as ConnectError,
    DeadlockError as DeadlockError,
    DeadRankError as DeadRankError,
    MismatchError as MismatchError,
    ProtocolError as ProtocolError,
    QueueError as QueueError,
    RunsFailedError as RunsFailedError,
    SettingError as SettingError,
    ShoalError as ShoalError,
    ShutDownError as ShutDownError,
    UsageError as UsageError,
)

from .client import Client as Client
from .metrics import log as log
from .trace import Trace as Trace

__version__: str
trace: Trace

class Handle:
    def wait(self) -> NDArray[Any]: ...
    def done(self) -> bool: ...
    def waiting_for(self) -> List[int]: ...
    def absent(self) -> List[int]: ...

def init(
    *,
    master_address: Optional[str] = None,
    client_id: Optional[int] = None,
    num_workers: Optional[int] = None,
    distributed: Optional[bool] = None,
    num_push_threads: Optional[int] = None,
    num_pull_threads: Optional[int] = None,
    block_size: Optional[int] = None,
    shared_memory: Optional[bool] = None,
    deterministic: Optional[bool] = None,
    on_death: Optional[Literal["fail", "continue"]] = None,
    token: Optional[str] = None,
    connect_timeout: Optional[float] = None,
    listen_host: Optional[str] = None,
) -> None: ...
def is_initialized() -> bool: ...
def rank() -> int: ...
def size() -> int: ...
def push_pull(
    array: NDArray[Any],
    op: Optional[Literal["sum", "mean", "weighted_mean"]] = None,
    name: Optional[str] = None,
    weight: Optional[float] = None,
    priority: int = 0,
    dtype: Optional[str] = None,
) -> NDArray[Any]: ...
def push_pull_async(
    array: NDArray[Any],
    op: Optional[Literal["sum", "mean", "weighted_mean"]] = None,
    name: Optional[str] = None,
    weight: Optional[float] = None,
    priority: int = 0,
    dtype: Optional[str] = None,
    members: Optional[Sequence[int]] = None,
) -> Handle: ...
def broadcast(array: NDArray[Any], root: int = 0, name: Optional[str] = None) -> NDArray[Any]: ...
def all_gather(array: NDArray[Any], name: Optional[str] = None) -> NDArray[Any]: ...
def all_gather_async(
    array: NDArray[Any],
    name: str,
    priority: int = 0,
    partial: bool = False,
    dtype: Optional[str] = None,
    members: Optional[Sequence[int]] = None,
) -> Handle: ...
def broadcast_async(
    array: NDArray[Any],
    root: int,
    name: str,
    priority: int = 0,
    dtype: Optional[str] = None,
    members: Optional[Sequence[int]] = None,
) -> Handle: ...
def send_async(array: NDArray[Any], to: int, name: str, dtype: Optional[str] = None) -> Handle: ...
def recv_async(array: NDArray[Any], source: int, name: str, dtype: Optional[str] = None) -> Handle: ...
def barrier() -> None: ...
def admit() -> List[int]: ...
def members() -> List[int]: ...
def root() -> int: ...
def joined_late() -> bool: ...
def finish() -> None: ...
def stats() -> Dict[str, Any]: ...
def abort(why: str) -> None: ...
def shutdown() -> None: ...
