"""A wrapper of the shape that PyTorch's DistributedDataParallel has."""

import contextlib

import torch

from . import _distribute


class DistributedDataParallel(torch.nn.Module):
    """Wraps a model; use it as you would the model, and get at the model itself as ``.module``.

    Takes what PyTorch's takes. What Shoal has no use for (``device_ids``, ``bucket_cap_mb``, ``static_graph``,
    ``find_unused_parameters``, ...) is ignored: every gradient travels by itself, and unused parameters need no flag.
    ``broadcast_buffers=False`` leaves BatchNorm's running statistics to each worker; otherwise their mean is taken.
    """

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=True,
        *ignored,
        use_sfb="auto",
        compress=None,
        **also_ignored,
    ):
        super().__init__()
        for name in also_ignored:
            if name not in _KNOWN:
                raise TypeError(f"DistributedDataParallel() has no argument {name!r}")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"device_ids is {device_ids!r}; a worker drives one device, so start one for each")
        self.module = module
        self._hold(_distribute.synchronise(module, None, use_sfb, broadcast_buffers, compress))

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


_KNOWN = set(
    "process_group bucket_cap_mb find_unused_parameters check_reduction gradient_as_bucket_view static_graph "
    "delay_all_reduce_named_params param_to_hook_all_reduce mixed_precision device_mesh init_sync "
    "skip_all_reduce_unused_params".split()
)
