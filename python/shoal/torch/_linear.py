"""A linear layer whose weight gradient need not be computed here: its factors travel instead.

The module's class becomes a subclass whose ``forward`` goes through a function of our own while there is something to
gain; otherwise it is PyTorch's. Copies and pickles of it are plain ``nn.Linear`` again.
"""

import copyreg

import torch
import torch.nn.functional as F
from torch import nn

from ._asked import ACCUMULATED, NOT_WANTED, how_wanted

_FIELD = "_shoal_pair"
_compiling = getattr(torch.compiler, "is_compiling", lambda: False)
_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


class FactoredLinear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_scripting():
            return F.linear(input, self.weight, self.bias)
        else:
            return _forward(self, input)

    def __reduce_ex__(self, protocol):
        state = {name: value for name, value in self.__dict__.items() if name != _FIELD}
        return copyreg._reconstructor, (nn.Linear, object, None), state


def _forward(module, input):
    if not _compiling() and not torch.jit.is_tracing():
        pair = module.__dict__.get(_FIELD)
        if pair is not None and pair.interested and _fits(module, pair, input):
            return _Linear.apply(input, module.weight, module.bias, pair)
    return F.linear(input, module.weight, module.bias)


FactoredLinear.__name__ = FactoredLinear.__qualname__ = "Linear"  # what `print(model)` shows


def adopt(module, pair):
    module.__class__ = FactoredLinear
    module.__dict__[_FIELD] = pair


def release(module):
    if isinstance(module, FactoredLinear):
        module.__dict__.pop(_FIELD, None)
        module.__class__ = nn.Linear


def eligible(module, uses, ours):
    """Whether a module's weight can have factors at all.

    ``uses`` counts the modules that hold each parameter, ``ours`` are the hooks of each kind that we put there.
    """
    if type(module) not in (nn.Linear, FactoredLinear) or torch.nn.utils.parametrize.is_parametrized(module):
        return False
    own = [module._parameters.get("weight"), module._parameters.get("bias")]
    if own[0] is None or "forward" in module.__dict__ or (own[1] is None and module.bias is not None):
        return False  # computed from something else (weight_norm, pruning), or replaced
    own = [p for p in own if p is not None]
    return all(uses[id(p)] == 1 and p.dtype == torch.float32 and p.requires_grad and not _hooked(p, ours) for p in own)


def _hooked(parameter, ours):
    """Hooks of the script want to see a gradient, so there must be one."""
    hooks = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return any(len(found or ()) > ours for found in hooks)


def _autocast(device):
    try:
        return torch.is_autocast_enabled(device.type)
    except (TypeError, RuntimeError):  # before 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


def _fits(module, pair, input):
    weight, bias = module.weight, module.bias
    return (
        torch.is_grad_enabled()
        and weight is pair.weight.parameter
        and (bias is None if pair.bias is None else bias is pair.bias.parameter)
        and weight.shape == (pair.outputs, pair.inputs)
        and weight.requires_grad
        and (bias is None or bias.requires_grad)
        and type(input) in (torch.Tensor, nn.Parameter)
        and input.dtype == weight.dtype == torch.float32
        and input.dim() > 0
        and input.numel() > 0
        and not _hooked(weight, 1)
        and (bias is None or not _hooked(bias, 1))
        and not _autocast(input.device)
        and not _transformed()
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, pair):
        ctx.save_for_backward(input, weight)
        ctx.pair = pair
        return F.linear(input, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        input, weight = ctx.saved_tensors
        pair = ctx.pair
        d_input = dy.matmul(weight) if ctx.needs_input_grad[0] else None
        nodes = [node for node, _ in ctx.next_functions]
        for_weight = how_wanted(nodes[1])
        for_bias = how_wanted(nodes[2]) if ctx.needs_input_grad[2] else None
        if for_weight == NOT_WANTED and for_bias in (None, NOT_WANTED):
            return d_input, None, None, None
        x, flat = input.reshape(-1, input.shape[-1]), dy.reshape(-1, dy.shape[-1])
        accumulated = for_weight == ACCUMULATED and for_bias in (None, ACCUMULATED)
        if accumulated and not torch.is_grad_enabled() and pair.take(x, flat):
            return d_input, None, None, None
        d_weight = flat.t().matmul(x) if for_weight != NOT_WANTED else None
        d_bias = flat.sum(0) if for_bias not in (None, NOT_WANTED) else None
        return d_input, d_weight, d_bias, None
