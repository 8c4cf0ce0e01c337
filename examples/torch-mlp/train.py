"""Wide linear layers, twice: once with whole gradients on the network, once with their factors. Prints what each sent.

A weight of M x N has a gradient of M x N numbers, which is the product of two thin matrices with a row for each
sample. For few samples and wide layers these are far smaller, and every worker can multiply them itself: the same
result, fewer bytes.

    shoal run -n 4 --env SHOAL_SHARED_MEMORY=0 -- python train.py

Within one machine tensors pass through memory, where there is nothing to save; so the network is asked for here.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

import shoal.torch


def network(width):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def batch(step, rows, width):
    """This worker's part of a step: every tenth number, from the class on, is a little larger."""
    generator = torch.Generator().manual_seed(1000 * step + shoal.rank())
    labels = torch.randint(0, 10, (rows,), generator=generator)
    hint = (torch.arange(width) % 10 == labels.view(-1, 1)).float()
    return torch.randn(rows, width, generator=generator) + hint, labels


def train(args, use_sfb):
    model = network(args.width)
    model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), lr=0.1), use_sfb=use_sfb)
    before, since = shoal.stats()["bytes_sent"], time.perf_counter()
    losses = []
    for step in range(args.steps):
        x, y = batch(step, args.batch, args.width)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = (time.perf_counter() - since) / args.steps
    sent = (shoal.stats()["bytes_sent"] - before) / args.steps
    return model, {"bytes_a_step": int(sent), "seconds_a_step": round(seconds, 4), "loss": [losses[0], losses[-1]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=16, help="of each worker")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--use-sfb", choices=["auto", "true"], default="auto", help="true: wherever it can be done")
    args, _ = parser.parse_known_args()

    shoal.init()
    whole, told = train(args, use_sfb=False)
    factored, told_factors = train(args, use_sfb=True if args.use_sfb == "true" else "auto")
    away = max((a - b).abs().max().item() for a, b in zip(whole.parameters(), factored.parameters()))
    result = {"rank": shoal.rank(), "whole": told, "factors": told_factors, "difference": away}
    if shoal.rank() == 0:
        for name in ("whole", "factors"):
            one = result[name]
            sent, took = one["bytes_a_step"] / 1e6, one["seconds_a_step"] * 1e3
            print(f"{name:8} {sent:8.2f} MB sent a step  {took:8.1f} ms a step")
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
