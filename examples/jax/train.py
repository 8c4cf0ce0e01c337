"""Train a small network on handwritten digits with JAX and optax, on many workers at once.

Three lines make it data-parallel: `shoal.init()`, `shoal.jax.broadcast`, and `shoal.jax.value_and_grad` in place of
JAX's own.

    shoal run -n 4 -- python examples/jax/train.py
    python examples/jax/train.py --single 4          one process, with the batches of four workers
"""

import argparse
import hashlib
import json
import logging
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

LAYERS = (64, 512, 256, 10)
BATCH = 16  # of each worker
SEED = 7


def load():
    digits = load_digits()
    pixels = (digits.data / 16).astype(np.float32)
    return train_test_split(pixels, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target)


def start_parameters(seed):
    keys = jax.random.split(jax.random.key(seed), len(LAYERS) - 1)
    shapes = zip(keys, LAYERS, LAYERS[1:])
    return [{"w": jax.random.normal(k, (n, m)) * jnp.sqrt(2 / n), "b": jnp.zeros(m)} for k, n, m in shapes]


def logits_of(parameters, pixels):
    for layer in parameters[:-1]:
        pixels = jax.nn.relu(pixels @ layer["w"] + layer["b"])
    return pixels @ parameters[-1]["w"] + parameters[-1]["b"]


def loss_of(parameters, pixels, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(parameters, pixels), labels).mean()


def batches(samples, workers, steps):
    """The rows of every step's whole batch; worker k takes the k-th part of them."""
    rng = np.random.default_rng(SEED)
    for _ in range(steps):
        yield rng.choice(samples, workers * BATCH, replace=False).reshape(workers, BATCH)


def train(rank, workers, parameters, value_and_grad, steps):
    train_x, test_x, train_y, test_y = load()
    optimizer = optax.adam(2e-3, eps=1e-4)

    @jax.jit
    def step(parameters, state, pixels, labels):
        loss, gradients = value_and_grad(loss_of)(parameters, pixels, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    state, times = optimizer.init(parameters), []
    for number, parts in enumerate(batches(len(train_x), workers, steps)):
        start = time.perf_counter()
        rows = parts.reshape(-1) if rank is None else parts[rank]
        parameters, state, loss = step(parameters, state, train_x[rows], train_y[rows])
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if not rank and (number + 1) % 50 == 0:
            print(f"step {number + 1}: loss {loss:.4f}", flush=True)
    accuracy = (np.asarray(logits_of(parameters, test_x)).argmax(axis=1) == test_y).mean()
    return parameters, {"accuracy": float(accuracy), "step_ms": float(np.median(times) * 1e3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--single", type=int, metavar="N", help="train in this process, with the batches of N workers")
    parser.add_argument("--steps", type=int, default=200, help="how many steps (200)")
    parser.add_argument("--use_sfb", default="auto", choices=["auto", "true", "false"], help="send factors? (auto)")
    parser.add_argument("--out", metavar="NAME", help="write NAME.npz, the parameters")
    args = parser.parse_args()

    if args.single:
        parameters, result = train(None, args.single, start_parameters(SEED), jax.value_and_grad, args.steps)
    else:
        import shoal
        import shoal.jax

        logging.basicConfig(level=logging.INFO, format="%(message)s")
        logging.getLogger("shoal").setLevel(logging.INFO)
        logging.getLogger("jax").setLevel(logging.WARNING)
        shoal.init()
        use_sfb = {"auto": "auto", "true": True, "false": False}[args.use_sfb]

        def value_and_grad(function):
            return shoal.jax.value_and_grad(function, use_sfb=use_sfb)

        # Everyone has made other parameters; all go on with those of worker 0.
        parameters = shoal.jax.broadcast(start_parameters(SEED + shoal.rank()))
        parameters, result = train(shoal.rank(), shoal.size(), parameters, value_and_grad, args.steps)
        result["bytes_sent"] = int(shoal.stats()["bytes_sent"])
        shoal.barrier()
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(parameters)]
    result["digest"] = hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()
    if args.out:
        np.savez(args.out, *leaves)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
