"""Shoal for PyTorch: an ordinary training script becomes data-parallel.

    model, optimizer = shoal.torch.distribute(model, optimizer)     # or shoal.torch.DistributedDataParallel(model)
    loader = DataLoader(data, batch_size=32, sampler=shoal.torch.DistributedSampler(data))

Gradients leave while backward still runs; whoever reads ``p.grad`` (an optimizer, a clipper, a scaler) waits for it.
"""

from ._version import check as _check

_check()

from . import backend as _backend  # noqa: E402, F401  torch.distributed knows "shoal" from here on
from ._ddp import DistributedDataParallel  # noqa: E402  the version is checked before anything touches PyTorch
from ._distribute import distribute, no_sync  # noqa: E402
from ._sampler import DistributedSampler  # noqa: E402
from ._start import broadcast_object, broadcast_optimizer_state, broadcast_state  # noqa: E402
from ._weight import set_weight  # noqa: E402

__all__ = [
    "DistributedDataParallel",
    "DistributedSampler",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_state",
    "distribute",
    "no_sync",
    "set_weight",
]
