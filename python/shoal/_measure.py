"""How fast are the link and the processor? Measured by all workers at once: about 0.3 s at 1 Gbit/s.

Everybody's figures are gathered and the slowest count, so that all workers plan with the same numbers.
"""

import math
import os
import sys
import time
import zlib

import numpy as np

from . import _api
from ._shoal import choose, conditions_in_words

#: Seconds that one timed transfer should take; shorter ones measure start-up, longer ones are felt.
_TRANSFER = 0.03
_SMALLEST, _LARGEST = 1 << 18, 1 << 24
#: Seconds for products, and the sides of their matrices: thin ones, as factors are.
_PRODUCTS, _ROWS, _SIDE = 0.05, 128, 768
#: The width of what a gather is measured with.
_WIDTH = 1024


class Measured:
    """What the planner plans with; the same on all workers."""

    def __init__(self, workers, servers, per_host, bandwidth, gather_bandwidth, round_trip, flops):
        self.workers, self.servers, self.per_host = workers, servers, per_host
        self.bandwidth, self.gather_bandwidth = bandwidth, gather_bandwidth
        self.round_trip, self.flops = round_trip, flops

    def choose(self, **tensor):
        """The cost model's answer for a tensor under these conditions."""
        return choose(**vars(self), **tensor)

    def __str__(self):
        where = f"{self.workers} workers" + (f", {self.per_host} on a host" if self.per_host > 1 else "")
        return f"{where}, {conditions_in_words(self.bandwidth, self.round_trip, self.flops)}"


def gather(values, name):
    """Everybody's ``values`` (a few float64), a row for each worker that is there, in the order of ranks."""
    rows = np.zeros((_api.size(), len(values) + 1))
    rows[_api.rank()] = [1.0, *values]
    # A sum with zeros: exact, the same bytes for all (GRAD-3), and it goes on without those who have finished.
    _api.push_pull(rows, op="sum", name=f"{name} of {len(values)}")
    return rows[rows[:, 0] == 1.0, 1:]


def matrix_speed(multiply=None):
    """Operations a second in products of factors; ``multiply(dy, x)`` is ``dy.T @ x`` as the front end does it.

    Without it torch multiplies if the script has it, with as many threads as it was told to use; else NumPy.
    """
    multiply = multiply or _usual_product()
    dy, x = np.ones((_ROWS, _SIDE), np.float32), np.ones((_ROWS, _SIDE), np.float32)
    multiply(dy, x)
    count, start = 0, time.perf_counter()
    # All of the time counts, not the best of it: workers that share a processor take turns, and so will their steps.
    while count < 3 or time.perf_counter() < start + _PRODUCTS:
        multiply(dy, x)
        count += 1
    return 2.0 * _ROWS * _SIDE * _SIDE * count / max(time.perf_counter() - start, 1e-9)


def _usual_product():
    torch = sys.modules.get("torch")
    if hasattr(torch, "from_numpy"):
        return lambda dy, x: torch.from_numpy(dy).t() @ torch.from_numpy(x)
    return lambda dy, x: dy.T @ x


def everything(prefix, multiply=None):
    """All of it. A meeting of all workers, with nothing else under way."""
    hosts = gather([_host()], f"{prefix}: hosts")[:, 0].tolist()
    shape = {"workers": len(hosts), "servers": _api._current().servers, "per_host": max(hosts.count(h) for h in hosts)}
    per_flop = 1.0 / matrix_speed(multiply)
    round_trip = _sum_time(4, f"{prefix}: round trip", 5)
    rough = _sum_time(_SMALLEST, f"{prefix}: link")
    rough, per_flop, round_trip = _agree(prefix, rough, per_flop, round_trip)
    size = _fitting(_SMALLEST, rough)
    # About as many bytes in the gather as in the sum.
    rows = max(8, size // (4 * _WIDTH * max(1, len(hosts) // 2)))
    seconds, gathering = _sum_time(size, f"{prefix}: link"), 0.0
    if len(hosts) == _api.size():
        gathering = _gather_time(rows, prefix)
    seconds, gathering, _ = _agree(prefix, seconds, gathering, 0.0)
    bandwidth = _rate(_carried(shape, "dense", size // 4), seconds, round_trip)
    # Somebody has finished: what the wire does for sums it does for gathers.
    gathers = _rate(_carried(shape, "factors", rows=rows), gathering, round_trip) if gathering else bandwidth
    return Measured(**shape, bandwidth=bandwidth, gather_bandwidth=gathers, round_trip=round_trip, flops=1.0 / per_flop)


def bandwidth_now(measured, prefix):
    """The link as one short transfer finds it, to compare with ``measured``. A meeting of all workers."""
    size = _fitting(_SMALLEST, _carried(vars(measured), "dense", _SMALLEST // 4) / measured.bandwidth)
    seconds = _agree(prefix, _sum_time(size, f"{prefix}: link"), 0.0, 0.0)[0]
    return _rate(_carried(vars(measured), "dense", size // 4), seconds, measured.round_trip)


def _rate(carried, seconds, round_trip):
    return carried / max(seconds - round_trip, seconds / 10, 1e-9)


def _carried(shape, scheme, elements=0, rows=0):
    """Bytes that the busiest link carries: the model's seconds for a link of one byte a second and free arithmetic."""
    half = _WIDTH // 2
    tensor = {"elements": elements, "rows": rows, "outputs": half, "inputs": half}
    place = {name: shape[name] for name in ("workers", "servers", "per_host")}
    return choose(bandwidth=1.0, round_trip=0.0, flops=math.inf, **place, **tensor)["costs"][scheme][1]


def _fitting(size, seconds):
    """The power of two whose transfer takes about ``_TRANSFER``, if ``size`` bytes take ``seconds``."""
    wanted = size * _TRANSFER / max(seconds, 1e-9)
    return min(_LARGEST, max(_SMALLEST, 1 << int(math.log2(max(wanted, 1.0)))))


def _agree(prefix, *times):
    """The slowest worker's times."""
    return gather(times, f"{prefix}: times").max(0).tolist()


def _sum_time(size, name, times=2):
    array = np.zeros(size // 4, np.float32)
    array.fill(0)  # Memory is there only when it has been touched.
    return _best(lambda: _api.push_pull(array, op="sum", name=f"{name} {size}"), name, times)


def _gather_time(rows, prefix):
    # One row more than the model is told: it adds the one in which senders speak of themselves.
    array = np.zeros((_api.size(), rows + 1, _WIDTH), np.float32)
    array.fill(0)
    name = f"{prefix}: gather {rows}"
    return _best(lambda: _api.all_gather_async(array, name, partial=True).wait(), prefix, 2)


def _best(transfer, name, times):
    seconds = []
    for _ in range(times):
        _together(name)
        start = time.perf_counter()
        transfer()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _together(name):
    """Nobody's clock starts before everybody is there."""
    _api.push_pull(np.zeros(1, np.float32), op="sum", name=f"{name}, ready")


def _host():
    """A number for this machine: one boot, one network."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot:
            name = boot.read() + os.readlink("/proc/self/ns/net")
    except OSError:
        name = os.uname().nodename
    return float(zlib.crc32(name.encode()))
