"""TensorFlow: ours, or MultiWorkerMirroredStrategy, as BENCH_SYNC says. The same networks as in models.py, in Keras."""

import json
import os

SYNC, RANK, WORKERS = os.environ["BENCH_SYNC"], int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_WORKERS"])
if SYNC == "multiworker":
    host, port = os.environ["BENCH_RENDEZVOUS"].split(":")
    # On one machine every worker needs a port of its own; elsewhere that does no harm.
    nodes = [f"{address}:{int(port) + rank}" for rank, address in enumerate(os.environ["BENCH_HOSTS"].split(","))]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": nodes}, "task": {"type": "worker", "index": RANK}})

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from serve import serve  # noqa: E402

keras = tf.keras
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)


def mlp():
    layers = [keras.Input((4096,))]
    layers += [keras.layers.Dense(4096, "relu"), keras.layers.Dense(4096, "relu"), keras.layers.Dense(1000)]
    return keras.Sequential(layers)


def resnet18():
    def conv(x, width, size, stride):
        x = keras.layers.Conv2D(width, size, stride, "same", use_bias=False)(x)
        return keras.layers.BatchNormalization()(x)

    x = images = keras.Input((32, 32, 3))
    x, inputs = keras.layers.ReLU()(conv(x, 64, 3, 1)), 64
    for width, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            y = conv(keras.layers.ReLU()(conv(x, width, 3, stride)), width, 3, 1)
            short = x if stride == 1 and inputs == width else conv(x, width, 1, stride)
            x, inputs = keras.layers.ReLU()(y + short), width
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


CASES = {"fc-mlp": (mlp, (4096,), 1000), "conv-resnet18": (resnet18, (32, 32, 3), 10)}


def batch(step, rank, shape, classes):
    made = np.random.default_rng(1000 * step + rank)
    x = made.standard_normal((32, *shape), dtype=np.float32)
    return x, x.reshape(32, -1)[:, :classes].argmax(1) % classes


class Trainer:
    rank = RANK

    def build(self, case):
        make, self.shape, self.classes = CASES[case]
        keras.utils.set_random_seed(0)
        self.model, self.optimizer = make(), keras.optimizers.SGD(0.01)
        self.optimizer.build(self.model.trainable_variables)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        self.count = 0

    def gradients(self, x, y, wrap=lambda tape: tape):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss(y, self.model(x, training=True)))
        return loss, wrap(tape).gradient(loss, self.model.trainable_variables)

    def ready(self):
        self.count += 1
        return batch((self.count - 1) % 16, RANK, self.shape, self.classes)

    def drop(self):
        self.model = self.optimizer = self.compiled = None
        keras.backend.clear_session()

    def close(self):
        pass


class Shoal(Trainer):
    def __init__(self):
        import shoal
        import shoal.tensorflow

        self.shoal = shoal
        shoal.init()

    def make(self, case):
        self.build(case)
        for number, variable in enumerate(self.model.variables):
            variable.assign(self.shoal.broadcast(np.array(variable), name=f"{case} {number}"))

        @tf.function
        def compiled(x, y):
            loss, gradients = self.gradients(x, y, self.shoal.tensorflow.DistributedGradientTape)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
            return loss

        self.compiled = compiled

    def step(self):
        x, y = self.ready()
        return self.compiled(tf.constant(x), tf.constant(y)).numpy()

    def barrier(self):
        self.shoal.barrier()

    def close(self):
        self.shoal.shutdown()


class MultiWorker(Trainer):
    def __init__(self):
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING)
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        self.one = tf.function(lambda: self.strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tf.constant(1.0))))

    def make(self, case):
        with self.strategy.scope():
            self.build(case)

        def replica(x, y):
            loss, gradients = self.gradients(x, y)
            # Keras takes the sum over replicas.
            gradients = [g / WORKERS for g in gradients]
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
            return loss

        self.compiled = tf.function(lambda x, y: self.strategy.run(replica, (x, y)))

    def step(self):
        x, y = self.ready()
        return self.compiled(tf.constant(x), tf.constant(y)).numpy()

    def barrier(self):
        self.one().numpy()


class Joined(Trainer):
    """One process that sees the batches of all workers, one after the other."""

    def make(self, case):
        self.build(case)
        self.compiled = tf.function(self.gradients)

    def step(self):
        self.count += 1
        parts = [batch((self.count - 1) % 16, rank, self.shape, self.classes) for rank in range(WORKERS)]
        told = [self.compiled(tf.constant(x), tf.constant(y)) for x, y in parts]
        mean = [sum(gradients) / WORKERS for gradients in zip(*[gradients for _, gradients in told])]
        self.optimizer.apply_gradients(zip(mean, self.model.trainable_variables))
        return sum(loss.numpy() for loss, _ in told) / WORKERS


serve({"shoal": Shoal, "multiworker": MultiWorker, "joined": Joined}[SYNC])
