"""Variables of TensorFlow 2: everybody takes the root's values."""

from .. import _api
from ._bytes import Copy

_broadcasts = 0


def broadcast_variables(variables):
    """Gives every worker the root's values; all workers call it with the same variables in the same order."""
    global _broadcasts
    variables = list(variables)
    _broadcasts += 1
    leads = _api.rank() == _api.root()
    copies = []
    for index, variable in enumerate(variables):
        value = variable.numpy()
        name = f"keras variables {_broadcasts}: {index} {getattr(variable, 'path', None) or variable.name}"
        copies.append(Copy(name, value.shape, value.dtype, min(index, 65535), value if leads else None))
    for variable, copy in zip(variables, copies):
        value = copy.wait()
        if not leads:
            variable.assign(value)
