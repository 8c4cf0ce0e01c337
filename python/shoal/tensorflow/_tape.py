"""``tf.GradientTape`` whose gradients are everybody's mean."""

from ._sync import Synchroniser
from ._versions import require

tf = require()


class DistributedGradientTape:
    """Wraps a tape: ``with shoal.tensorflow.DistributedGradientTape(tf.GradientTape()) as tape``, or afterwards.

    Make it once per step or once for all; give ``name`` where several loops of one script train different models.
    """

    _by_name = {}

    def __init__(self, tape=None, use_sfb="auto", name=""):
        self._tape = tf.GradientTape() if tape is None else tape
        if not hasattr(self._tape, "gradient"):
            raise TypeError(f"expected a tf.GradientTape, got {tape!r}")
        # Tapes are made anew in each step; what they share is kept under their name.
        key = name, use_sfb
        if key not in self._by_name:
            self._by_name[key] = Synchroniser(use_sfb)
        self._synchroniser = self._by_name[key]

    def __enter__(self):
        self._tape.__enter__()
        return self

    def __exit__(self, *error):
        return self._tape.__exit__(*error)

    def __getattr__(self, name):
        return getattr(self._tape, name)

    def gradient(self, target, sources, *args, **kwargs):
        """As of ``tf.GradientTape``, averaged over all workers; ``sources`` are variables, in any nesting."""
        gradients = self._tape.gradient(target, sources, *args, **kwargs)
        flat = self._synchroniser.means(_flat(gradients), _flat(sources))
        return tf.nest.pack_sequence_as(sources, flat)


def _flat(structure):
    return tf.nest.flatten(structure)
