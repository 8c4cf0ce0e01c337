"""``from ludwig.requests import gen_all_param2vals``"""

from shoal.ludwig.requests import gen_all_param2vals

__all__ = ["gen_all_param2vals"]
