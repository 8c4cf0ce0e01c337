"""Everyone starts from the same values: parameters, buffers, optimizer state and objects, from one worker to all."""

import pickle

import numpy as np
import torch

from .. import _api
from ._wire import Wire, as_bytes, from_bytes


def ensure_started():
    """Joins the run if the script has not; a script that nobody launched trains alone, as it would without Shoal."""
    if _api.is_initialized():
        return
    _api.init()


def broadcast_state(tensors, root=None, prefix="state."):
    """Overwrites tensors with those of the root (``shoal.root()`` unless told): a module's, a dict's, or named ones."""
    root = _api.root() if root is None else root
    under_way = []
    for name, tensor in _named(tensors):
        if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
            continue
        wire, exact = Wire(), tensor.is_floating_point() or tensor.is_complex()
        array = wire.array(tensor) if exact else as_bytes(tensor)
        handle = _api.broadcast_async(array, root, f"{prefix}{name}")
        under_way.append((tensor, wire, array if not exact else None, handle))
    for tensor, wire, words, handle in under_way:
        handle.wait()
        with torch.no_grad():
            wire.land() if words is None else from_bytes(words, tensor)


def _named(tensors):
    if isinstance(tensors, torch.nn.Module):
        yield from tensors.named_parameters()
        yield from tensors.named_buffers()
    elif isinstance(tensors, dict):
        yield from tensors.items()
    else:
        yield from tensors


def broadcast_object(value=None, root=None, name="object"):
    """The root's value, on all workers. It travels as a pickle, between the processes of one run."""
    root = _api.root() if root is None else root
    data = pickle.dumps(value) if _api.rank() == root else b""
    length = _api.broadcast(np.array([len(data)], dtype=np.float64), root, f"{name} length")
    words = np.zeros((int(length[0]) + 3) // 4 * 4, dtype=np.uint8)
    words[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    if len(words):
        _api.broadcast(words.view(np.float32), root, f"{name} of {len(words)} bytes")
    return pickle.loads(words[: int(length[0])].tobytes())


def broadcast_optimizer_state(optimizer, root=None, name="optimizer"):
    """Gives the root's optimizer state to all, after a checkpoint was loaded there or somebody joined."""
    root = _api.root() if root is None else root
    state = broadcast_object(optimizer.state_dict() if _api.rank() == root else None, root, name)
    if _api.rank() != root:
        optimizer.load_state_dict(state)
