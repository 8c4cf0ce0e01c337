"""Keras: an optimizer that synchronises, callbacks that make workers begin alike and report what all of them saw."""

import functools

import numpy as np

from .. import _api
from ._sync import Synchroniser
from ._variables import broadcast_variables
from ._versions import require

tf = require()
_Callback = tf.keras.callbacks.Callback


def DistributedOptimizer(optimizer, use_sfb="auto"):
    """The same optimizer, which from now on applies everybody's mean of each gradient. State, name and saved form stay.

    ``use_sfb``: whether gradients of dense layers may travel as factors; "auto" where that is fewer bytes.
    """
    if hasattr(optimizer, "_shoal"):
        return optimizer
    if not hasattr(optimizer, _method(optimizer)):
        raise TypeError(f"expected an optimizer of Keras, such as keras.optimizers.SGD(0.1), got {optimizer!r}")
    _watch_loss_scaling()
    _adopt(optimizer, Synchroniser(use_sfb))
    return optimizer


def _method(optimizer):
    """Keras 3 applies by `apply`, the one before it by `apply_gradients`."""
    return "apply" if hasattr(optimizer, "apply") else "apply_gradients"


def _adopt(optimizer, synchroniser):
    # Only this one object changes, not its class: saved models name the class, and shall load where Shoal is not. Set
    # past Keras's own __setattr__, which tracks.
    name = _method(optimizer)
    applying = _applying(optimizer) if name == "apply" else _applying_pairs(optimizer)
    object.__setattr__(optimizer, "_shoal", synchroniser)
    object.__setattr__(optimizer, name, applying)


def _release(optimizer):
    """The opposite of ``_adopt``; gives the synchroniser, or None if there was none."""
    synchroniser = vars(optimizer).get("_shoal")
    if synchroniser is not None:
        object.__delattr__(optimizer, _method(optimizer))
        object.__delattr__(optimizer, "_shoal")
    return synchroniser


def _watch_loss_scaling():
    """Who scales losses leaves a step out when a gradient is not finite, and must look at everybody's mean for it.

    Under the policy ``mixed_float16``, ``compile`` puts such an optimizer around ours. Looking at its own gradients
    a worker would leave out steps that the others take; so the exchange moves outwards.
    """
    scaling = getattr(tf.keras.optimizers, "LossScaleOptimizer", None)
    if scaling is None or hasattr(scaling.__init__, "_shoal"):
        return
    native = scaling.__init__

    @functools.wraps(native)
    def init(self, inner_optimizer, *args, **kwargs):
        native(self, inner_optimizer, *args, **kwargs)
        synchroniser = _release(inner_optimizer)
        if synchroniser is not None:
            _adopt(self, synchroniser)

    init._shoal = True
    scaling.__init__ = init


def _applying(optimizer):
    native = optimizer.apply

    def apply(grads, trainable_variables=None):
        variables = optimizer._trainable_variables if trainable_variables is None else list(trainable_variables)
        return native(optimizer._shoal.means(list(grads), variables), trainable_variables)

    return apply


def _applying_pairs(optimizer):
    native = optimizer.apply_gradients

    def apply_gradients(grads_and_vars, *args, **kwargs):
        pairs = list(grads_and_vars)
        means = optimizer._shoal.means([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
        return native(list(zip(means, (variable for _, variable in pairs))), *args, **kwargs)

    return apply_gradients


class BroadcastCallback(_Callback):
    """Before the first step every worker gets the root's weights and optimizer state."""

    def __init__(self):
        super().__init__()
        self._done = False

    def on_train_begin(self, logs=None):
        self._done = False
        if self.model.built:
            optimizer = self.model.optimizer
            if not getattr(optimizer, "built", True):
                optimizer.build(self.model.trainable_variables)
            self._broadcast()

    def on_train_batch_end(self, batch, logs=None):
        # A model that is built by its first batch; what that step did differently on each worker is overwritten.
        if not self._done:
            self._broadcast()

    def _broadcast(self):
        optimizer = self.model.optimizer
        state = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        broadcast_variables([*self.model.weights, *state])
        self._done = True


class MetricAverageCallback(_Callback):
    """At the end of each epoch the logs hold the mean over all workers; put it before callbacks that read them."""

    def on_epoch_end(self, epoch, logs=None):
        if not logs or _api.size() == 1:
            return
        names = sorted(name for name, value in logs.items() if np.ndim(value) == 0)
        values = np.array([float(logs[name]) for name in names], dtype=np.float64)
        _api.push_pull(values, name=f"metrics: {' '.join(names)}")
        logs.update({name: float(value) for name, value in zip(names, values)})
