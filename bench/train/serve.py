"""The part of a worker that is the same for every contestant: take orders from the bench, train, time, report.

A worker blocks on a unix socket between orders. Orders and answers are one JSON object a line, as in `bench sync`:

    {"size": "fc-mlp", "mode": "plain", "iterations": 4, "verify": false}
    {"seconds": 0.7, "cpu": 0.9, "bytes_sent": 8000000, ...}

`iterations` are steps; with `verify` the network is made anew, and its first losses go to a file beside the logs. {"size": null} drops it.
"""

import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback

#: Steps whose losses are told; of the network that sleeps, only enough to warm up.
CURVE = {"vgg19": 2}


def cpu_seconds():
    """Of all threads of this process, in user and kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def bytes_sent():
    """By this host, whoever counts them: the network card. On one machine nobody can tell."""
    try:
        with open("/sys/class/net/eth0/statistics/tx_bytes") as count:
            return int(count.read())
    except OSError:
        return 0


def tell_losses(case, rank, losses):
    """For the bench, beside the logs: each worker's own, in a line that is written at once."""
    folder = os.environ.get("BENCH_CURVES")
    if folder:
        framework = os.path.basename(sys.argv[0]).removeprefix("worker_").removesuffix(".py")
        told = {"framework": framework, "sync": os.environ["BENCH_SYNC"], "case": case, "rank": rank, "losses": losses}
        with open(os.path.join(folder, "curves.jsonl"), "a") as file:
            file.write(json.dumps(told) + "\n")


class Worker:
    """Runs orders on a trainer, which has: `rank`, `make(case)`, `step()` giving the loss, `barrier()`, `drop()`, `close()`."""

    def __init__(self, trainer):
        self.trainer, self.case = trainer, None
        trainer.barrier()

    def order(self, order):
        case, trainer = order["size"], self.trainer
        if case is None:
            self.case = None
            trainer.drop()
            gc.collect()
            return {}
        losses = []
        if order["verify"] or case != self.case:
            trainer.drop()
            gc.collect()
            self.case = case
            trainer.make(case)
            losses = [float(trainer.step()) for _ in range(CURVE.get(case, 8))]
            tell_losses(case, trainer.rank, losses)
        trainer.barrier()
        sent, cpu, start = bytes_sent(), cpu_seconds(), time.perf_counter()
        for _ in range(order["iterations"]):
            trainer.step()
        trainer.barrier()
        seconds, cpu, sent = time.perf_counter() - start, cpu_seconds() - cpu, bytes_sent() - sent
        steps = order["iterations"]
        return {
            "seconds": seconds / steps,
            "cpu": cpu / steps,
            "bytes_sent": sent / steps,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "tensor_bytes": 1_000_000_000,  # so that "per GB" is per step of a worker
        }


def serve(make_trainer):
    """Connects to the bench, starts the trainer, obeys until the bench is gone. With networks as arguments: only their losses."""
    if len(sys.argv) > 1:
        trainer = make_trainer()
        for case in sys.argv[1:]:
            trainer.make(case)
            tell_losses(case, trainer.rank, [float(trainer.step()) for _ in range(CURVE.get(case, 8))])
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    bench = socket.socket(socket.AF_UNIX)
    bench.connect(os.environ["BENCH_SOCKET"])
    lines = bench.makefile("rw")

    def say(answer):
        lines.write(json.dumps(answer) + "\n")
        lines.flush()

    trainer = make_trainer()
    worker = Worker(trainer)
    say({"group": os.environ["BENCH_GROUP"], "rank": trainer.rank})
    for line in lines:
        try:
            say(worker.order(json.loads(line)))
        except Exception as error:  # The bench shows it in the row; a broken trainer gets no further order.
            traceback.print_exc()
            say({"error": f"rank {trainer.rank}: {type(error).__name__}: {error}"})
    trainer.close()
