"""Which TensorFlow was a script written for? Decided from its text alone."""

import ast

# Names that only TensorFlow 1 has, and that a script can hardly do without.
_V1 = frozenset(
    """
    app flags logging gfile ConfigProto GPUOptions Session InteractiveSession placeholder placeholder_with_default
    get_variable variable_scope get_default_graph reset_default_graph get_collection add_to_collection GraphKeys
    global_variables trainable_variables global_variables_initializer initialize_all_variables
    local_variables_initializer set_random_seed truncated_normal random_normal random_uniform contrib python_io
    FIFOQueue RandomShuffleQueue
    WholeFileReader TFRecordReader FixedLengthRecordReader TextLineReader py_func to_float to_int32 to_int64
    scalar_summary histogram_summary merge_all_summaries mul sub neg pack unpack select
    train.GradientDescentOptimizer train.MomentumOptimizer train.AdamOptimizer train.AdagradOptimizer train.Optimizer
    train.RMSPropOptimizer train.FtrlOptimizer train.AdadeltaOptimizer train.MonitoredTrainingSession
    train.MonitoredSession train.Saver train.Supervisor train.start_queue_runners train.batch train.shuffle_batch
    train.string_input_producer
    train.get_or_create_global_step train.create_global_step train.get_global_step train.exponential_decay
    train.SummaryWriter train.SessionRunHook summary.FileWriter summary.merge_all summary.merge layers
    losses.get_total_loss
    """.split()
)
# Names that only TensorFlow 2 has: with one of them a script is left alone, whatever else it mentions.
_V2 = frozenset(
    """
    optimizers random.set_seed summary.create_file_writer summary.record_if summary.trace_on train.CheckpointView
    experimental.numpy keras.optimizers keras.Sequential keras.Model keras.layers function GradientTape Module
    """.split()
)
# What makes a user of tensorflow.compat.v1 one of graphs and sessions.
_SESSIONS = frozenset(
    "Session InteractiveSession ConfigProto train.MonitoredTrainingSession train.MonitoredSession".split()
)


def is_v1(text):
    """Whether a script with this text expects TensorFlow 1 behind its `import tensorflow`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False  # Python will say so better
    plain, compat, used = _aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = _chain(node)
            if chain and chain[0] in plain:
                used["plain"].add(".".join(chain[1:]))
            elif chain and chain[0] in compat:
                used["compat"].add(".".join(chain[1:]))
    plain_names, compat_names = _prefixes(used["plain"]), _prefixes(used["compat"])
    if plain_names & _V2:
        return False
    return bool(plain_names & _V1 or compat_names & _SESSIONS)


def mentions(text, word):
    """Whether a script sets or passes something of this name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == word or isinstance(node, ast.keyword) and node.arg == word:
            return True
        if isinstance(node, ast.Constant) and node.value == word:
            return True
    return False


def _aliases(tree):
    """The names that stand for tensorflow and for tensorflow.compat.v1, and what is imported from them by name."""
    plain, compat, used = set(), set(), {"plain": set(), "compat": set()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name == "tensorflow.compat.v1" and name.asname:
                    compat.add(name.asname)
                elif name.name == "tensorflow" or name.name.startswith("tensorflow.") and not name.asname:
                    plain.add(name.asname or "tensorflow")
                elif name.name.startswith("tensorflow.contrib"):
                    used["plain"].add("contrib")
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "tensorflow":
                used["plain"] |= {name.name for name in node.names}
            elif node.module.startswith("tensorflow.contrib"):
                used["plain"].add("contrib")
            elif node.module == "tensorflow.compat":
                compat |= {name.asname or name.name for name in node.names if name.name == "v1"}
            elif node.module == "tensorflow.compat.v1":
                used["compat"] |= {name.name for name in node.names}
    return plain, compat, used


def _chain(node):
    """['tf', 'train', 'Saver'] for the node of `tf.train.Saver`; None if it does not begin with a name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _prefixes(chains):
    """Each chain with its beginnings: train.Saver.restore is also a use of train.Saver and of train."""
    found = set()
    for chain in chains:
        names = chain.split(".")
        found |= {".".join(names[:end]) for end in range(1, len(names) + 1)}
    return found
