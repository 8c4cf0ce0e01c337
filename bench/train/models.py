"""What is trained: the same networks, data and seeds for every contestant, in PyTorch."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sync"))
import sizes  # noqa: E402  (the tensor lists of `bench sync`)

CLASSES = {"fc-mlp": 1000, "conv-resnet18": 10, "vgg19": 1000}


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        plain = stride == 1 and inputs == width
        self.short = nn.Identity() if plain else nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.short(x))


def resnet18():
    """For images of 32 x 32: a first layer of 3 x 3 without pooling, as is usual there (11.2 million numbers)."""
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, width, stride), Block(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(
        nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


class Sleep(torch.autograd.Function):
    """A layer that takes its time and whose gradient is there without arithmetic: what an accelerator would do meanwhile."""

    @staticmethod
    def forward(ctx, x, seconds, *parameters):
        ctx.seconds, ctx.parameters = seconds, parameters
        time.sleep(seconds / 3)
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        time.sleep(ctx.seconds * 2 / 3)
        # Filled, not computed: the exchange sees numbers, not zeros.
        return dy, None, *[p.new_full((), 1e-3).expand_as(p).contiguous() for p in ctx.parameters]


class Stub(nn.Module):
    def __init__(self, shapes, seconds):
        super().__init__()
        self.parameters_ = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.seconds = seconds

    def forward(self, x):
        return Sleep.apply(x, self.seconds, *self.parameters_)


class Factored(nn.Module):
    """A fully connected layer of the stub: its weight is a real `nn.Linear`, its arithmetic is sleep. The product that makes the gradient is
    real wherever somebody has to make it."""

    def __init__(self, outputs, inputs, seconds, rows):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.seconds, self.rows = seconds, rows
        self.register_buffer("x", torch.full((rows, inputs), 1e-3), persistent=False)

    def forward(self, h):
        # `linear` on a row of the batch costs next to nothing forward; backward gives x and dy of the whole batch.
        h = Sleep.apply(h, self.seconds)
        y = self.linear(self.x)
        return h + 1e-6 * y.mean()


def vgg19(seconds, rows):
    """VGG19's tensors. `seconds` of sleep in all, spread over the layers by their share of the arithmetic."""
    shapes = sizes.vgg19()
    pairs = [(shapes[i], shapes[i + 1]) for i in range(0, len(shapes), 2)]
    layers = []
    for weight, bias in pairs:
        if len(weight) == 4:
            layers.append(Stub([weight, bias], seconds / 16))
        else:
            layers.append(Factored(weight[0], weight[1], 0.0, rows))
    return nn.Sequential(*layers)


def make(case, seed=0):
    """The network, its loss, and a function from (step, rank) to a batch."""
    torch.manual_seed(seed)
    cross = nn.CrossEntropyLoss()
    if case == "fc-mlp":
        return mlp(), cross, lambda step, rank: batch(step, rank, (32, 4096), 1000)
    if case == "conv-resnet18":
        return resnet18(), cross, lambda step, rank: batch(step, rank, (32, 3, 32, 32), 10)
    if case == "vgg19":
        return vgg19(0.6, 32), lambda out, _: out.mean(), lambda step, rank: (torch.ones(8), torch.zeros(8))
    raise ValueError(f"no case {case}")


def batch(step, rank, shape, classes):
    made = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(shape, generator=made)
    # A rule that can be learned: the class follows from the first numbers.
    y = (x.flatten(1)[:, :classes].argmax(1)) % classes
    return x, y
