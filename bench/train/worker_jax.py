"""JAX: ours, or its own collectives over Gloo, as BENCH_SYNC says. The same networks as in models.py, in plain JAX."""

import os

SYNC, RANK, WORKERS = os.environ["BENCH_SYNC"], int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_WORKERS"])
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from serve import serve  # noqa: E402

RATE = 0.01


def mlp(key):
    sizes = ((4096, 4096), (4096, 4096), (4096, 1000))
    keys = jax.random.split(key, len(sizes))
    return [{"w": jax.random.normal(k, s) / s[0] ** 0.5, "b": jnp.zeros(s[1])} for k, s in zip(keys, sizes)]


def run_mlp(layers, x):
    for number, layer in enumerate(layers):
        x = x @ layer["w"] + layer["b"]
        x = jax.nn.relu(x) if number + 1 < len(layers) else x
    return x


PLAN = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))


def resnet18(key):
    def conv(inputs, width, size):
        nonlocal key
        key, mine = jax.random.split(key)
        w = jax.random.normal(mine, (size, size, inputs, width)) * (2 / (size * size * inputs)) ** 0.5
        return {"w": w, "scale": jnp.ones(width), "shift": jnp.zeros(width)}

    net, inputs = {"first": conv(3, 64, 3), "blocks": []}, 64
    for width, stride in PLAN:
        block = {"a": conv(inputs, width, 3), "b": conv(width, width, 3)}
        if stride != 1 or inputs != width:
            block["short"] = conv(inputs, width, 1)
        net["blocks"].append(block)
        inputs = width
    return {**net, "w": jax.random.normal(key, (512, 10)) / 512**0.5, "b": jnp.zeros(10)}


def run_resnet18(net, x):
    def conv(layer, x, stride):
        x = jax.lax.conv_general_dilated(
            x, layer["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        mean, spread = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(spread + 1e-5) * layer["scale"] + layer["shift"]

    x = jax.nn.relu(conv(net["first"], x, 1))
    for block, (_, stride) in zip(net["blocks"], PLAN):
        y = conv(block["b"], jax.nn.relu(conv(block["a"], x, stride)), 1)
        x = jax.nn.relu(y + (conv(block["short"], x, stride) if "short" in block else x))
    return x.mean((1, 2)) @ net["w"] + net["b"]


CASES = {"fc-mlp": (mlp, run_mlp, (4096,), 1000), "conv-resnet18": (resnet18, run_resnet18, (32, 32, 3), 10)}


def batch(step, rank, shape, classes):
    made = np.random.default_rng(1000 * step + rank)
    x = made.standard_normal((32, *shape), dtype=np.float32)
    return x, (x.reshape(32, -1)[:, :classes].argmax(1) % classes).astype(np.int32)


class Trainer:
    rank = RANK

    def make(self, case):
        make, run, self.shape, self.classes = CASES[case]

        def loss(parameters, x, y):
            return -jnp.take_along_axis(jax.nn.log_softmax(run(parameters, x)), y[:, None], 1).mean()

        self.count, self.parameters = 0, make(jax.random.PRNGKey(0))
        self.compile(loss)

    def step(self):
        x, y = batch(self.count % 16, RANK, self.shape, self.classes)
        self.count += 1
        self.parameters, loss = self.compiled(self.parameters, *self.share(x, y))
        return jax.block_until_ready(loss)

    def share(self, x, y):
        return x, y

    def drop(self):
        self.parameters = self.compiled = None

    def close(self):
        pass


def descend(parameters, gradients):
    return jax.tree.map(lambda p, g: p - RATE * g, parameters, gradients)


class Shoal(Trainer):
    def __init__(self):
        import shoal
        import shoal.jax

        self.shoal = shoal
        shoal.init()

    def compile(self, loss):
        self.parameters = self.shoal.jax.broadcast(self.parameters)
        gradient = self.shoal.jax.value_and_grad(loss)

        def one(parameters, x, y):
            value, gradients = gradient(parameters, x, y)
            return descend(parameters, gradients), value

        self.compiled = jax.jit(one, donate_argnums=0)

    def barrier(self):
        self.shoal.barrier()

    def close(self):
        self.shoal.shutdown()


class Gloo(Trainer):
    def __init__(self):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(os.environ["BENCH_RENDEZVOUS"], WORKERS, RANK)
        self.mesh = jax.sharding.Mesh(np.array(jax.devices()), ("workers",))
        self.rows = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec("workers"))
        self.everywhere = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        self.sum = jax.jit(jnp.sum, out_shardings=self.everywhere)

    def compile(self, loss):
        self.parameters = jax.tree.map(
            lambda p: jax.make_array_from_process_local_data(self.everywhere, np.asarray(p)), self.parameters)

        # Each worker normalises by its own batch, as ours do: a plain sharded jit would take the statistics of all batches, and
        # so train another network.
        def own(parameters, x, y):
            value, gradients = jax.value_and_grad(loss)(parameters, x, y)
            return descend(parameters, jax.lax.pmean(gradients, "workers")), jax.lax.pmean(value, "workers")

        rows, everywhere = self.rows.spec, self.everywhere.spec
        specs = {"in_specs": (everywhere, rows, rows), "out_specs": (everywhere, everywhere)}
        self.compiled = jax.jit(jax.shard_map(own, mesh=self.mesh, **specs, check_vma=False), donate_argnums=0)

    def share(self, x, y):
        return [jax.make_array_from_process_local_data(self.rows, part) for part in (x, y)]

    def barrier(self):
        ones = jax.make_array_from_process_local_data(self.rows, np.ones(1, np.float32))
        jax.block_until_ready(self.sum(ones))


class Joined(Trainer):
    """One process that sees the batches of all workers, one after the other."""

    def compile(self, loss):
        self.compiled = jax.jit(jax.value_and_grad(loss))

    def step(self):
        parts = [batch(self.count % 16, rank, self.shape, self.classes) for rank in range(WORKERS)]
        self.count += 1
        told = [self.compiled(self.parameters, x, y) for x, y in parts]
        mean = jax.tree.map(lambda *gradients: sum(gradients) / WORKERS, *[gradients for _, gradients in told])
        self.parameters = descend(self.parameters, mean)
        return sum(loss for loss, _ in told) / WORKERS


serve({"shoal": Shoal, "gloo": Gloo, "joined": Joined}[SYNC])
