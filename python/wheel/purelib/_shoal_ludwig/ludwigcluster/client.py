"""``from ludwigcluster.client import Client``"""

from shoal.client import Client

__all__ = ["Client"]
