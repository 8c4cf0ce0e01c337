from typing import Any, Dict, List, Optional, Tuple

from numpy.typing import NDArray

__version__: str

def choose(
    *,
    elements: int,
    workers: int,
    bandwidth: float,
    round_trip: float,
    flops: float,
    rows: int = 0,
    outputs: int = 0,
    inputs: int = 0,
    servers: int = 0,
    per_host: int = 1,
    gather_bandwidth: Optional[float] = None,
    summing: float = ...,
    use_sfb: str = "auto",
    lossy: List[str] = ...,
    current: Optional[str] = None,
) -> Dict[str, Any]: ...
def conditions_in_words(bandwidth: float, round_trip: float, flops: float) -> str: ...

class Handle:
    def wait(self) -> NDArray[Any]: ...
    def done(self) -> bool: ...
    def waiting_for(self) -> List[int]: ...
    def absent(self) -> List[int]: ...

class Engine:
    def __init__(
        self,
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
        on_death: Optional[str] = None,
        token: Optional[str] = None,
        connect_timeout: Optional[float] = None,
        listen_host: Optional[str] = None,
    ) -> None: ...
    rank: int
    size: int
    servers: int
    joined_late: bool
    def push_pull(
        self,
        array: NDArray[Any],
        name: str,
        op: str,
        weight: float,
        priority: int,
        dtype: Optional[str] = None,
        members: Optional[List[int]] = None,
    ) -> Handle: ...
    def push_pull_wait(
        self,
        array: NDArray[Any],
        name: str,
        op: str,
        weight: float,
        priority: int,
        dtype: Optional[str] = None,
        members: Optional[List[int]] = None,
    ) -> None: ...
    def broadcast(self, array: NDArray[Any], name: str, root: int) -> None: ...
    def all_gather(self, array: NDArray[Any], name: str) -> None: ...
    def all_gather_async(
        self,
        array: NDArray[Any],
        name: str,
        priority: int,
        partial: bool,
        dtype: Optional[str] = None,
        members: Optional[List[int]] = None,
    ) -> Handle: ...
    def broadcast_async(
        self,
        array: NDArray[Any],
        name: str,
        root: int,
        priority: int,
        dtype: Optional[str] = None,
        members: Optional[List[int]] = None,
    ) -> Handle: ...
    def barrier(self) -> None: ...
    def admit(self) -> List[int]: ...
    def members(self) -> List[int]: ...
    def root(self) -> int: ...
    def finish(self) -> None: ...
    def shutdown(self) -> None: ...
    def abort(self, why: str) -> None: ...
    def switch_timeline(self, on: bool) -> None: ...
    def take_timeline(self) -> Tuple[List[Tuple[str, int, str, int, List[int], Optional[int]]], int]: ...
    def stats(self) -> Dict[str, Any]: ...
