"""Everyone starts from the same values: parameters, buffers, optimizer state and objects, from one worker to all."""

import contextlib
import pickle

import numpy as np
import torch

from .. import _api
from ..errors import ShoalError, UsageError
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
        name = f"{prefix}{name}"
        with _blaming(name, tensor):
            if tensor.layout != torch.strided:  # a graph's neighbours, say: few, so as an object
                with torch.no_grad():
                    tensor.copy_(broadcast_object(tensor, root, name))
                continue
            tensor = _once(tensor)
            wire, exact = Wire(), tensor.is_floating_point() or tensor.is_complex()
            array = wire.array(tensor) if exact else as_bytes(tensor)
        under_way.append((name, tensor, wire, array if not exact else None, _api.broadcast_async(array, root, name)))
    for name, tensor, wire, words, handle in under_way:
        handle.wait()
        with torch.no_grad(), _blaming(name, tensor):
            wire.land() if words is None else from_bytes(words, tensor)


@contextlib.contextmanager
def _blaming(name, tensor):
    """PyTorch's errors do not say which tensor of a model they are about."""
    try:
        yield
    except ShoalError:
        raise
    except (RuntimeError, TypeError) as error:
        kind = f"{str(tensor.layout).removeprefix('torch.')}, {tensor.dtype}"
        raise UsageError(f"{name} ({kind}) cannot be given to the other workers: {str(error).splitlines()[0]}") from error


def _once(tensor):
    """Without the sides that ``expand`` made: all along them is the same memory, which can only be written to once."""
    for side in reversed(range(tensor.dim())):
        if tensor.stride(side) == 0 and tensor.shape[side] > 1:
            tensor = tensor.select(side, 0)
    return tensor


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
