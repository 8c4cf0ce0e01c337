"""The part of a worker that is the same for every contestant: take orders from the bench, time, verify, report.

A worker blocks on a unix socket between orders, so that an idle contestant costs no CPU while another one is measured
(this matters for MPI, whose own waits spin). Orders and answers are one JSON object a line:

    {"size": "64 MB", "mode": "plain", "iterations": 3, "verify": true}
    {"seconds": 0.05, "cpu": 0.03, "peak_bytes": 70000000, "bytes_sent": 100663296, "tensor_bytes": 67108864}

{"size": null} drops the buffers, and its answer is {}. The answer to a failed order is {"error": "..."}. The end of the
connection ends the worker.
"""

import ctypes
import gc
import json
import os
import resource
import signal
import socket
import time
import traceback

import numpy as np

from sizes import elements


def cpu_seconds():
    """Of all threads of this process, in user and kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory(field):
    """A `Vm...` line of this process's status, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def reset_peak():
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


class Worker:
    """Runs orders on a backend, which has: `rank`, `workers`, `prepare(arrays, size)` giving a plan, `run(plan, mode)`
    summing the plan's arrays over all workers in place, `bytes_sent()`, and `close()`."""

    def __init__(self, backend):
        self.backend = backend
        self.size, self.arrays, self.plan = None, [], None
        self.barrier_plan = backend.prepare([np.zeros(1, np.float32)], "barrier")
        self.barrier()
        self.baseline = memory("VmRSS")

    def barrier(self):
        """A sum of one number: nobody leaves before everybody came. Every contestant has one, unlike a barrier."""
        self.backend.run(self.barrier_plan, "plain")

    def take(self, size):
        """Makes the buffers of `size` the current ones, touched, and drops the previous ones."""
        if size == self.size:
            return
        self.size, self.arrays, self.plan = size, [], None
        gc.collect()
        reset_peak()
        if size is None:
            return
        self.arrays = [np.zeros(count, np.float32) for count in elements(size)]
        for array in self.arrays:
            array.fill(0)
        self.plan = self.backend.prepare(self.arrays, size)

    def verify(self, mode):
        """Sums values that differ by rank, tensor and place, checks all of them, and leaves zeros."""
        factor = self.backend.workers * (self.backend.workers + 1) // 2
        for number, array in enumerate(self.arrays):
            array[:] = (self.backend.rank + 1) * (number % 5 + 1)
            array[:: max(1, len(array) // 97)] = self.backend.rank + 1
        self.backend.run(self.plan, mode)
        for number, array in enumerate(self.arrays):
            stride = max(1, len(array) // 97)
            marks = (array[::stride] == factor).all()
            array[::stride] = factor * (number % 5 + 1)
            if not marks or not (array == factor * (number % 5 + 1)).all():
                raise RuntimeError(f"wrong sum in tensor {number} of {self.size} ({mode})")
            array.fill(0)

    def order(self, order):
        self.take(order["size"])
        if self.size is None:
            return {}
        mode = order["mode"]
        if order["verify"]:
            self.verify(mode)
            reset_peak()  # Verifying makes temporary arrays of its own.
        sent = self.backend.bytes_sent()
        self.barrier()
        cpu, start = cpu_seconds(), time.perf_counter()
        for _ in range(order["iterations"]):
            self.backend.run(self.plan, mode)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        # MPI sends only while inside of a call: whoever left for the next order too early would starve the others.
        self.barrier()
        return {
            "seconds": seconds / order["iterations"],
            "cpu": cpu / order["iterations"],
            "peak_bytes": memory("VmHWM") - self.baseline,
            "bytes_sent": (self.backend.bytes_sent() - sent) / order["iterations"],
            "tensor_bytes": sum(array.nbytes for array in self.arrays),
        }


def flat_buckets(arrays, limit=25 << 20):
    """Groups of consecutive arrays of at most `limit` bytes each (one array alone may be larger), as DDP makes them."""
    buckets, size = [], limit
    for array in arrays:
        if size + array.nbytes > limit:
            buckets.append([])
            size = 0
        buckets[-1].append(array)
        size += array.nbytes
    return buckets


def serve(make_backend):
    """Connects to the bench, starts the backend, obeys until the bench is gone."""
    # mpirun puts its ranks into process groups of their own: nobody else would end one that hangs.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    bench = socket.socket(socket.AF_UNIX)
    bench.connect(os.environ["BENCH_SOCKET"])
    lines = bench.makefile("rw")

    def say(answer):
        lines.write(json.dumps(answer) + "\n")
        lines.flush()

    backend = make_backend()
    worker = Worker(backend)
    say({"group": os.environ["BENCH_GROUP"], "rank": backend.rank})
    for line in lines:
        try:
            say(worker.order(json.loads(line)))
        except Exception as error:  # The bench shows it in the row; a broken backend gets no further order.
            traceback.print_exc()
            say({"error": f"rank {backend.rank}: {type(error).__name__}: {error}"})
    backend.close()
