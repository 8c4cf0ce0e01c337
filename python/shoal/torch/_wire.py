"""How does a tensor become an array that the engine can work on, and its result the tensor again?

Most lie where the engine can reach them, and nothing is copied. The rest goes through a buffer in host memory: tensors
on devices (pinned memory), odd memory layouts, types that the engine does not know.
"""

import os

import numpy as np
import torch

try:
    import ml_dtypes
except ImportError:  # then bfloat16 travels as float32
    ml_dtypes = None

_NATIVE = (torch.float32, torch.float64, torch.float16)


def staging_forced():
    """For tests: the way of tensors on devices, taken by those in host memory too."""
    return os.environ.get("SHOAL_TORCH_STAGING") == "1"


class Wire:
    """The way of one tensor; its buffer, if it needs one, is kept from step to step."""

    def __init__(self):
        self._host = None
        self._tensor = None

    def array(self, tensor):
        """The tensor's values as an array the engine may write to. ``land()`` brings the result back."""
        tensor = _real(tensor.detach())
        self._tensor = None
        if not staging_forced() and _reachable(tensor):
            return _as_array(tensor)
        self._tensor = tensor
        if self._host is None or self._host.shape != tensor.shape or self._host.dtype != _carrier(tensor.dtype):
            on_device = tensor.device.type != "cpu"
            self._host = torch.empty(tensor.shape, dtype=_carrier(tensor.dtype), device="cpu", pin_memory=on_device)
        # Blocking on purpose: the engine must not send what the device has not yet computed.
        self._host.copy_(tensor)
        return _as_array(self._host)

    def land(self):
        """Call when the engine is done with the array."""
        tensor, self._tensor = self._tensor, None
        if tensor is not None:
            tensor.copy_(self._host)


def _real(tensor):
    if not tensor.is_complex():
        return tensor
    if tensor.is_conj():
        raise ValueError("a conjugated view cannot be exchanged; use tensor.resolve_conj()")
    return torch.view_as_real(tensor)


def _carrier(dtype):
    """The type that travels. float32 holds every value of the narrow types; their sums are made in float32 anyway."""
    if dtype in _NATIVE or (dtype == torch.bfloat16 and ml_dtypes is not None):
        return dtype
    return torch.float32


def _reachable(tensor):
    plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_neg()
    return plain and tensor.is_contiguous() and _carrier(tensor.dtype) == tensor.dtype


def _as_array(tensor):
    if tensor.dim() == 0:
        tensor = tensor.view(1)
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def as_bytes(tensor):
    """A copy of any tensor's bytes as float32 words, for operations that only move them, and never add."""
    raw = np.frombuffer(_contiguous_bytes(tensor), dtype=np.uint8)
    words = np.zeros((len(raw) + 3) // 4 * 4, dtype=np.uint8)
    words[: len(raw)] = raw
    return words.view(np.float32)


def from_bytes(words, tensor):
    """Writes what ``as_bytes`` of an equal tensor made into this one."""
    size = tensor.numel() * tensor.element_size()
    flat = torch.from_numpy(words.view(np.uint8)[:size].copy())
    tensor.detach().copy_(flat.view(tensor.dtype).view(tensor.shape))


def _contiguous_bytes(tensor):
    host = tensor.detach().to("cpu").contiguous().reshape(-1)
    return host.view(torch.uint8).numpy().tobytes()
