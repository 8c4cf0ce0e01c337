"""BatchNorm's running statistics: each worker's own until a step, then their mean; so replicas stay equal.

Only a step puts the mean there. Between two backwards it is left out: forwards may have moved the statistics on, and graphs
that hold them may be alive. Nothing is lost by it, because the statistics are linear in the batches: the mean of what the
next round sends is the same.
"""

import numpy as np
import torch

from .. import _api


class RunningStatistics:
    """``buffers`` are float tensors, the same on every worker; they travel together."""

    def __init__(self, buffers, name):
        self._buffers, self._name = list(buffers), name
        self._packed = np.zeros(sum(buffer.numel() for buffer in self._buffers), dtype=np.float32)
        self._handle = None

    def push(self, weight):
        if not self._buffers:
            return
        torch.cat([b.detach().reshape(-1).to("cpu", torch.float32) for b in self._buffers], out=self._as_tensor())
        self._handle = _api.push_pull_async(self._packed, name=self._name, weight=weight)

    def finish(self, write=True):
        if self._handle is None:
            return
        self._handle.wait()
        self._handle = None
        if not write:
            return
        at, packed = 0, self._as_tensor()
        for buffer in self._buffers:
            # By `data`, as PyTorch's own forward does it: a graph that has saved the buffer does not take it for spoilt. In
            # training its backward does not look at the values.
            buffer.data.copy_(packed[at : at + buffer.numel()].view(buffer.shape))
            at += buffer.numel()

    def _as_tensor(self):
        return torch.from_numpy(self._packed)


def running_statistics(model):
    """The buffers of a model that follow the data."""
    found = []
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            found += [b for b in (module.running_mean, module.running_var) if b is not None]
    return list({id(buffer): buffer for buffer in found}.values())
