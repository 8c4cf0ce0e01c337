"""Small gradients travel together: a message for each of a hundred biases would cost more than their bytes.

Who is in which bundle follows from the model's order and from the plan, so it is the same on every worker. A bundle
leaves when the last of its gradients has come, or when the round closes.
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
        self._handle, self._expected, self._arrived = None, 0, 0
        for slot in slots:
            slot.bundle = self

    def begin(self):
        """A new round; the last one's results have been taken."""
        self._expected, self._arrived = sum(slot.takes_part for slot in self.slots), 0

    def add(self):
        """One more has come; the last to come sends all."""
        self._arrived += 1
        if self._arrived >= self._expected:
            self._push()

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


def may_be_bundled(slot):
    """Asked before each round: shapes, plans and hooks may have changed."""
    parameter = slot.parameter
    if parameter.dtype != torch.float32 or not 0 < parameter.numel() <= SMALL:
        return False
    if slot.pair is not None and slot.pair.chosen:
        return False
    # A hook that looks at the gradient in the middle of backward wants it then.
    return len(getattr(parameter, "_post_accumulate_grad_hooks", None) or ()) <= 1


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
