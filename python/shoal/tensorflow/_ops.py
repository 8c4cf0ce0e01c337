"""Gradients into an exchange and out of it again, as operations of a graph or at once.

In a graph each gradient has an operation of its own that starts it as soon as it is computed (wait-free
backpropagation), and one operation behind all of them waits. Only that one blocks.
"""

import logging

import numpy as np

from ._versions import require

tf = require()

from ..errors import ShoalError, UsageError
from . import _interrupt, _matmul
from ._exchange import Exchange, Tensor

log = logging.getLogger("shoal")

_noted = set()
_TYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)


def check(gradient, name):
    """A gradient as a dense tensor of a type that can be summed."""
    if isinstance(gradient, tf.IndexedSlices):
        if name not in _noted:
            _noted.add(name)
            log.warning("%s: its sparse gradient travels dense", name)
        gradient = tf.convert_to_tensor(gradient)
    if gradient.dtype not in _TYPES:
        raise UsageError(
            f"the gradient of {name} is of {gradient.dtype.name}, which has no mean; gradients can be of float32, "
            "float64, float16 or bfloat16 (tf.cast the variable, or leave it out of the optimizer's list)"
        )
    if not gradient.shape.is_fully_defined():
        raise UsageError(f"the gradient of {name} has the shape {gradient.shape}; all of it must be known beforehand")
    return gradient


def tensors(prefix, gradients, names, use_sfb):
    """What an exchange has to know of gradients that have passed ``check``. The first layer's are the most urgent."""
    described = []
    for index, (gradient, name) in enumerate(zip(gradients, names)):
        dtype, shape = gradient.dtype.as_numpy_dtype, tuple(gradient.shape.as_list())
        factored = use_sfb is not False and not tf.executing_eagerly() and _matmul.factors(gradient) is not None
        # The shape is in the key: another model of the same process may have the same names for other shapes.
        key = f"{prefix}/{name} {'x'.join(map(str, shape))}"
        described.append(Tensor(key, shape, dtype, min(index, 65535), factored))
    return described


def at_once(exchange, gradients):
    """Synchronises gradients that are there already."""
    for index in reversed(range(len(gradients))):
        exchange.start(index, gradients[index].numpy())
    try:
        return [tf.convert_to_tensor(result) for result in exchange.wait()]
    except ShoalError:
        if _interrupt.taken():
            raise KeyboardInterrupt from None
        raise


def in_graph(exchange, gradients, active=None, gated=False):
    """The synchronised gradients, and the operation that waits. ``active`` is a scalar: False passes them through."""
    active = tf.constant(True) if active is None else active
    any_factors = any(tensor.factored for tensor in exchange.tensors)
    schemes = None
    if any_factors:
        schemes = _call(lambda on: np.array(exchange.schemes()) & on, [active], tf.bool, "schemes")
        schemes.set_shape([len(gradients)])
    started = []
    # The last layers' gradients come first, and a tf.function runs these in the order in which they are made.
    for index in reversed(range(len(gradients))):
        started.append(_start(exchange, index, gradients[index], active, schemes, gated))
    types = [kind for tensor in exchange.tensors for kind in _outputs(tensor)]
    outputs = _call(lambda on, *_: _wait(exchange, on), [active, *started], types, "wait")
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    waits, results = outputs[0].op, []
    for tensor in exchange.tensors:
        dense = outputs.pop(0)
        if tensor.factored:
            dense = _rebuilt(dense, outputs.pop(0), outputs.pop(0))
        dense.set_shape(tensor.shape)
        results.append(dense)
    return results, waits


def _start(exchange, index, gradient, active, schemes, gated):
    """The operation that starts one gradient."""
    tensor = exchange.tensors[index]
    if not tensor.factored:
        return _call(lambda g, on: _started(exchange, index, on, g), [gradient, active], tf.int32, "start")
    a, b = _matmul.factors(gradient)
    gates = _matmul.release(gradient) if gated else []
    # The product is made here, inside a branch, so that it is not made at all when the factors travel.
    dense = tf.cond(schemes[index], lambda: tf.zeros([0, 0], gradient.dtype), lambda: tf.matmul(a, b, transpose_a=True))
    with tf.control_dependencies(gates):
        return _call(
            lambda g, a, b, factors, on: _started(exchange, index, on, None if factors else g, (a, b)),
            [dense, a, b, schemes[index], active],
            tf.int32,
            "start",
        )


def _started(exchange, index, on, gradient, pair=None):
    if on:
        # The factors are kept until the end of the step, longer than TensorFlow keeps them.
        pair = None if pair is None or exchange.use_sfb is False else (pair[0].copy(), pair[1].copy())
        exchange.start(index, gradient, pair)
    else:
        exchange.passing[index] = gradient.copy()
    return np.int32(index)


def _outputs(tensor):
    return [tf.as_dtype(tensor.dtype)] * (3 if tensor.factored else 1)


def _wait(exchange, on):
    results = exchange.wait() if on else [exchange.passing.pop(index) for index in range(len(exchange.tensors))]
    outputs = []
    for tensor, result in zip(exchange.tensors, results):
        nothing = np.zeros((0, 0), tensor.dtype)
        if not tensor.factored:
            outputs.append(result)
        elif isinstance(result, tuple):
            outputs += [nothing, *result]
        else:
            outputs += [result, nothing, nothing]
    return outputs


def _rebuilt(dense, a, b):
    a.set_shape([None, None])
    b.set_shape([None, None])
    dense.set_shape([None, None])
    return tf.cond(tf.size(a) > 0, lambda: tf.matmul(a, b, transpose_a=True), lambda: tf.identity(dense))


def _call(function, inputs, types, name):
    return tf.numpy_function(function, inputs, types, name=f"shoal_{name}")


__all__ = ["Exchange", "at_once", "check", "in_graph", "tensors"]
