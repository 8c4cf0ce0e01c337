"""One parameter's gradient on its way: pushed whole, waited for when somebody needs it."""

import logging

import torch

from .. import _api
from ._bundle import is_small
from ._parameter import raw_grad, set_raw_grad
from ._lossy import Lossy
from ._wire import Wire

log = logging.getLogger("shoal")


def _holders(tensor):
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


try:
    _ALONE = _holders(torch.empty(1))
except (AttributeError, TypeError):  # a PyTorch that does not say; then nothing is taken for shared
    _holders, _ALONE = (lambda tensor: 0), 0


def nobody_else_holds(tensor):
    """Whether no other tensor shares this one's memory."""
    return _holders(tensor) <= _ALONE


class Slot:
    """What a reducer knows of one parameter."""

    def __init__(self, reducer, parameter, name, index):
        self.reducer, self.parameter, self.name, self.index = reducer, parameter, name, index
        self.key = f"{reducer.prefix}{name}"
        self.priority = min(index, 65535)
        self.pair = None  # the linear layer it belongs to, if its gradient may travel as factors
        self.bundle, self.bundled = None, False  # the small ones it travels with, and whether it does now
        self.joined = False  # whether it takes part in this round, as it was when the round began
        self.round = 0  # the last round it took part in
        self.had = False  # whether this worker had a gradient to give in that round
        self.dropped = self.told_dropped = False  # whether its gradient was None at a step that had one; and as told to all
        self.hooked = False
        self.nothing_added = False  # whether the backward that runs had no gradient for it, but factors
        self.unsynced = False  # whether the gradient holds something the others have not seen
        self._wire, self._handle, self._zeros = Wire(), None, None
        self._lossy = None if reducer.compress is None else Lossy(reducer.compress, self.key, self.priority)
        self.said = None  # how it travels, as it was last said in the log
        self._form, self._told_sparse = self._shape(parameter), False

    @staticmethod
    def _shape(tensor):
        return tuple(tensor.shape), tensor.dtype

    @property
    def under_way(self):
        return self._handle is not None or self.bundled

    @property
    def on_its_way(self):
        """Whether a wait for it would take time."""
        if self.pair is not None and self.pair.under_way:
            return not self.pair.is_there
        return self._handle is not None and not self._handle.done()

    @property
    def has_more_to_say(self):
        return self._handle is not None and self._handle is self._lossy and not self._lossy.advanced

    def advance(self):
        """Some lossy schemes speak twice: waits for the first answer and sends the second message."""
        if self.has_more_to_say:
            self._lossy.advance()

    @property
    def takes_part(self):
        return self.parameter.requires_grad and self.parameter.numel() > 0

    @property
    def watched(self):
        """Whether a hook of the script wants to see its gradient in the middle of backward."""
        return len(getattr(self.parameter, "_post_accumulate_grad_hooks", None) or ()) > self.hooked

    def before_reading(self):
        self.reducer.before_reading(self)

    def was_set(self, value):
        """The script put a gradient of its own there."""
        self.unsynced = value is not None

    def push(self):
        """Sends what lies in ``grad``, or zeros where this worker has nothing: then no other waits for ever."""
        grad = raw_grad(self.parameter)
        self.had, self._zeros = grad is not None, None
        if self.bundle is not None and self.joined:
            self.bundled = True
            if grad is not None:
                self._own(grad)
            self.bundle.add()
            return
        if grad is None:
            self._zeros = grad = torch.zeros_like(self.parameter, memory_format=torch.contiguous_format).detach()
        else:
            grad = self._own(grad)
        array = self._wire.array(grad)
        if self._lossy is not None and self._lossy.takes(array) and not is_small(self.parameter):
            self._handle = self._lossy.start(array, self.reducer.weight)
            return
        self._handle = _api.push_pull_async(array, name=self._key(), weight=self.reducer.weight, priority=self.priority)

    def travels_as(self):
        """The scheme when it does not go as factors, and why, in words; None where there is nothing to say beyond the plan."""
        if self._lossy is None:
            return None
        if is_small(self.parameter):
            return "dense", "small, so it travels with others, as it is"
        if not self._lossy.takes(self.parameter):
            return "dense", "lossy schemes are for float32"
        if self._lossy.scheme == "dense":
            return "dense", f"{self.reducer.compress} would send no fewer bytes"
        return self._lossy.scheme, f"asked for by compress={self.reducer.compress!r}"

    def _own(self, grad):
        """The gradient in a form that may be overwritten in place."""
        if grad.layout != torch.strided:
            if not self._told_sparse:
                self._told_sparse = True
                log.warning("%s: its gradient is sparse; it is made dense, and travels whole", self.key)
            grad = grad.to_dense()
        elif grad.requires_grad or not nobody_else_holds(grad) or grad.is_conj():
            # Something else reads this memory: a graph made with create_graph=True, a retained gradient, another view.
            grad = grad.detach().resolve_conj().clone()
        else:
            return grad
        set_raw_grad(self.parameter, grad)
        return grad

    def _key(self):
        """A parameter that got another shape or type is another tensor to the engine."""
        form = self._shape(self.parameter)
        if form == self._form:
            return self.key
        return f"{self.key}, now {list(form[0])} {str(form[1]).replace('torch.', '')}"

    def finish(self):
        """Waits. The handle stays until all went well, so that nobody ever reads half a result."""
        if self.bundled:
            self.bundle.finish()
        if self._handle is None:
            return
        self._handle.wait()
        self._wire.land()
        if self._zeros is not None and self.reducer.anyone_had(self):
            set_raw_grad(self.parameter, self._zeros)
        self._handle = self._zeros = None
        self.unsynced = False
