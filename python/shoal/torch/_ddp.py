"""A wrapper of the shape that PyTorch's DistributedDataParallel has."""

import contextlib
import inspect

import torch
import torch.distributed as dist

from .. import _api
from . import _distribute
from ._start import ensure_started


class DistributedDataParallel(torch.nn.Module):
    """Wraps a model; use it as you would the model, and get at the model itself as ``.module``.

    Takes what PyTorch's takes, in the same order. What Shoal has no use for (``device_ids``, ``bucket_cap_mb``,
    ``static_graph``, ``find_unused_parameters``, ...) is ignored: gradients leave as soon as they are there, and unused
    parameters need no flag. What would change the result and cannot be had (``process_group`` of some of the workers,
    ``mixed_precision``, ``delay_all_reduce_named_params``, ``param_to_hook_all_reduce``) is refused.
    ``broadcast_buffers=False`` leaves buffers to each worker; otherwise BatchNorm's running statistics are averaged with each
    step, and other buffers that training changes become the root's.
    """

    def __init__(self, module, *args, use_sfb="auto", compress=None, **kwargs):
        super().__init__()
        given = _named(args, kwargs)
        devices = given.get("device_ids")
        if devices is not None and len(devices) > 1:
            raise ValueError(f"device_ids is {devices!r}; a worker drives one device, so start one for each")
        _refuse(given)
        buffers = given.get("broadcast_buffers") is not False
        self.module = module
        self._hold(_distribute.synchronise(module, None, use_sfb, buffers, compress))

    def _hold(self, reducer):
        # Not an attribute that copies and pickles would carry along.
        self.__dict__["_reducer"] = reducer

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Within it, backward adds to this worker's own gradients; the first backward after it sends the sum."""
        with _distribute.no_sync(self.module):
            yield

    def __getstate__(self):
        return {**self.__dict__, "_reducer": None}


#: What a release of PyTorch may take, whichever is installed.
_KNOWN = set(
    "device_ids output_device dim broadcast_buffers init_sync process_group bucket_cap_mb find_unused_parameters "
    "check_reduction gradient_as_bucket_view static_graph delay_all_reduce_named_params param_to_hook_all_reduce "
    "mixed_precision device_mesh skip_all_reduce_unused_params bucket_cap_mb_list batched_grad_copy "
    "forward_sync_buffers lazy_bucket_allocation".split()
)

#: What changes the result, and what to do instead.
_REFUSED = {
    "mixed_precision": "call the model within torch.autocast() for that, and send fewer bytes with compress='bf16'",
    "delay_all_reduce_named_params": "leave it out; a gradient leaves when it is there and is waited for when it is read",
    "param_to_hook_all_reduce": "leave it out; a gradient leaves when it is there and is waited for when it is read",
}


def _named(args, kwargs):
    """All arguments by name; those without one stand as in the PyTorch that is installed."""
    order = list(inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters)[2:]
    if len(args) > len(order):
        raise TypeError(f"DistributedDataParallel() takes at most {len(order) + 1} arguments, got {len(args) + 1}")
    given = dict(zip(order, args))
    for name, value in kwargs.items():
        if name not in _KNOWN and name not in order:
            raise TypeError(f"DistributedDataParallel() has no argument {name!r}")
        if name in given:
            raise TypeError(f"DistributedDataParallel() got {name!r} twice")
        given[name] = value
    return given


def _refuse(given):
    for name, instead in _REFUSED.items():
        if given.get(name) is not None:
            raise ValueError(f"DistributedDataParallel() cannot do what {name} asks for: {instead}")
    for name, size in (("process_group", dist.get_world_size), ("device_mesh", lambda mesh: mesh.size())):
        group = given.get(name)
        if group is None:
            continue
        ensure_started()
        if size(group) != _api.size():
            raise ValueError(
                f"{name} is not all of the {_api.size()} workers; gradients of a model here are averaged over all of them. "
                f"Leave {name} out, or use PyTorch's own wrapper with init_process_group('shoal'), which knows groups"
            )
