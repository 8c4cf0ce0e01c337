"""An optax optimizer that sees the mean of all workers' gradients."""

from ._mean import pmean


def distribute(optimizer, weight=None):
    """Wraps an ``optax.GradientTransformation``: ``update`` averages the gradients over all workers first.

    ``weight`` (or ``update(..., weight=samples)``) makes it the sample-weighted mean. With ``shoal.jax.value_and_grad``
    the gradients are averaged already and the optimizer needs no wrapper.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(f"shoal.jax.distribute wraps optax optimizers: pip install optax ({error})") from error
    optimizer = optax.with_extra_args_support(optimizer)
    default = weight

    def update(updates, state, params=None, *, weight=None, **extra):
        mean = pmean(updates, weight=default if weight is None else weight)
        return optimizer.update(mean, state, params, **extra)

    return optax.GradientTransformationExtraArgs(optimizer.init, update)
