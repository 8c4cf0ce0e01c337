"""Train a small convolutional network on generated 32x32 images, on many workers at once.

The script is an ordinary PyTorch script but for the three lines marked with `# shoal`.

    shoal run -n 4 -- python train.py        four workers on this machine
    python train.py                          one process, without Shoal's launcher
"""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import shoal.torch  # shoal

CLASSES = 10


def images(count, seed):
    """CIFAR-like: each class is a grating of its own direction, width and colour, somewhere on a noisy background."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    angle = labels.float().view(-1, 1, 1) * torch.pi / CLASSES
    shift = torch.rand(count, 1, 1, generator=generator) * 6.28
    wave = torch.sin((rows * angle.cos() + columns * angle.sin()) * (0.4 + 0.1 * (labels % 3)).view(-1, 1, 1) + shift)
    colours = torch.rand(CLASSES, 3, generator=torch.Generator().manual_seed(1))
    pixels = wave.unsqueeze(1) * colours[labels].view(-1, 3, 1, 1)
    return pixels + 0.3 * torch.randn(pixels.shape, generator=generator), labels


def network():
    def block(inputs, outputs):
        conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    layers = [*block(3, 16), *block(16, 32), *block(32, 64), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, batch_size=256))
    model.train()
    return right / len(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=32, help="of each worker")
    parser.add_argument("--rate", type=float, default=0.05)
    args, _ = parser.parse_known_args()

    torch.manual_seed(0)
    training, test = TensorDataset(*images(args.images, 0)), TensorDataset(*images(500, 1))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate, momentum=0.9)
    model, optimizer = shoal.torch.distribute(model, optimizer)  # shoal
    sampler = shoal.torch.DistributedSampler(training)  # shoal
    loader = DataLoader(training, batch_size=args.batch, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        if shoal.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {accuracy(model, test):.3f}", flush=True)
    total = sum(p.detach().double().sum().item() for p in model.state_dict().values())
    print(json.dumps({"rank": shoal.rank(), "accuracy": accuracy(model, test), "total": total}), flush=True)


if __name__ == "__main__":
    main()
