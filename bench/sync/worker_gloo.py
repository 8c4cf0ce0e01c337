"""Peer: PyTorch's Gloo. Modes for lists: one asynchronous all-reduce a tensor, or buckets of 25 MB as DDP makes them."""

import os
from functools import cached_property

import torch
import torch.distributed as dist

from common import flat_buckets, serve


class Plan:
    def __init__(self, arrays):
        self.arrays = arrays
        self.tensors = [torch.from_numpy(array) for array in arrays]

    @cached_property
    def buckets(self):
        """Flat tensors, their parts, and the tensors that these are copied from and to."""
        buckets = []
        for bucket in flat_buckets(self.arrays):
            flat = torch.zeros(sum(array.size for array in bucket))
            parts = list(torch.split(flat, [array.size for array in bucket]))
            buckets.append((flat, parts, [torch.from_numpy(array) for array in bucket]))
        return buckets


class Gloo:
    def __init__(self):
        torch.set_num_threads(1)
        self.rank, self.workers = int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_WORKERS"])
        where = os.environ["BENCH_RENDEZVOUS"]
        dist.init_process_group("gloo", init_method=where, rank=self.rank, world_size=self.workers)

    def prepare(self, arrays, _size):
        return Plan(arrays)

    def run(self, plan, mode):
        if mode == "plain":
            dist.all_reduce(plan.tensors[0])
        elif mode == "each":
            for work in [dist.all_reduce(tensor, async_op=True) for tensor in plan.tensors]:
                work.wait()
        elif mode == "buckets":
            works = []
            for flat, parts, tensors in plan.buckets:
                torch._foreach_copy_(parts, tensors)
                works.append(dist.all_reduce(flat, async_op=True))
            for (_, parts, tensors), work in zip(plan.buckets, works):
                work.wait()
                torch._foreach_copy_(tensors, parts)
        else:
            raise ValueError(f"Gloo knows no mode {mode}")

    def bytes_sent(self):
        return 0  # Gloo does not count.

    def close(self):
        dist.destroy_process_group()


serve(Gloo)
