"""One worker of the check: the steps of a model that sleeps for compute, with real gradients over the real engine.

Reads a description as `shoal plan` does, with `forward_seconds` and `backward_seconds` for every layer. Runs some steps
dense, then as the planner chooses, and says as one line of JSON what it saw: bytes, seconds, schemes, and what the
planner measured.
"""

import json
import math
import os
import statistics
import sys
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import shoal  # noqa: E402
from shoal._factors import Factors  # noqa: E402
from shoal._planner import DENSE, Choice, Planner  # noqa: E402

#: What a header takes of each frame.
HEADER = 64


class Layer:
    def __init__(self, place, layer, batch):
        self.name, self.place = layer["name"], place
        self.forward, self.backward = layer["forward_seconds"], layer["backward_seconds"]
        shape = layer.get("shape", [])
        self.bias = np.zeros(shape[0], np.float32) if shape and layer.get("bias") else None
        self.weight = np.zeros(math.prod(shape), np.float32) if shape else None
        self.linear = layer["kind"] == "linear"
        if self.linear:
            self.weight = self.weight.reshape(shape)
            self.rows = layer.get("rows", batch)
            self.x, self.dy = np.ones((self.rows, shape[1]), np.float32), np.ones((self.rows, shape[0]), np.float32)
        self.factors, self.handles, self.spared, self.product = None, [], 0.0, (0.0, 0.0)

    def seen_by(self, planner):
        if self.linear:
            planner.saw(self.name, self.weight.size, self.rows, *self.weight.shape)
        elif self.weight is not None:
            planner.saw(self.name, self.weight.size)

    def take(self, choice, flops):
        """What the choice means for the layer: buffers, and the product that the backward pass need not make."""
        wanted = choice is not None and choice.scheme != DENSE
        self.factors = Factors(self.name, choice.rows, *self.weight.shape, priority=self.place) if wanted else None
        self.spared = min(self.backward, 2.0 * self.rows * self.weight.size / flops) if wanted else 0.0

    def start(self):
        if self.factors is not None:
            self.factors.start(self.x, self.dy)
            return
        for part, array in (("weight", self.weight), ("bias", self.bias)):
            if array is not None:
                name = f"{self.name}.{part}"
                self.handles.append(shoal.push_pull_async(array, name=name, priority=self.place))

    def finish(self):
        if self.factors is not None:
            everyone = self.factors.wait()
            start = time.perf_counter()
            np.matmul(everyone.dy.T, everyone.x, out=self.weight)
            self.product = (2.0 * len(everyone.x) * self.weight.size, time.perf_counter() - start)
            if self.bias is not None:
                everyone.dy.sum(0, out=self.bias)
        for handle in self.handles:
            handle.wait()
        self.handles = []


def step(layers):
    """Forward, backward with gradients leaving as they come, and all back in the order of the next forward pass."""
    time.sleep(sum(layer.forward for layer in layers))
    late = 0.0
    for layer in reversed(layers):
        # A sleep is always a little longer than asked for; the next one makes up for it.
        wanted = layer.backward - layer.spared - late
        start = time.perf_counter()
        if wanted > 0:
            time.sleep(wanted)
        late = time.perf_counter() - start - wanted
        layer.start()
    for layer in layers:
        layer.finish()


def quiet():
    """The counters, once nothing moves any more: acknowledgements may still be on their way when the data has come."""
    end, last = time.monotonic() + 5, None
    while True:
        now = {name: value for name, value in shoal.stats().items() if name.endswith("_sent")}
        if now == last or time.monotonic() > end:
            return now
        last = now
        time.sleep(0.05)


def run(layers, steps):
    """Payload bytes that this worker sends in a step, and the seconds of the middle one of `steps` steps."""
    step(layers)  # The first use of a key tells the others what it is.
    shoal.barrier()
    shoal.barrier()  # Barriers have two keys, which take turns.
    before, times = quiet(), []
    for _ in range(steps):
        shoal.barrier()
        start = time.perf_counter()
        step(layers)
        times.append(time.perf_counter() - start)
    shoal.barrier()
    after = quiet()

    moved = {name: after[name] - before[name] for name in after}
    return {
        "sent": (moved["bytes_sent"] - HEADER * moved["frames_sent"]) / steps,
        "seconds": statistics.median(times),
    }


def check(description, steps, measure=None):
    """Dense, then as planned."""
    layers = [Layer(place, layer, description["batch"]) for place, layer in enumerate(description["layers"])]
    planner = Planner("check")
    if measure is not None:
        planner._measure = lambda: setattr(planner, "measured", measure())
    for layer in layers:
        layer.seen_by(planner)
        layer.take(Choice(DENSE), 1.0)
    dense = run(layers, steps)
    planner.settle()
    for layer in layers:
        layer.take(planner.choices.get(layer.name), planner.measured.flops if planner.measured else math.inf)
    planned = run(layers, steps)
    schemes = {layer.name: "factors" if layer.factors else "dense" for layer in layers}
    operations, seconds = (sum(layer.product[i] for layer in layers) for i in (0, 1))
    return {
        "rank": shoal.rank(),
        "dense": dense,
        "planned": planned,
        "schemes": schemes,
        "measured": vars(planner.measured) if planner.measured else {},
        # What the products of the last step had; processors that are shared are now faster, now slower.
        "flops": operations / seconds if seconds else None,
    }


if __name__ == "__main__":
    shoal.init(shared_memory="apart" not in sys.argv)
    print(json.dumps(check(json.loads(sys.argv[1]), int(sys.argv[2]))), flush=True)
    shoal.shutdown()
