"""Workers that train different models are told so: which worker, which parameter, what to call."""

import numpy as np
import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

from shoal._replicas import NUMBERS, first_difference, numbers_of


def test_numbers_are_from_all_over_a_parameter():
    assert numbers_of(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]
    assert numbers_of(np.float32(7)).tolist() == [7] and len(numbers_of(np.zeros((0, 3)))) == 0
    many = numbers_of(np.arange(100_000))
    assert len(many) == NUMBERS and many[0] == 0 and many[-1] == 99_999 and (np.diff(many) > 1000).all()


@pytest.mark.parametrize(
    "change, found",
    [
        (lambda rows: None, None),
        (lambda rows: rows.__setitem__((2, 3), rows[2, 3] * 1.00001), None),  # a processor that rounds differently
        (lambda rows: rows.__setitem__((2, 3), -rows[2, 3]), (2, 0, 1)),
        (lambda rows: rows.__setitem__((1, 0), 9.0), (1, 0, 0)),
        (lambda rows: rows.__setitem__((3, 4), np.nan), (3, 0, 1)),
        (lambda rows: rows.__setitem__((slice(None), 4), np.nan), None),  # a model that is lost, on all alike
        (lambda rows: rows.__setitem__(0, 0.0), (1, 0, 0)),
    ],
)
def test_the_first_difference(change, found):
    rows = np.tile([1.0, 2.0, 0.5, -0.25, 4.0, 0.0], (4, 1))  # two parameters of 2 and 3 numbers, and one of 1
    change(rows)
    assert first_difference(rows, [2, 3, 1]) == found
    if found == (1, 0, 0) and rows[0, 0] == 0:
        assert first_difference(rows, [2, 3, 1], absent=[0]) is None, "who has gone has no row"


APART = """
import tensorflow as tf
from tensorflow import keras
import shoal.tensorflow as st
shoal.init()
keras.utils.set_random_seed(shoal.rank())
def net():
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
x, y = np.ones((24, 8), "f4"), np.ones((24, 4), "f4")
def fit(callbacks, **how):
    model = net()
    model.compile(optimizer=st.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse", jit_compile=False, **how)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=callbacks)
fit([st.BroadcastCallback()])
fit([st.BroadcastCallback()], run_eagerly=True)
tell(alike=True)
try:
    if WITH_TAPE:
        model, optimizer = net(), keras.optimizers.SGD(0.1)
        for _ in range(3):
            with st.DistributedGradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    else:
        fit([])
except Exception as error:
    tell(said=str(error))
os._exit(0)
"""


@pytest.mark.parametrize("with_tape", [False, True])
def test_keras_and_tapes_that_do_not_begin_alike(gang, with_tape, monkeypatch):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    workers = gang.start([f"WITH_TAPE = {with_tape}\n" + APART] * 2, shared_memory=0)
    for worker in workers:
        worker.end(240)
        told = {k: v for line in worker.told() for k, v in line.items()}
        assert told.get("alike"), worker.err.read_text()
        assert "worker 1 trains another model than worker 0" in told["said"], told
        assert "kernel" in told["said"] and "BroadcastCallback" in told["said"], told
