"""Train a small network on handwritten digits, with NumPy alone, on many workers at once.

Each worker computes gradients on its own part of every batch; `shoal.push_pull` replaces each gradient by the mean over all
workers; then everybody takes the same step. That is the same training as one process on the whole batch, up to rounding.

    python train.py                  one worker of many; Shoal's variables say which, or the flags that psd_run appends
    python train.py --single 4       one process, with the batches of four workers
"""

import argparse
import hashlib
import json
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

LAYERS = (64, 256, 128, 10)
STEPS = 400
BATCH = 32  # of each worker
RATE = 0.05
MOMENTUM = 0.9
SEED = 7


def load():
    digits = load_digits()
    pixels = (digits.data / 16).astype(np.float32)
    return train_test_split(pixels, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target)


def start_parameters(seed):
    rng = np.random.default_rng(seed)
    parameters = {}
    for k, (inputs, outputs) in enumerate(zip(LAYERS, LAYERS[1:])):
        parameters[f"w{k}"] = (rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32)
        parameters[f"b{k}"] = np.zeros(outputs, np.float32)
    return parameters


def forward(parameters, pixels):
    """The activations of every layer; the last are the logits."""
    activations = [pixels]
    last = len(LAYERS) - 2
    for k in range(last + 1):
        z = activations[-1] @ parameters[f"w{k}"] + parameters[f"b{k}"]
        activations.append(z if k == last else np.maximum(z, 0))
    return activations


def loss_of(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    delta = np.exp(logs)
    delta[rows, labels] -= 1
    return -logs[rows, labels].mean(), delta / np.float32(len(labels))


def backward(parameters, activations, delta):
    """Gradients as they become known: the last layer's first."""
    for k in reversed(range(len(LAYERS) - 1)):
        yield f"w{k}", activations[k].T @ delta
        yield f"b{k}", delta.sum(axis=0)
        if k:
            delta = (delta @ parameters[f"w{k}"].T) * (activations[k] > 0)


def batches(samples, workers):
    """The rows of every step's whole batch; worker k takes the k-th part of them."""
    rng = np.random.default_rng(SEED)
    for _ in range(STEPS):
        yield rng.choice(samples, workers * BATCH, replace=False).reshape(workers, BATCH)


def train(rank, workers, parameters, exchange):
    """`exchange(name, gradient)` starts a gradient on its way and gives a function that waits for it."""
    train_x, test_x, train_y, test_y = load()
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    times = []
    for step, parts in enumerate(batches(len(train_x), workers)):
        start = time.perf_counter()
        rows = parts.reshape(-1) if rank is None else parts[rank]
        activations = forward(parameters, train_x[rows])
        loss, delta = loss_of(activations[-1], train_y[rows])
        # Each gradient leaves as soon as it is there, while the next one is computed.
        gradients = [(name, g, exchange(name, g)) for name, g in backward(parameters, activations, delta)]
        for name, gradient, wait in gradients:
            wait()
            velocity[name] = MOMENTUM * velocity[name] + gradient
            parameters[name] -= RATE * velocity[name]
        times.append(time.perf_counter() - start)
        if not rank and (step + 1) % (STEPS // 50) == 0:
            print(f"progress {step + 1} {STEPS} {loss:.4f}", flush=True)
    accuracy = (forward(parameters, test_x)[-1].argmax(axis=1) == test_y).mean()
    return {"accuracy": float(accuracy), "steps": STEPS, "step_ms": float(np.median(times) * 1e3)}


def train_as_worker(settings):
    import shoal

    shoal.init(**settings)
    rank, workers = shoal.rank(), shoal.size()
    parameters = start_parameters(SEED + rank)
    for name, value in parameters.items():
        shoal.broadcast(value, root=0, name=name)

    def exchange(name, gradient):
        return shoal.push_pull_async(gradient, op="mean", name=f"grad.{name}").wait

    result = train(rank, workers, parameters, exchange)
    result["bytes_sent"] = int(shoal.stats()["bytes_sent"])
    shoal.barrier()
    shoal.shutdown()
    return result, parameters


def train_alone(workers):
    parameters = start_parameters(SEED)
    result = train(None, workers, parameters, lambda name, gradient: lambda: None)
    return result | {"bytes_sent": 0}, parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--single", type=int, metavar="N", help="train in this process, with the batches of N workers")
    parser.add_argument("--against", metavar="FILE", help="compare the parameters with those in this .npz file")
    parser.add_argument("--out", metavar="NAME", help="write NAME.json (the result) and NAME.npz (the parameters)")
    parser.add_argument("--distributed", choices=["True", "False"], help="set by psd_run, as are the next two")
    parser.add_argument("--master_address", help="where ps_master listens")
    parser.add_argument("--client_id", type=int, help="this worker's number")
    args = parser.parse_args()

    settings = {"master_address": args.master_address, "client_id": args.client_id}
    settings = {name: value for name, value in settings.items() if value is not None}
    if args.distributed:
        settings["distributed"] = args.distributed == "True"
    result, parameters = train_alone(args.single) if args.single else train_as_worker(settings)
    result["digest"] = hashlib.sha256(b"".join(value.tobytes() for value in parameters.values())).hexdigest()
    if args.against:
        other = np.load(args.against)
        result["difference"] = max(float(np.abs(value - other[name]).max()) for name, value in parameters.items())
    if args.out:
        np.savez(f"{args.out}.npz", **parameters)
        with open(f"{args.out}.json", "w") as file:
            json.dump(result, file)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
