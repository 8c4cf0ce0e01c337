"""Shoal for JAX: gradients are averaged over all workers while the rest of the backward pass still runs.

    loss, grads = shoal.jax.value_and_grad(loss_fn)(params, batch)      # as jax's, but the mean of all workers

inside a jitted step. ``pmean`` does the same to any pytree, ``distribute`` to what an optax optimizer gets.
"""

from ._versions import check as _check

_check()

from ._broadcast import broadcast
from ._grad import grad, value_and_grad
from ._mean import pmean, psum
from ._named_errors import named_errors
from ._optimizer import distribute

__all__ = ["broadcast", "distribute", "grad", "named_errors", "pmean", "psum", "value_and_grad"]
