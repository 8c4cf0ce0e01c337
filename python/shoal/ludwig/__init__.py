"""Ludwig's second form: a project with ``params.py`` and ``job.py``, run by ``shoal ludwig``; see `python -m shoal.ludwig --help`.

from shoal.ludwig import gen_param_paths       # or: from ludwig.results import gen_param_paths
"""

from .requests import gen_all_param2vals
from .results import gen_param_paths

__all__ = ["gen_all_param2vals", "gen_param_paths"]
