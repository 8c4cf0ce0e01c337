"""``from ludwig.results import gen_param_paths``"""

from shoal.ludwig.results import gen_param_paths

__all__ = ["gen_param_paths"]
