"""How does ``torch.compile`` leave our functions, and all that they call, as they are?

With DDP compiled, its C++ calls the process group while the compiler watches every Python frame; with a whole training step
compiled, so do backward our hooks and the optimizer ours. What an exchange does is nothing to compile.
``torch.compiler.disable`` says the same, but imports the whole compiler.
"""

import types

try:
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
except ImportError:  # a PyTorch with other names for it
    set_code_exec_strategy = None


def never_compiled(what):
    """A function, a property, or all methods of a class. For ``@never_compiled``."""
    if isinstance(what, type):
        for method in vars(what).values():
            if isinstance(method, (types.FunctionType, property)):
                never_compiled(method)
    elif isinstance(what, property):
        for function in (what.fget, what.fset, what.fdel):
            if function is not None:
                never_compiled(function)
    elif set_code_exec_strategy is not None:
        # When it is called; and where a function that is compiled calls it.
        set_code_exec_strategy(what.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
        what._torchdynamo_disable = True
    return what
