"""Peer: Open MPI by mpi4py. Modes for lists: Iallreduce for all tensors then Waitall; Allreduce tensor by tensor;
Allreduce of flattened buckets of 25 MB."""

from functools import cached_property

import numpy as np
from mpi4py import MPI

from common import flat_buckets, serve


class Plan:
    def __init__(self, arrays):
        self.arrays = arrays

    @cached_property
    def buckets(self):
        """Flat arrays, and pairs of their parts and the arrays that these are copied from and to."""
        buckets = []
        for bucket in flat_buckets(self.arrays):
            flat = np.zeros(sum(array.size for array in bucket), np.float32)
            ends = np.cumsum([array.size for array in bucket])[:-1]
            buckets.append((flat, list(zip(np.split(flat, ends), bucket))))
        return buckets


class Mpi:
    def __init__(self):
        self.world = MPI.COMM_WORLD
        self.rank, self.workers = self.world.rank, self.world.size

    def prepare(self, arrays, _size):
        return Plan(arrays)

    def run(self, plan, mode):
        if mode in ("plain", "one by one"):
            for array in plan.arrays:
                self.world.Allreduce(MPI.IN_PLACE, array)
        elif mode == "each":
            MPI.Request.Waitall([self.world.Iallreduce(MPI.IN_PLACE, array) for array in plan.arrays])
        elif mode == "buckets":
            for flat, parts in plan.buckets:
                for part, array in parts:
                    part[:] = array
                self.world.Allreduce(MPI.IN_PLACE, flat)
                for part, array in parts:
                    array[:] = part
        else:
            raise ValueError(f"MPI knows no mode {mode}")

    def bytes_sent(self):
        return 0  # Open MPI does not count.

    def close(self):
        MPI.Finalize()


serve(Mpi)
