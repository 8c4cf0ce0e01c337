"""Who gets which TensorFlow: modules written for version 1 the surface of that time, all others the real one."""

import builtins
import importlib
import sys

from . import sessions, view

_STEM = "tensorflow"


def install(real, written_for_v1, text_of):
    """Called once, when tensorflow has just been loaded for a script of version 1. Returns what that script shall see.

    ``written_for_v1`` says of a module, given by its globals, whether it is one; ``text_of`` gives its source.
    """
    shown = view.make(real)
    sessions.install()
    original = builtins.__import__
    asked = set()

    def import_(name, globals=None, locals=None, fromlist=(), level=0):
        if sys.modules.get(_STEM) is shown:
            sys.modules[_STEM] = real
        if level or not (name == _STEM or name.startswith("tensorflow.")):
            return original(name, globals, locals, fromlist, level)
        if globals is None or not written_for_v1(globals):
            return original(name, globals, locals, fromlist, level)
        if name.startswith("tensorflow.contrib"):
            raise view.gone(name)
        if id(globals) not in asked:
            asked.add(id(globals))
            view.noticed(text_of(globals))
        found = original(name, globals, locals, fromlist, level)
        if not fromlist or name in (_STEM, "tensorflow.compat.v1"):
            return shown  # of `import a.b.c as d`, the rest follows by attributes
        return shown.compat if name == "tensorflow.compat" else found

    # The text of the modules at hand is read now: their import statement has passed the function above.
    for globals_ in _modules_at_hand():
        if written_for_v1(globals_):
            text = text_of(globals_)
            view.noticed(text)
            if "tensorflow.compat" in text:
                # The statement under way may be `import tensorflow.compat.v1 as tf`: if nothing is left to be loaded,
                # nothing puts the real module back before that statement has picked up the view.
                importlib.import_module("tensorflow.compat.v1")
    builtins.__import__ = import_
    return shown


def _modules_at_hand():
    for module in list(sys.modules.values()):
        globals_ = getattr(module, "__dict__", None)
        if globals_ is not None and str(globals_.get("__name__")).partition(".")[0] not in _KNOWN:
            yield globals_


# Not worth a look.
_KNOWN = frozenset(sys.builtin_module_names) | {_STEM, "keras", "numpy", "google", "shoal"}
