"""Who reads a gradient waits for it: parameters whose ``grad`` first brings home what is under way.

A parameter keeps being itself, the same object in every module and optimizer; only its class changes, to a subclass
with a ``grad`` of its own (PyTorch does the same when a lazy parameter gets its shape). So any optimizer,
``clip_grad_norm_``, a ``GradScaler`` or a ``print`` gets the finished gradient, in whatever order they ask, and nothing
need know of Shoal. What leaves the process (pickles, copies, state dicts) is plain again.
"""

import torch
import torch.optim.optimizer as _optimizer

from ._uncompiled import never_compiled

_FIELD = "_shoal"
_raw = torch.Tensor.grad
_classes = {}


def raw_grad(parameter):
    """The gradient as it lies there, without waiting."""
    return _raw.__get__(parameter)


def set_raw_grad(parameter, value):
    _raw.__set__(parameter, value)


def slot_of(parameter):
    """What exchanges this parameter's gradient, or None."""
    return getattr(parameter, "__dict__", {}).get(_FIELD)


@never_compiled
class _LazyGrad:
    """Mixed into a parameter's class, before it."""

    @property
    def grad(self):
        slot = self.__dict__.get(_FIELD)
        if slot is not None:
            slot.before_reading()
        return _raw.__get__(self)

    @grad.setter
    def grad(self, value):
        slot = self.__dict__.get(_FIELD)
        if slot is not None:
            slot.before_reading()
            slot.was_set(value)
        _raw.__set__(self, value)

    @grad.deleter
    def grad(self):
        self.grad = None

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            plain = _plain(type(self))
            memo[id(self)] = plain(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        # Pickled as what it was before; the reader needs no Shoal.
        ours, slot = type(self), self.__dict__.pop(_FIELD, None)
        self.__class__ = _plain(ours)
        try:
            return self.__reduce_ex__(protocol)
        finally:
            self.__class__ = ours
            if slot is not None:
                self.__dict__[_FIELD] = slot


def _plain(cls):
    return cls.__mro__[2]  # ours, _LazyGrad, what it was


def adopt(parameter, slot):
    """From now on, reading the parameter's gradient asks the slot first."""
    cls = type(parameter)
    if not issubclass(cls, _LazyGrad):
        if cls not in _classes:
            _classes[cls] = type(cls.__name__, (_LazyGrad, cls), {"__module__": cls.__module__})
            # Optimizers take their fast path on devices only for classes they know.
            known = getattr(_optimizer, "_foreach_supported_types", None)
            if isinstance(known, list) and cls in known:
                known.append(_classes[cls])
        parameter.__class__ = _classes[cls]
    parameter.__dict__[_FIELD] = slot


def release(parameter):
    """The opposite of ``adopt``."""
    parameter.__dict__.pop(_FIELD, None)
    if isinstance(parameter, _LazyGrad):
        parameter.__class__ = _plain(type(parameter))
