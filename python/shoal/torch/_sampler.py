"""Which samples are this worker's?"""

import math

import torch
import torch.utils.data

from .. import _api
from ._start import ensure_started


class DistributedSampler(torch.utils.data.Sampler):
    """Deals the samples out to the workers: each epoch in a new order if ``shuffle``, the same on every worker.

    If they do not divide evenly: ``uneven="pad"`` repeats a few so that all have as many, as PyTorch's does;
    ``uneven="drop"`` (or ``drop_last=True``) leaves a few out; ``uneven="keep"`` gives each sample to exactly one
    worker, so some have one more: use ``shoal.torch.set_weight`` and end with ``shoal.finish()``. Call ``set_epoch(n)``
    before each epoch.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False, uneven="pad"):
        if uneven not in ("pad", "drop", "keep"):
            raise ValueError(f"uneven is {uneven!r}; expected 'pad', 'drop' or 'keep'")
        if num_replicas is None or rank is None:
            ensure_started()
        self.num_replicas = _api.size() if num_replicas is None else num_replicas
        self.rank = _api.rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank is {self.rank}; expected a number from 0 to {self.num_replicas - 1}")
        self.dataset, self.shuffle, self.seed, self.epoch = dataset, shuffle, seed, 0
        self.drop_last, self.uneven = drop_last or uneven == "drop", "drop" if drop_last else uneven

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        samples, workers = len(self.dataset), self.num_replicas
        if self.uneven == "drop":
            return samples // workers
        if self.uneven == "pad":
            return math.ceil(samples / workers)
        return len(range(self.rank, samples, workers))

    def __iter__(self):
        samples, workers = len(self.dataset), self.num_replicas
        if self.shuffle:
            order = torch.randperm(samples, generator=torch.Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            order = list(range(samples))
        if self.uneven == "drop":
            order = order[: samples // workers * workers]
        elif self.uneven == "pad" and order:
            wanted = math.ceil(samples / workers) * workers
            order = (order * math.ceil(wanted / samples))[:wanted]
        return iter(order[self.rank :: workers])
