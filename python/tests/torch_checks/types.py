"""Types and layouts of tensors."""

import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

from .tools import BATCH, batch, check, close, mine, mlp, models_close, pair, same_everywhere, schemes, steps


@check
def autocast_stays_dense_and_right():
    def loss(out, y):
        return F.mse_loss(out.float(), y)

    for use_sfb in schemes():
        model, ours, reference, theirs = pair(use_sfb=use_sfb)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            steps(model, ours, reference, theirs, loss=loss)
        models_close(model, reference, 0.02)  # bfloat16 rounds each worker's part by itself
        steps(model, ours, reference, theirs, first=10)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            steps(model, ours, reference, theirs, loss=loss, first=20)
        models_close(model, reference, 0.02)
        same_everywhere(model)


@check
def narrow_and_wide_parameters():
    from shoal.torch import _wire

    for dtype, tolerance in ((torch.bfloat16, 0.03), (torch.float16, 0.005), (torch.float64, 1e-9)):
        for without in (False, True):
            kept, _wire.ml_dtypes = _wire.ml_dtypes, None if without else _wire.ml_dtypes
            model, ours, reference, theirs = pair(lambda dtype=dtype: mlp().to(dtype))

            def loss(out, y):
                wide = torch.promote_types(out.dtype, torch.float32)
                return F.mse_loss(out.to(wide), y.to(wide))

            for step in range(3):
                for net, optimizer, (x, y) in ((reference, theirs, batch(step)), (model, ours, mine(*batch(step)))):
                    optimizer.zero_grad()
                    loss(net(x.to(dtype)), y).backward()
                    optimizer.step()
            models_close(model, reference, tolerance)
            same_everywhere(model)
            _wire.ml_dtypes = kept


class Odd(nn.Module):
    """Parameters and buffers of unusual kinds."""

    def __init__(self):
        super().__init__()
        self.wave = nn.Parameter(torch.randn(8, dtype=torch.complex64))
        self.scale = nn.Parameter(torch.randn(()))
        self.empty = nn.Parameter(torch.empty(0))
        self.register_buffer("count", torch.randint(-9, 9, (3,)))
        self.register_buffer("flag", torch.rand(5) > 0.5)
        self.register_buffer("byte", torch.randint(0, 255, (7,), dtype=torch.uint8))
        self.register_buffer("number", torch.tensor(2**53 + int(torch.randint(0, 99, ()))))

    def forward(self, x):
        return (torch.fft.fft(x[:, :8]) * self.wave).real * self.scale


@check
def complex_scalars_and_integers():
    model, ours, reference, theirs = pair(Odd)
    for name, buffer in reference.named_buffers():
        assert torch.equal(dict(model.named_buffers())[name], buffer), name
    steps(model, ours, reference, theirs)
    close(torch.view_as_real(model.wave), torch.view_as_real(reference.wave))
    close(model.scale, reference.scale)
    same_everywhere(model)


@check
def buffers_of_odd_layouts():
    """Expanded ones are the same memory many times; sparse ones have as many numbers as they like; what cannot travel is named."""
    model = nn.Linear(2, 2)
    model.register_buffer("mask", torch.full((1, 3), float(shoal.rank())).expand(4, 3))
    model.register_buffer("step", torch.tensor(shoal.rank()).expand(5))
    shoal.torch.distribute(model)
    assert (model.mask == 0).all() and (model.step == 0).all() and model.mask.shape == (4, 3)
    model.register_buffer("neighbours", (torch.eye(3) if shoal.rank() == 0 else torch.ones(3, 3)).to_sparse())
    shoal.torch.broadcast_state(model)
    assert torch.equal(model.neighbours.to_dense(), torch.eye(3))
    model = nn.Linear(2, 2)
    model.register_buffer("coarse", torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))
    try:
        shoal.torch.distribute(model)
    except shoal.UsageError as error:
        assert "coarse (strided, torch.qint8)" in str(error), str(error)
    else:
        raise AssertionError("it was taken")


@check
def sparse_gradients_are_made_dense():
    def make():
        return nn.Sequential(nn.Embedding(20, 8, sparse=True), nn.Linear(8, 8))

    model, ours, reference, theirs = pair(make)
    for step in range(3):
        words = torch.randint(0, 20, (BATCH * shoal.size(),), generator=torch.Generator().manual_seed(step))
        for net, optimizer, w in ((reference, theirs, words), (model, ours, mine(words)[0])):
            optimizer.zero_grad()
            net(w).square().mean().backward()
            optimizer.step()
    assert not model[0].weight.grad.is_sparse
    models_close(model, reference)
    same_everywhere(model)


@check
def channels_last_and_shared_memory_of_gradients():
    def make():
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 16, 8))
        return net.to(memory_format=torch.channels_last)

    model, ours, reference, theirs = pair(make)
    for step in range(3):
        x = torch.randn(BATCH * shoal.size(), 3, 6, 6, generator=torch.Generator().manual_seed(step))
        x = x.to(memory_format=torch.channels_last)
        for net, optimizer, part in ((reference, theirs, x), (model, ours, mine(x)[0])):
            optimizer.zero_grad()
            net(part).square().mean().backward()
            optimizer.step()
    models_close(model, reference)
    same_everywhere(model)

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

        def forward(self, x):
            self.sum = self.a.view(2, 4) + self.b.view(2, 4)
            self.sum.retain_grad()
            return x.view(2, 4) * self.sum

    model = Sum()
    shoal.torch.distribute(model, None)
    model(torch.full((8,), float(shoal.rank()))).sum().backward()
    assert (model.a.grad == 0.5).all() and (model.b.grad == 0.5).all()
    assert (model.sum.grad == shoal.rank()).all(), "a retained gradient is this worker's own"
