"""What becomes of a leaf's gradient in the backward that runs now?"""

import torch

NOT_WANTED, ACCUMULATED, ASKED_FOR = range(3)


def accumulator_of(parameter):
    """The node that adds to the parameter's gradient. Not to be kept: it would keep the parameter."""
    with torch.enable_grad():
        return parameter.view_as(parameter).grad_fn.next_functions[0][0]


def how_wanted(node):
    """Nothing, added to ``grad``, or given to a caller of ``torch.autograd.grad()``."""
    if node is None:
        return NOT_WANTED
    try:
        return ACCUMULATED if torch._C._will_engine_execute_node(node) else NOT_WANTED
    except RuntimeError:  # how PyTorch says that torch.autograd.grad() was asked for just this leaf
        return ASKED_FOR
