"""Projects of LudwigCluster and Ludwig run as they are: `from ludwigcluster.client import Client` and `from ludwig.results import
gen_param_paths` give Shoal's. `shoal.pth` imports this file when Python starts, so it does next to nothing.

It answers last: whoever has LudwigCluster, or the other package that is called ludwig, gets that one, and of it everything that it has.
SHOAL_LUDWIG=off switches it off.
"""

import os
import sys


class LudwigFinder:
    """Stands behind the usual finders, for names that they do not find."""

    NAMES = frozenset(("ludwigcluster", "ludwigcluster.client", "ludwig", "ludwig.results", "ludwig.requests"))

    def find_spec(self, name, path=None, target=None):
        if name not in self.NAMES:
            return None
        from importlib.machinery import PathFinder

        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_shoal_ludwig", *name.split(".")[:-1])
        return PathFinder.find_spec(name, [folder])


if os.environ.get("SHOAL_LUDWIG") != "off" and not any(type(f).__name__ == "LudwigFinder" for f in sys.meta_path):
    sys.meta_path.append(LudwigFinder())
