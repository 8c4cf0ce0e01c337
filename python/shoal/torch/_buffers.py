"""Buffers that a model changes as it trains, BatchNorm's aside: codebooks, averages, counters. They become the root's.

A mean of them need not make sense, so it is one worker's that all take, as PyTorch's DDP has it; but only of those that
somebody's model was seen to change, because most (masks, tables) never do and are large. Who changed which travels with
every round's states, so all workers know it alike.
"""

import logging
import zlib

import numpy as np
import torch

from .. import _api

log = logging.getLogger("shoal")

#: What a worker tells of a buffer that is not of its first shape and type any more: nobody follows it from then on.
_OTHER = 1 << 12
_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Buffers:
    """``found`` are modules with the names of their buffers there, the same on every worker."""

    def __init__(self, found, prefix):
        self._found, self._prefix = [each for each in found if _may_travel(_of(*each))], prefix
        self._forms = [_form(_of(*each)) for each in self._found]
        self._seen = [_Seen(_of(*each)) for each in self._found]
        self._followed, self._under_way, self._told = [], [], False

    def __len__(self):
        return len(self._found)

    def forget(self):
        """Somebody comes in who does not know which are followed: all find out again."""
        self._followed = []

    def changes(self, round):
        """For each buffer whether it is another than at the start."""
        # What changes it behind autograd's back (`.data`) shows in the bytes alone, which are looked at less and less often.
        closely = round & (round - 1) == 0
        told = np.zeros(len(self._found))
        for index, each in enumerate(self._found):
            buffer = _of(*each)
            if _form(buffer) != self._forms[index]:
                told[index] = _OTHER
            elif index in self._followed or self._seen[index].changed(buffer, closely):
                told[index] = 1
        return told

    def push(self):
        """At the end of a round: those that are followed already."""
        if self._followed:
            self._send(self._followed)

    def learn(self, told):
        """What all workers together told of this round."""
        gone = {index for index in self._followed if told[index] >= _OTHER}
        new = [index for index in range(len(self._found)) if 0 < told[index] < _OTHER and index not in self._followed]
        self._under_way = [(set(which) - gone, *rest) for which, *rest in self._under_way]
        self._followed = sorted({*self._followed, *new} - gone)
        if new:
            self._send(new)
            if not self._told:
                self._told = True
                names = ", ".join(self._found[index][1] for index in new[:3])
                log.info(
                    "%s: buffers that change in training become worker %d's with every step: %s%s; "
                    "average_running_statistics=False leaves them to each worker",
                    self._prefix.rstrip("."), _api.root(), names, f" and {len(new) - 3} more" if len(new) > 3 else "",
                )  # fmt: skip

    @torch.no_grad()
    def _send(self, which):
        for narrow in (True, False):
            chosen = [index for index in which if (self._forms[index][1] in _NARROW) == narrow]
            if not chosen:
                continue
            kind = np.float32 if narrow else np.float64  # which has all whole numbers up to 2**53
            packed = np.zeros(1 + sum(self._size(index) for index in chosen), kind)
            root, at = _api.rank() == _api.root(), 1
            whole = all(_form(_of(*self._found[index])) == self._forms[index] for index in chosen)
            packed[0] = root and whole  # 1 afterwards, unless the root has finished, or has no such buffers any more
            for index in chosen:
                buffer, size = _of(*self._found[index]), self._size(index)
                if root and whole:
                    packed[at : at + size] = buffer.detach().reshape(-1).to("cpu", torch.from_numpy(packed).dtype).numpy()
                at += size
            name = f"{self._prefix}buffers {zlib.crc32(np.array(chosen).tobytes())}, {packed.size} numbers"
            # A mean in which the root alone counts: unlike a broadcast, it ends also where the root has finished.
            handle = _api.push_pull_async(packed, name=name, weight=float(root))
            self._under_way.append((chosen, list(chosen), packed, handle))

    def _size(self, index):
        return int(np.prod(self._forms[index][0], dtype=np.int64))

    @torch.no_grad()
    def finish(self, write=True):
        under_way, self._under_way = self._under_way, []
        for wanted, chosen, packed, handle in under_way:
            handle.wait()
            at = 1
            for index in chosen:
                size, buffer = self._size(index), _of(*self._found[index])
                if write and packed[0] == 1 and index in wanted and _form(buffer) == self._forms[index]:
                    # By `data`: see RunningStatistics.
                    buffer.data.copy_(torch.from_numpy(packed[at : at + size]).view(buffer.shape))
                at += size


class _Seen:
    """A buffer as it was at the start."""

    def __init__(self, buffer):
        self._digest, self._object, self._version = _digest(buffer), buffer, buffer._version

    def changed(self, buffer, closely):
        if buffer is self._object and buffer._version == self._version and not closely:
            return False
        self._object, self._version = buffer, buffer._version
        return _digest(buffer) != self._digest


def _digest(buffer):
    return zlib.crc32(buffer.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy())


def _of(module, name):
    return module._buffers.get(name)


def _form(buffer):
    return None if buffer is None else (tuple(buffer.shape), buffer.dtype, buffer.layout)


def _may_travel(buffer):
    # Of what `expand` made, only a copy can be written to.
    plain = buffer is not None and buffer.layout == torch.strided and 0 < buffer.numel() and not buffer.is_quantized
    return plain and not buffer.is_complex() and all(buffer.stride(d) or buffer.shape[d] == 1 for d in range(buffer.dim()))


def other_buffers(model):
    """Modules with the names of buffers that are not running statistics."""
    found, seen = [], set()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            continue
        for name, buffer in module._buffers.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                found.append((module, name))
    return found
