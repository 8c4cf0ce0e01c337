"""Every worker its part of the data."""

from .. import _api


def shard(dataset, drop_last=True):
    """Every ``size``-th element of a ``tf.data.Dataset``, beginning with this worker's rank. Use it before batching.

    With ``drop_last`` the elements that do not go round are left out, so that all workers have equally many.
    """
    if not hasattr(dataset, "shard"):
        hint = "tf.data.Dataset.from_tensor_slices makes one of arrays"
        raise TypeError(f"expected a tf.data.Dataset, got {type(dataset).__name__}; {hint}")
    size, rank = _api.size(), _api.rank()
    if drop_last and size > 1:
        # Of each full round one element; the last round is dropped if it is not full.
        dataset = dataset.batch(size, drop_remainder=True).unbatch()
    return dataset.shard(size, rank)
