"""PyTorch: ours, DDP over Gloo, nobody (the compute alone), or one process with everybody's batch, as BENCH_SYNC says."""

import os

import torch
import torch.distributed as dist

from models import make
from serve import serve


class Trainer:
    """Trains without exchange: what the others add theirs to."""

    def __init__(self):
        torch.set_num_threads(1)
        self.rank, self.workers = int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_WORKERS"])
        self.model = self.optimizer = None

    def make(self, case):
        self.model, self.loss, self.batch = make(case)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.count = 0
        self.distribute()

    def distribute(self):
        pass

    def ready(self):
        """The batch of this step."""
        return self.batch(self.count % 16, self.rank)

    def step(self):
        x, y = self.ready()
        self.count += 1
        loss = self.loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def drop(self):
        self.model = self.optimizer = None

    def barrier(self):
        dist.barrier()

    def close(self):
        pass


class Meeting(Trainer):
    def __init__(self):
        super().__init__()
        where = os.environ["BENCH_RENDEZVOUS"]
        dist.init_process_group("gloo", init_method=where, rank=self.rank, world_size=self.workers)


class Ddp(Meeting):
    def distribute(self):
        bucket = float(os.environ.get("BENCH_BUCKET_MB", "25"))
        self.model = torch.nn.parallel.DistributedDataParallel(
            self.model, bucket_cap_mb=bucket, gradient_as_bucket_view=True, broadcast_buffers=False)


class Joined(Trainer):
    """One process that sees the batches of all workers, one after the other."""

    def step(self):
        losses = []
        self.optimizer.zero_grad()
        for rank in range(self.workers):
            x, y = self.batch(self.count % 16, rank)
            loss = self.loss(self.model(x), y) / self.workers
            loss.backward()
            losses.append(loss.detach())
        self.count += 1
        self.optimizer.step()
        return sum(losses)


class Shoal(Trainer):
    def __init__(self):
        super().__init__()
        import shoal
        import shoal.torch

        self.shoal = shoal
        shoal.init()

    def distribute(self):
        use = {"0": False, "1": True}.get(os.environ.get("BENCH_SFB"), "auto")
        self.model, self.optimizer = self.shoal.torch.distribute(self.model, self.optimizer, use_sfb=use)

    def barrier(self):
        self.shoal.barrier()

    def close(self):
        self.shoal.shutdown()


serve({"none": Meeting, "ddp": Ddp, "joined": Joined, "shoal": Shoal}[os.environ["BENCH_SYNC"]])
