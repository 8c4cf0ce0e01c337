"""Sessions with Poseidon's settings: joining the run, rank 0's variables before the first step, named errors."""

import os
import threading

import tensorflow
from tensorflow.python.client import session as session_module
from tensorflow.python.training import server_lib

from ...errors import UsageError
from .. import _interrupt
from .._exchange import taken_error
from . import config as config_module
from . import launched, optimizers, variables

_Base = session_module.BaseSession
_broadcasts = 0


class _Worker:
    """What we know of one session: whether it is distributed, and whether its variables are those of all."""

    def __init__(self, distributed):
        self.distributed, self.alike = distributed, False
        self.lock = threading.Lock()


def install():
    """Once. Sessions of whatever kind (interactive, monitored, supervised) come by these methods of their base."""
    optimizers.install()
    native_init, native_run, native_callable = _Base.__init__, _Base.run, _Base.make_callable
    native_server = server_lib.Server.__init__

    def init(self, target="", graph=None, config=None):
        settings = config_module.ours(config)
        distributed = settings.get("distributed", launched.is_launched())
        native_init(self, target, graph, config_module.native(config))
        self._shoal = _Worker(distributed)
        if distributed:
            launched.join(settings)

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        ours = optimizers.of(self._graph)
        if ours is None:
            _is_synchronised(self, fetches)
            return native_run(self, fetches, feed_dict, options, run_metadata)
        operations = _operations(self, fetches)
        exchanges = ours.exchanges(operations)
        if not exchanges:
            if self._shoal.alike and _sets_variables(self._graph, operations):
                self._shoal.alike = False
            return native_run(self, fetches, feed_dict, options, run_metadata)
        if not self._shoal.distributed:
            return native_run(self, fetches, {**(feed_dict or {}), ours.active: False}, options, run_metadata)
        _enough_threads(self, exchanges)
        _make_alike(self, native_run)
        try:
            return native_run(self, fetches, feed_dict, options, run_metadata)
        except Exception:
            error = taken_error(exchanges)
            if _interrupt.taken():
                raise KeyboardInterrupt from None
            if error is None:
                raise
            raise error from None

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        ours = optimizers.of(self._graph)
        if ours is None or not ours.exchanges(_operations(self, fetches)):
            return native_callable(self, fetches, feed_list, accept_options)
        # The short way past `run` would miss the variables, the errors and sessions that are not distributed.
        feeds = feed_list or []
        return lambda *values, **options: self.run(fetches, dict(zip(feeds, values)), **options)

    def server(self, *args, **kwargs):
        args = [config_module.native(value) for value in args]
        native_server(self, *args, **{name: config_module.native(value) for name, value in kwargs.items()})

    _Base.__init__, _Base.run, _Base.make_callable = init, run, make_callable
    server_lib.Server.__init__ = server


def _operations(session, fetches):
    """The operations behind fetches of any form that `run` accepts."""
    if isinstance(fetches, (list, tuple)) and all(hasattr(f, "op") or hasattr(f, "node_def") for f in fetches):
        elements = fetches
    elif hasattr(fetches, "node_def"):
        elements = [fetches]
    else:
        with session.graph.as_default():  # which it is not in other threads, such as a Supervisor's
            elements = session_module._FetchMapper.for_fetch(fetches).unique_fetches()
    found = []
    for element in elements:
        if not hasattr(element, "node_def") and not isinstance(element, tensorflow.Tensor):
            element = session.graph.as_graph_element(element, allow_tensor=True, allow_operation=True)
        found.append(element if hasattr(element, "node_def") else element.op)
    return found


def _make_alike(session, run):
    global _broadcasts
    with session._shoal.lock:
        if not session._shoal.alike:
            _broadcasts += 1
            variables.broadcast(session, run, _broadcasts)
            session._shoal.alike = True


def _sets_variables(graph, operations):
    """Whether these initialise or restore what is trained: then all workers take rank 0's once more."""
    trained = graph.get_collection(tensorflow.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
    initializers = {variable.initializer.name for variable in trained}
    seen, todo = set(), list(operations)
    while todo:
        at = todo.pop()
        if at.name in initializers or at.type in ("Assign", "AssignVariableOp") and _is_restored(at.inputs[1].op):
            return True
        # Operations that do several things at once, such as tf.global_variables_initializer(), are made of these.
        if at.type == "NoOp" and at.name not in seen:
            seen.add(at.name)
            todo += at.control_inputs
    return False


def _is_restored(operation):
    while operation.type in ("Identity", "Reshape"):
        operation = operation.inputs[0].op
    return operation.type.startswith("Restore")


def _enough_threads(session, exchanges):
    """Each optimizer that runs at the same time may hold a thread while it waits; the last one needs one to begin."""
    if len(exchanges) == 1:
        return
    # Unless told otherwise TensorFlow has one for each processor.
    threads = session._config.inter_op_parallelism_threads or len(os.sched_getaffinity(0))
    if 0 < threads < len(exchanges):
        raise UsageError(
            f"one run applies the gradients of {len(exchanges)} optimizers, and inter_op_parallelism_threads is "
            f"{threads}: workers could wait for each other forever. Set it to {len(exchanges)} or more, or run the "
            "optimizers one after the other"
        )


def _is_synchronised(session, fetches):
    """A distributed session whose graph was built as if alone would train alone, silently."""
    if not session._shoal.distributed or launched.is_launched():
        return
    graph_trains = session._graph.get_collection_ref(tensorflow.compat.v1.GraphKeys.TRAIN_OP)
    if graph_trains and {op.name for op in _operations(session, fetches)} & {op.name for op in graph_trains}:
        raise UsageError(
            "this session is distributed, but its graph was built before anything said so; start the script with "
            "psd_run, or with --distributed=True on its command line"
        )
