"""The first import of tensorflow in a process: is it for a script of TensorFlow 1, and what does that get?"""

import os
import sys
import sysconfig
import tokenize
from importlib.machinery import PathFinder

import _shoal_tensorflow_era


def spec(frame):
    """TensorFlow's own spec with our loader around its own, or None to leave all to the usual finders."""
    if not any(written_for_v1(module) for module in _importers(frame)):
        return None
    found = PathFinder.find_spec("tensorflow")
    if found is not None and found.loader is not None:
        found.loader = _Loader(found.loader)
    return found


class _Loader:
    """TensorFlow's own loader; when it has loaded, the import that asked for it gets the v1 surface."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        try:
            from shoal.tensorflow._v1 import importing
        except ImportError as error:
            sys.stderr.write(f"shoal: what a script of TensorFlow 1 needs does not load: {error}\n")
            return
        # The import under way returns what it finds in sys.modules, and the next one puts the real module back.
        sys.modules["tensorflow"] = importing.install(module, written_for_v1, text_of)


def _importers(frame):
    """The globals of the script, and of the module whose import statement this is."""
    found = [vars(sys.modules["__main__"])]
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is not None and frame.f_globals is not found[0]:
        found.append(frame.f_globals)
    return found


_known = {}


def written_for_v1(module):
    """Whether a module, given by its globals, uses what only TensorFlow 1 has."""
    key = module.get("__name__"), module.get("__file__")
    if key not in _known:
        if _is_installed(key[1]):
            _known[key] = False
        elif os.environ.get("SHOAL_TENSORFLOW") == "v1":
            _known[key] = True
        else:
            _known[key] = _asks(text_of(module))
    return _known[key]


def _is_installed(file):
    """Libraries know themselves which TensorFlow they want."""
    if file is None:
        return False
    file = os.path.abspath(file)
    return "site-packages" in file or "dist-packages" in file or file.startswith(sysconfig.get_path("stdlib") + os.sep)


def text_of(module):
    """The source of a module, given by its globals; empty if there is none to read."""
    file = module.get("__file__")
    if file and file.endswith((".py", ".pyw")):
        try:
            with tokenize.open(file) as source:
                return source.read()
        except (OSError, SyntaxError, UnicodeDecodeError):
            return ""
    arguments = getattr(sys, "orig_argv", [])
    if module.get("__name__") == "__main__" and file is None and "-c" in arguments:
        return arguments[arguments.index("-c") + 1]
    return ""


def _asks(text):
    return "tensorflow" in text and _shoal_tensorflow_era.is_v1(text)
