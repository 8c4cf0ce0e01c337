"""LudwigCluster's names, on Shoal's queue."""
