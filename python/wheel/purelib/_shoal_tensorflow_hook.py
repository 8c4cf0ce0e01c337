"""Scripts written for TensorFlow 1 (and so for Poseidon) run as they are: their `import tensorflow` gives the surface
that they were written for. `shoal.pth` imports this file when Python starts, so it is small, and does next to nothing
until somebody imports tensorflow; then the files beside it decide.

SHOAL_TENSORFLOW=off switches it off; SHOAL_TENSORFLOW=v1 takes every module outside site-packages for TensorFlow 1.
"""

import os
import sys


class Finder:
    """Stands in front of the usual finders, for the one name `tensorflow`, and steps aside after its first import."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        # What goes wrong in here must never keep anybody from importing tensorflow.
        try:
            import _shoal_tensorflow_import

            return _shoal_tensorflow_import.spec(sys._getframe(1))
        except Exception as error:
            sys.stderr.write(f"shoal: cannot tell whether this script is for TensorFlow 1: {error!r}\n")
            return None


if os.environ.get("SHOAL_TENSORFLOW") != "off" and not any(type(f).__name__ == "Finder" for f in sys.meta_path):
    sys.meta_path.insert(0, Finder())
