"""TensorFlow, data-parallel: wrap the optimizer, or the gradient tape, and give every worker its part of the data.

Scripts of TensorFlow 1 need none of this: see the guide. Everything here is for TensorFlow 2.
"""

import importlib as _importlib

from ._versions import require as _require

_require()

_PLACES = {
    "BroadcastCallback": "_keras",
    "DistributedGradientTape": "_tape",
    "DistributedOptimizer": "_keras",
    "MetricAverageCallback": "_keras",
    "broadcast_variables": "_variables",
    "shard": "_data",
}
__all__ = list(_PLACES)


def __getattr__(name):
    # Late, because Keras takes seconds to load, and scripts of version 1 do without it.
    if name in _PLACES:
        return getattr(_importlib.import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
