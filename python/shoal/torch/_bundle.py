"""Small gradients travel together: a message for each of a hundred biases would cost more than their bytes.

Who is in which bundle follows from the model's order, from the plan, and from what all workers told each other in the round
before, so it is the same on every worker. A bundle leaves when the last of its gradients has come, or when the round closes.
"""

import numpy as np
import torch

from .. import _api
from ._parameter import raw_grad, set_raw_grad

#: In numbers of 4 bytes: what counts as small, and how much goes into one bundle.
SMALL, FULL = 8 * 1024, 32 * 1024


class Bundle:
    def __init__(self, slots, prefix):
        self.slots = slots
        sizes = [slot.parameter.numel() for slot in slots]
        self._packed = np.zeros(sum(sizes), dtype=np.float32)
        self._tensor, at = torch.from_numpy(self._packed), np.cumsum([0, *sizes])
        shapes = [slot.parameter.shape for slot in slots]
        self._parts = [self._tensor[at[i] : at[i + 1]].view(shape) for i, shape in enumerate(shapes)]
        self._zeros = [torch.zeros(size) for size in sizes]
        self._key = f"{prefix}{slots[0].name} and {len(slots) - 1} more, {sum(sizes)} numbers"
        self._handle, self._missing = None, 0
        for slot in slots:
            slot.bundle = self

    def begin(self):
        """A new round; the last one's results have been taken."""
        self._missing = sum(slot.joined for slot in self.slots)

    def add(self):
        """One more of those that take part has come; the last to come sends all."""
        self._missing -= 1
        if self._missing == 0:
            self._push()

    @property
    def has_left(self):
        return self._handle is not None

    @torch.no_grad()
    def _push(self):
        # All at once: a hundred small copies take longer than they should.
        flat = [
            raw_grad(slot.parameter).reshape(-1).to("cpu") if slot.bundled and slot.had else zeros
            for slot, zeros in zip(self.slots, self._zeros)
        ]
        torch.cat(flat, out=self._tensor)
        priority = min(slot.priority for slot in self.slots)
        self._handle = _api.push_pull_async(self._packed, name=self._key, weight=self.slots[0].reducer.weight, priority=priority)

    @torch.no_grad()
    def finish(self):
        """Waits, and gives everyone in it theirs. Before it has left there is nothing to wait for."""
        if self._handle is None:
            return
        self._handle.wait()
        came = [(slot, part) for slot, part in zip(self.slots, self._parts) if slot.bundled]
        for slot, part in came:
            if not slot.had and slot.reducer.anyone_had(slot):
                set_raw_grad(slot.parameter, part.to(slot.parameter.device, copy=True))
        with_gradient = [(raw_grad(slot.parameter), part) for slot, part in came if slot.had]
        if with_gradient:
            torch._foreach_copy_([gradient for gradient, _ in with_gradient], [part for _, part in with_gradient])
        for slot, _ in came:
            slot.bundled = slot.unsynced = False
        self._handle = None


def is_small(parameter):
    return parameter.dtype == torch.float32 and 0 < parameter.numel() <= SMALL


def may_be_bundled(slot):
    """Asked before each round: shapes and plans may have changed. Nothing here may be this worker's alone."""
    return is_small(slot.parameter) and (slot.pair is None or not slot.pair.chosen)


def bundle_up(slots, prefix):
    """Bundles of neighbours; a small one without neighbours stays by itself."""
    groups, size = [[]], 0
    for slot in slots:
        if size + slot.parameter.numel() > FULL:
            groups.append([])
            size = 0
        groups[-1].append(slot)
        size += slot.parameter.numel()
    return [Bundle(group, prefix) for group in groups if len(group) > 1]
