"""The module a script of version 1 sees as `tensorflow`: compat.v1, Poseidon's ConfigProto, and old names."""

import os
import sys
import types

from tensorflow.python.util import deprecation

from .config import ConfigProto

# Names of the time of TensorFlow 0.x that version 1 still meant, under another name.
_RENAMED = {
    "mul": "multiply",
    "sub": "subtract",
    "neg": "negative",
    "pack": "stack",
    "unpack": "unstack",
    "select": "where",
    "batch_matmul": "matmul",
    "complex_abs": "abs",
    "scalar_summary": "summary.scalar",
    "histogram_summary": "summary.histogram",
    "merge_summary": "summary.merge",
    "merge_all_summaries": "summary.merge_all",
    "train.SummaryWriter": "summary.FileWriter",
}
# What took the place of the parts of tf.contrib that scripts used most.
_AFTER_CONTRIB = {
    "layers": "tf.nn and tf.get_variable; tf.glorot_uniform_initializer for xavier_initializer",
    "slim": "the package tf_slim",
    "rnn": "tf.nn.rnn_cell",
    "framework": "tf.train.get_or_create_global_step and the like",
    "learn": "tf.train.MonitoredTrainingSession",
    "data": "tf.data",
    "opt": "the optimizers of tf.train",
    "estimator": "tf.train.MonitoredTrainingSession",
}

mentions_sfb = False


def make(real):
    """Switches version 2's behaviour off, for the whole process, and returns the view."""
    v1 = real.compat.v1
    with deprecation.silence():
        v1.disable_v2_behavior()
    shown = _View(real.__name__, [v1, real], {"ConfigProto": ConfigProto, "contrib": _Contrib("tf.contrib")})
    shown.__dict__["compat"] = _View("tensorflow.compat", [real.compat], {"v1": shown})
    shown.__dict__["train"] = _View(
        "tensorflow.train", [v1.train], {"SummaryWriter": v1.summary.FileWriter}
    )
    for old, new in _RENAMED.items():
        if "." not in old:
            shown.__dict__[old] = _resolve(v1, new)
    return shown


def noticed(text):
    """The source of a module that is about to use the view."""
    global mentions_sfb
    import _shoal_tensorflow_era

    mentions_sfb = mentions_sfb or _shoal_tensorflow_era.mentions(text, "use_sfb")


def may_use_sfb():
    """Whether anybody could ask for factors: else graphs need not be ready for them."""
    return mentions_sfb or "SHOAL_USE_SFB" in os.environ


def gone(name):
    """The error for a part of TensorFlow 1 that TensorFlow 2 has not taken along."""
    part = name.partition("contrib")[2].strip(".").partition(".")[0]
    instead = _AFTER_CONTRIB.get(part)
    hint = f"use {instead}" if instead else "look for its successor in the list of TensorFlow's migration guide"
    text = f"{name} ended with TensorFlow 1, and this is TensorFlow {_version()}; {hint}"
    return ModuleNotFoundError(text, name=name)


def _version():
    return getattr(sys.modules.get("tensorflow"), "__version__", "2")


def _resolve(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


class _View(types.ModuleType):
    """A module in front of others: first its own names, then theirs."""

    def __init__(self, name, behind, own):
        super().__init__(name)
        self.__dict__.update(own)
        self.__dict__["_behind"] = behind
        self.__dict__["__path__"] = getattr(behind[-1], "__path__", [])
        self.__dict__["__file__"] = getattr(behind[-1], "__file__", None)

    def __getattr__(self, name):
        behind = self.__dict__.get("_behind", ())
        for module in behind:
            try:
                return getattr(module, name)
            except AttributeError as error:
                missing = error
        if not behind or name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in sys.modules:
            return sys.modules[f"{self.__name__}.{name}"]  # loaded, though no longer shown: tensorflow.python
        raise AttributeError(f"{missing}{_did_you_mean(name, self)}") from None

    def __setattr__(self, name, value):
        # A submodule that is imported while the view stands in for the real module belongs to that one.
        behind = self.__dict__.get("_behind", ())
        if behind and isinstance(value, types.ModuleType) and value.__name__ == f"{self.__name__}.{name}":
            setattr(behind[-1], name, value)
        else:
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*self.__dict__, *(name for module in self._behind for name in dir(module))})


def _did_you_mean(name, module):
    import difflib

    near = difflib.get_close_matches(name, dir(module), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


class _Contrib:
    """tf.contrib, of which only the memory is left."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(str(gone(f"{self._name}.{name}")))
