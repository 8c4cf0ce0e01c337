"""What is summed: single buffers by size, and the gradient lists of two real networks.

1 KB is 1024 bytes. The lists are computed from the architectures, so that neither torchvision nor a data file is needed.
"""

import math

UNITS = {"KB": 1 << 10, "MB": 1 << 20}


def resnet50():
    """Shapes of the 161 parameters of torchvision's resnet50, in the order of `parameters()` (25 557 032 numbers)."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            for shape in ((width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)):
                shapes += [shape, (shape[0],), (shape[0],)]  # convolution, then weight and bias of its batch norm
            if block == 0:
                shapes += [(4 * width, inputs, 1, 1), (4 * width,), (4 * width,)]
            inputs = 4 * width
    return shapes + [(1000, inputs), (1000,)]


def vgg19():
    """Shapes of the 38 parameters of torchvision's vgg19 (143 667 240 numbers)."""
    shapes, inputs = [], 3
    for width, layers in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(layers):
            shapes += [(width, inputs, 3, 3), (width,)]
            inputs = width
    return shapes + [(4096, 512 * 7 * 7), (4096,), (4096, 4096), (4096,), (1000, 4096), (1000,)]


LISTS = {"ResNet-50": resnet50, "VGG19": vgg19}


def elements(size):
    """Counts of float32 numbers, one a tensor, in the order in which backpropagation makes them (last layer first)."""
    if size in LISTS:
        return [math.prod(shape) for shape in reversed(LISTS[size]())]
    amount, unit = size.split()
    return [int(amount) * UNITS[unit] // 4]
