"""Reductions that the engine does not do itself, made by every member from everybody's rows.

Exact for integers, and in the order of ranks, so the same bytes everywhere (GRAD-3).
"""

import functools

import torch
from torch.distributed import ReduceOp

_BITWISE = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}


def named(op):
    """The plain kind of a reduction, whichever way torch hands it over."""
    for kind in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, *_BITWISE):
        if op == kind:
            return kind
    known = "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR"
    raise ValueError(f'reduction {getattr(op, "op", op)} is not supported by backend "shoal"; use {known}')


def reduced(stack, op):
    """``stack`` reduced along its first dimension, in its own type."""
    kind = named(op)
    if stack.dtype == torch.bool:
        return _reduced_bool(stack, kind)
    if kind in _BITWISE:
        if stack.dtype.is_floating_point:
            raise ValueError(f"a bitwise reduction of {stack.dtype} makes no sense")
        return functools.reduce(_BITWISE[kind], stack)
    if kind == ReduceOp.MIN:
        return stack.amin(0)
    if kind == ReduceOp.MAX:
        return stack.amax(0)
    if kind == ReduceOp.PRODUCT:
        return stack.prod(0).to(stack.dtype)
    total = stack.sum(0)
    if kind == ReduceOp.AVG:
        if not stack.dtype.is_floating_point:
            raise ValueError(f"a mean of {stack.dtype} is not whole; use SUM and divide")
        total = total / len(stack)
    return total.to(stack.dtype)


def _reduced_bool(stack, kind):
    if kind in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR):
        return stack.any(0)
    if kind in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.BAND):
        return stack.all(0)
    if kind == ReduceOp.BXOR:
        return functools.reduce(torch.bitwise_xor, stack)
    raise ValueError("a mean of truth values makes no sense")
