"""All workers begin with rank 0's variables, whatever each of them has initialised or restored."""

import numpy as np
import tensorflow

from ... import _api
from .. import _interrupt
from .._bytes import Copy

_v1 = tensorflow.compat.v1


def broadcast(session, run, number):
    """Before a session first trains. ``run`` is TensorFlow's own ``Session.run``; works in finalized graphs."""
    variables = [v for v in session.graph.get_collection(_v1.GraphKeys.GLOBAL_VARIABLES) if _can_travel(v)]
    leads = _api.rank() == _api.root()
    values = _values(session, run, variables) if leads else [None] * len(variables)
    stem = f"variables {number}"
    with _interrupt.watched():
        # The root may have variables that nobody has initialised; they stay out.
        has_value = np.array([value is not None for value in values], dtype=np.float32)
        _api.broadcast(has_value, root=_api.root(), name=f"{stem}: which of {len(variables)}")
        copies = []
        for index, (variable, value, has) in enumerate(zip(variables, values, has_value)):
            if has:
                shape, dtype = variable.shape.as_list(), variable.dtype.base_dtype.as_numpy_dtype
                copies.append((variable, Copy(f"{stem}: {variable.name}", shape, dtype, min(index, 65535), value)))
        copies = [(variable, copy.wait()) for variable, copy in copies]
    if copies and not leads:
        # As Variable.load does: the initializer runs with another value than its own.
        feeds = {variable.initializer.inputs[1]: value for variable, value in copies}
        run(session, [variable.initializer for variable, _ in copies], feeds)


def _can_travel(variable):
    kind = variable.dtype.base_dtype
    return variable.shape.is_fully_defined() and kind not in (tensorflow.string, tensorflow.resource)


def _values(session, run, variables):
    """The value of each, None for those without."""
    try:
        return run(session, variables)
    except tensorflow.errors.FailedPreconditionError:
        pass
    values = []
    for variable in variables:
        try:
            values.append(run(session, variable))
        except tensorflow.errors.FailedPreconditionError:
            values.append(None)
    return values
