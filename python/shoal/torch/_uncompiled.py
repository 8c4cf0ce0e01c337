"""How does ``torch.compile`` leave a class's methods, and all that they call, as they are?

With DDP compiled, its C++ calls the process group while the compiler watches every Python frame; what a collective does is
nothing to compile. ``torch.compiler.disable`` says the same, but imports the whole compiler.
"""

import types

try:
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
except ImportError:  # a PyTorch with other names for it
    set_code_exec_strategy = None


def never_compiled(cls):
    if set_code_exec_strategy is not None:
        leave = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
        for method in vars(cls).values():
            if isinstance(method, types.FunctionType):
                set_code_exec_strategy(method.__code__, leave)
    return cls
