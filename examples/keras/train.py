"""A Keras model on several workers: three lines more than on one (marked), and each worker reads its part of the data.

    python train.py                             # alone
    shoal run -n 4 -- python train.py           # four workers on this machine
"""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

import shoal
import shoal.tensorflow

BATCH, EPOCHS = 64, 3


def images(count, seed):
    """Noisy pictures of ten patterns: an easy stand-in for digits."""
    patterns = np.random.default_rng(0).random((10, 64), dtype="f4")
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return patterns[labels] + 0.3 * random.standard_normal((count, 64), dtype="f4"), labels


def main():
    shoal.init(distributed="SHOAL_MASTER_ADDRESS" in os.environ)  # 1: join the run, or be a world of one
    data = tf.data.Dataset.from_tensor_slices(images(4096, seed=1))
    data = shoal.tensorflow.shard(data).shuffle(4096, seed=2).batch(BATCH // shoal.size(), drop_remainder=True)
    model = keras.Sequential(
        [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(10)]
    )
    model.compile(
        optimizer=shoal.tensorflow.DistributedOptimizer(keras.optimizers.Adam(1e-3)),  # 2: everybody's mean gradient
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    callbacks = [shoal.tensorflow.BroadcastCallback(), shoal.tensorflow.MetricAverageCallback()]  # 3: begin alike
    history = model.fit(data, epochs=EPOCHS, callbacks=callbacks, verbose=2 if shoal.rank() == 0 else 0)
    _, accuracy = model.evaluate(*images(1000, seed=3), verbose=0)
    weights = float(sum(np.abs(weight).sum() for weight in model.get_weights()))
    print(json.dumps({"accuracy": accuracy, "weights": weights, "loss": history.history["loss"][-1]}))


if __name__ == "__main__":
    main()
