"""What the PyTorch front end must get right, as functions that every worker of a gang runs (see test_torch.py).

Starting PyTorch takes seconds, so one gang runs many checks, each with models of its own. A check that fails ends it.
"""

import json
import traceback

import torch

import shoal
from shoal.torch import _bundle
from shoal.torch._wire import staging_forced

# Each adds its own to the list.
from . import gradients, graphs, membership, order, running_statistics, surroundings, types, weights  # noqa: F401
from .tools import checks


def main():
    torch.set_num_threads(1)
    shoal.init()
    if staging_forced():
        _bundle.SMALL = 0  # so that each tensor goes by itself, too
    for name, function in checks.items():
        try:
            function()
        except BaseException:
            print(json.dumps({name: traceback.format_exc()}), flush=True)
            raise
        print(json.dumps({name: "ok"}), flush=True)
