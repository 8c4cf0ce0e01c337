"""Read by test_tensorflow.py: small trainings with Keras and with a tape, alone or as a worker of two or four."""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

import shoal
import shoal.tensorflow as st

tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
alone = "SHOAL_CLIENT_ID" not in os.environ
shoal.init(distributed=not alone)
rank, workers = shoal.rank(), shoal.size()
# Four parts, which one, two or four workers share: so one process is right for any number of them.
STEPS, ROWS, WIDTH = 50, 8, 12
random = np.random.default_rng(1)
inputs = random.standard_normal((STEPS, 4, ROWS, WIDTH)).astype("f4")
labels = random.integers(0, 10, (STEPS, 4, ROWS))
part = slice(4 // workers * rank, 4 // workers * (rank + 1))
inputs, labels = inputs[:, part].reshape(-1, WIDTH), labels[:, part].reshape(-1)
batch = len(inputs) // STEPS
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def tell(**fields):
    print(json.dumps(fields), flush=True)


def perceptron():
    return [keras.layers.Dense(*size) for size in ((24, "relu"), (16, "tanh"), (10,))]


def model(seed, layers=perceptron):
    keras.utils.set_random_seed(seed + 100 * rank)
    return keras.Sequential([keras.Input((WIDTH,)), *layers()])


def convolutions():
    layers = keras.layers
    return [layers.Reshape((4, 3, 1)), layers.Conv2D(6, 2, activation="relu"), layers.Flatten(), layers.Dense(10)]


def recurrent():
    return [keras.layers.Reshape((4, 3)), keras.layers.LSTM(8), keras.layers.Dense(10)]


class Transformer(keras.layers.Layer):
    """One block over words; the embedding is also the output layer, so its gradient has two parts, of which one is sparse. The
    same projection is used for what is asked and what is answered."""

    def __init__(self):
        super().__init__()
        self.words = keras.layers.Embedding(10, 8)
        self.shared, self.value, self.up = (keras.layers.Dense(size) for size in (8, 8, 16))
        self.attend, self.norm, self.down = keras.layers.Attention(), keras.layers.LayerNormalization(), keras.layers.Dense(8)

    def call(self, x):
        words = self.words(tf.cast(tf.abs(x) * 4, tf.int32) % 10)
        asked = self.shared(words)
        out = self.norm(words + self.attend([asked, self.value(words)]))
        out = out + self.down(tf.nn.relu(self.up(out)))
        return tf.matmul(tf.reduce_mean(out, 1), self.words.embeddings, transpose_b=True)


def transformer():
    return [Transformer()]


def weights(net):
    return [value.ravel().tolist() for value in net.get_weights()]


def fitted(optimizer, use_sfb, layers=perceptron, **how):
    net = model(1, layers)
    optimizer = st.DistributedOptimizer(optimizer, use_sfb=use_sfb)
    net.compile(optimizer=optimizer, loss=loss_of, jit_compile=False, **how)
    callbacks = [st.BroadcastCallback(), st.MetricAverageCallback()]
    history = net.fit(inputs, labels, batch_size=batch, shuffle=False, epochs=1, verbose=0, callbacks=callbacks)
    return {"weights": weights(net), "loss": history.history["loss"][-1], "steps": int(optimizer.iterations)}


def taped(function, use_sfb, name):
    net, optimizer = model(1), keras.optimizers.SGD(0.2)
    st.broadcast_variables(net.weights)
    optimizer.build(net.trainable_variables)

    def step(x, y):
        with st.DistributedGradientTape(tf.GradientTape(), use_sfb=use_sfb, name=name) as tape:
            loss = loss_of(y, net(x))
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

    # Without a signature a batch of another size traces the function once more.
    step = tf.function(step) if function else step
    for number in range(STEPS):
        rows = slice(number * batch, (number + 1) * batch)
        step(tf.constant(inputs[rows]), tf.constant(labels[rows]))
    return {"weights": weights(net), "steps": STEPS}


def sgd():
    return keras.optimizers.SGD(0.2)


def adam():
    return keras.optimizers.Adam(0.005, epsilon=1e-3)


tell(sgd=fitted(sgd(), False), sgd_sfb=fitted(sgd(), True), adam=fitted(adam(), "auto"))
tell(cnn=fitted(sgd(), "auto", convolutions), lstm=fitted(adam(), True, recurrent))
tell(transformer=fitted(adam(), True, transformer), transformer_dense=fitted(sgd(), False, transformer))
tell(cnn_adam=fitted(adam(), True, convolutions), lstm_sgd=fitted(sgd(), False, recurrent))
if workers == 4:
    shoal.shutdown()
    raise SystemExit
tell(eager=fitted(adam(), True, run_eagerly=True))
tell(tape=taped(False, True, "eager"), function=taped(True, True, "function"), dense=taped(True, False, "dense"))

# The optimizer is still what it was: its name, its saved form, and it is wrapped only once.
optimizer = st.DistributedOptimizer(keras.optimizers.Adam(0.01))
assert st.DistributedOptimizer(optimizer) is optimizer and isinstance(optimizer, keras.optimizers.Adam)
tell(saved=keras.optimizers.serialize(optimizer), plain=keras.optimizers.serialize(keras.optimizers.Adam(0.01)))
tell(shard=[int(x) for x in st.shard(tf.data.Dataset.range(7))])

# Sparse gradients travel dense; those of an embedding in fit.
net = keras.Sequential([keras.layers.Embedding(5, 8), keras.layers.Flatten(), keras.layers.Dense(1)])
net.compile(optimizer=st.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
net.fit(np.array([[rank], [4]]), np.ones((2, 1)), epochs=2, verbose=0, callbacks=[st.BroadcastCallback()])
tell(embedding=weights(net))
tell(keys={name: row["count"] for name, row in shoal.stats()["keys"].items()})
shoal.shutdown()
