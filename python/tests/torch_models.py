"""Four small networks, trained by many workers and by one process on the joined batch: the same parameters come out.

Run by test_torch.py in every worker of a gang; rank 0 tells how far it is from the single process, all tell a digest.
"""

import hashlib
import json

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch
from shoal.torch import _bundle

BATCH, WORDS, LENGTH = 4, 24, 5


def mlp():
    return nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))


def cnn():
    head = [nn.Flatten(), nn.Linear(8 * 9, 32), nn.ReLU(), nn.Linear(32, 10)]
    body = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.ReLU()]
    return nn.Sequential(*body, *head)


class Transformer(nn.Module):
    """One block; the output layer is the embedding again."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, WORDS, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.out(self.block(self.words(x)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, 12), nn.Linear(16, WORDS)
        self.lstm = nn.LSTM(12, 16, batch_first=True)

    def forward(self, x):
        return self.out(self.lstm(self.words(x))[0])


def numbers(step, shape, classes):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(shape, generator=generator), torch.randint(0, classes, (shape[0],), generator=generator)


def sentences(step, rows):
    words = torch.randint(0, WORDS, (rows, LENGTH + 1), generator=torch.Generator().manual_seed(step))
    return words[:, :-1], words[:, 1:]


MODELS = {
    "mlp": (mlp, lambda step, rows: numbers(step, (rows, 32), 10)),
    "cnn": (cnn, lambda step, rows: numbers(step, (rows, 3, 9, 9), 10)),
    "transformer": (Transformer, sentences),
    "lstm": (Lstm, sentences),
}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.003, eps=1e-4),
}


def loss_of(out, y):
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def train(make, data, optimizer, steps, seed, rows, prepare=lambda *both: both, part=slice(None)):
    torch.manual_seed(seed)
    model = make()
    model, stepper = prepare(model, optimizer(model.parameters()))
    for step in range(steps):
        x, y = data(step, rows)
        stepper.zero_grad()
        loss_of(model(x[part]), y[part]).backward()
        stepper.step()
    return model


def main(steps):
    torch.set_num_threads(1)
    shoal.init()
    rank, rows = shoal.rank(), BATCH * shoal.size()
    if shoal.size() == 2:
        _bundle.SMALL = 0  # by itself, each of them
    part = slice(rank * BATCH, (rank + 1) * BATCH)
    for name, (make, data) in MODELS.items():
        for kind, optimizer in OPTIMIZERS.items():
            alone = train(make, data, optimizer, steps, 0, rows) if rank == 0 else None
            for use_sfb in (False, True):

                def prepare(model, stepper, use_sfb=use_sfb):
                    return shoal.torch.distribute(model, stepper, use_sfb=use_sfb)

                ours = train(make, data, optimizer, steps, rank, rows, prepare, part)
                both = zip(ours.parameters(), alone.parameters()) if rank == 0 else ()
                away = max(((a - b).abs().max().item() for a, b in both), default=None)
                data_of = b"".join(p.detach().numpy().tobytes() for p in ours.parameters())
                slots = [p.__dict__.get("_shoal") for p in ours.parameters()]
                factors = sum(1 for s in slots if s is not None and s.pair and s.pair.weight is s and s.pair.chosen)
                told = {"away": away, "digest": hashlib.sha256(data_of).hexdigest(), "factors": factors}
                print(json.dumps({f"{name} {kind} {use_sfb}": told}), flush=True)
