"""Ours. The only file of this bench that knows Shoal's Python API."""

import os

import shoal

from common import serve


class Shoal:
    def __init__(self):
        shoal.init()
        self.rank, self.workers = int(os.environ["SHOAL_CLIENT_ID"]), int(os.environ["SHOAL_NUM_WORKERS"])

    def prepare(self, arrays, size):
        return [(f"{size}/{number}", array) for number, array in enumerate(arrays)]

    def run(self, plan, mode):
        if mode == "plain":
            name, array = plan[0]
            shoal.push_pull(array, op="sum", name=name)
        elif mode == "each":
            for handle in [shoal.push_pull_async(array, op="sum", name=name) for name, array in plan]:
                handle.wait()
        else:
            raise ValueError(f"Shoal knows no mode {mode}")

    def bytes_sent(self):
        return shoal.stats()["bytes_sent"]

    def close(self):
        shoal.shutdown()


serve(Shoal)
