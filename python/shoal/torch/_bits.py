"""A torch tensor's memory as the engine takes it: a NumPy array over the same bytes where that is possible, a staged copy else.

Device-neutral: tensors that do not lie in the host's memory are staged through it (pinned where the device profits from it).
"""

import numpy as np
import torch

#: What the engine sums by itself, and how each type is shown to it.
SUMMED = {torch.float32: None, torch.float64: None, torch.float16: "float16", torch.bfloat16: "bfloat16"}


class Staged:
    """``host``: a contiguous tensor in the host's memory with the values of ``tensor``; ``bring_back`` puts its values into it."""

    def __init__(self, tensor, copy=False):
        tensor = tensor.detach()
        self.tensor = tensor
        if tensor.is_sparse:
            raise TypeError("sparse tensors cannot travel; use tensor.to_dense()")
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        near = tensor.device.type == "cpu" and tensor.is_contiguous()
        if near and not copy:
            self.host = tensor
        else:
            pinned = tensor.device.type == "cuda"
            self.host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
            self.host.copy_(tensor)

    def bring_back(self):
        target = torch.view_as_real(self.tensor) if self.tensor.is_complex() else self.tensor
        if target.data_ptr() != self.host.data_ptr():
            target.copy_(self.host)


def summable(host):
    """The array that ``push_pull`` takes for a host tensor of a type in ``SUMMED``, and its ``dtype`` argument."""
    meant = SUMMED[host.dtype]
    flat = host.reshape(-1)
    if meant is None:
        return flat.numpy(), None
    return flat.view(torch.int16).numpy().view(np.uint16), meant


def copyable(host):
    """An array over the same bytes that any copy takes, and its ``dtype`` argument; None if their number is odd.

    Copies move bytes and never look at them, so the widest type that divides them will do.
    """
    return _as_words(host.reshape(-1).view(torch.uint8).numpy())


def _as_words(octets):
    size, at = octets.size, octets.ctypes.data
    if size % 4 == 0 and at % 4 == 0:
        return octets.view(np.float32), None
    if size % 2 == 0 and at % 2 == 0:
        return octets.view(np.uint16), "bfloat16"
    return None


class Rows:
    """A place for a row of ``like``'s bytes from each of ``count`` members, each of an even number of bytes."""

    def __init__(self, like, count):
        self.size = like.numel() * like.element_size()
        self.dtype, self.shape = like.dtype, like.shape
        self.octets = np.zeros((count, self.size + (-self.size) % 4), dtype=np.uint8)

    def fill(self, place, host):
        self.octets[place, : self.size] = host.reshape(-1).view(torch.uint8).numpy()

    def array(self):
        return self.octets.view(np.float32)

    def row(self, place):
        """The tensor of one member."""
        octets = torch.from_numpy(self.octets[place, : self.size].copy())
        return octets.view(self.dtype).reshape(self.shape)

    def stack(self):
        """All of them, along a new first dimension."""
        return torch.stack([self.row(place) for place in range(len(self.octets))])
