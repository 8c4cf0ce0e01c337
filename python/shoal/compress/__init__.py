"""Lossy ways for a gradient to travel, for those who ask for them: fewer bytes, and what was left out is sent later.

    wire = shoal.compress.make("powersgd:4", "layer1.weight", weight.shape)
    wire.start(gradient)          # at once
    wire.wait()                   # the array now holds (nearly) the mean over all workers

All work in place on float32 NumPy memory and give every worker the same bytes (GRAD-3). With error feedback, what a
step's message could not say is added to the next step's gradient, so nothing is lost for good.
"""

from ._bf16 import Bf16
from ._int8 import Int8
from ._powersgd import PowerSgd

__all__ = ["make"]


def make(scheme, name, shape, priority=0, error_feedback=True):
    """The wire for one tensor: ``"bf16"``, ``"int8"`` or ``"powersgd:RANK"``. All workers make the same calls.

    It has ``start(array, weight)``, ``advance()``, ``wait()``, ``done()``, ``bytes_sent`` (of one step, by a worker with a shard
    of its own), ``error_norm`` (how much waits to be sent) and ``scheme`` (``"dense"`` where compression has nothing to offer).
    """
    kind, argument = check(scheme)
    if kind == "powersgd":
        return PowerSgd(name, shape, priority, error_feedback, int(argument))
    return (Bf16 if kind == "bf16" else Int8)(name, shape, priority, error_feedback)


def check(scheme):
    """Its name and what stands behind the colon; an error where there is no such scheme."""
    kind, _, argument = str(scheme).partition(":")
    if kind == "powersgd":
        if not argument.isdigit() or int(argument) < 1:
            raise ValueError(f"scheme is {scheme!r}; expected a rank from 1, such as 'powersgd:4'")
        return kind, argument
    if kind in ("bf16", "int8") and not argument:
        return kind, argument
    raise ValueError(f"scheme is {scheme!r}; expected 'bf16', 'int8' or 'powersgd:RANK'")
