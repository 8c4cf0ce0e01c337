"""Keras and gradient tapes of TensorFlow 2, with real workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

HERE = Path(__file__).resolve().parent
TRAINING = (HERE / "keras_training.py").read_text()
EXAMPLE = HERE.parents[1] / "examples" / "keras" / "train.py"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def alone(*arguments, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")}
    argv = [sys.executable, *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, env={**clean, **env}, timeout=240)
    assert done.returncode == 0, done.stderr
    return {k: v for line in done.stdout.splitlines() if line.startswith("{") for k, v in json.loads(line).items()}


def run(gang, scripts, **settings):
    workers = gang.start(scripts, **settings)
    for worker in workers:
        assert worker.end(240) == 0, f"{worker.name}: {worker.err.read_text()}"
    return [{k: v for line in worker.told() for k, v in line.items()} for worker in workers]


FITTED = ("sgd", "sgd_sfb", "adam", "cnn", "cnn_adam", "lstm", "lstm_sgd", "transformer", "transformer_dense")


@pytest.fixture(scope="module")
def reference():
    """One process on the joined batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        return alone("-c", TRAINING)


def equal(told, reference, names):
    for name in names:
        for other in told[1:]:
            assert told[0][name]["weights"] == other[name]["weights"], f"{name}: GRAD-3"
        assert told[0][name]["steps"] == 50
        for ours, theirs in zip(told[0][name]["weights"], reference[name]["weights"]):
            np.testing.assert_allclose(ours, theirs, rtol=5e-4, atol=1e-4, err_msg=name)
        if "loss" in told[0][name]:
            assert {each[name]["loss"] for each in told} == {told[0][name]["loss"]}
            assert told[0][name]["loss"] == pytest.approx(reference[name]["loss"], rel=1e-4)


def test_four_workers_equal_one_process_on_the_joined_batch(gang, reference):
    """50 steps of SGD and Adam, dense and by factors: perceptron, convolutions, transformer with a tied embedding, LSTM."""
    equal(run(gang, [TRAINING] * 4, shared_memory=1), reference, FITTED)


def test_two_workers_equal_one_process_on_the_joined_batch(gang, reference):
    """The same, also with a tape, eager and in functions; on one thread (GRAD-5)."""
    zero, one = run(gang, [TRAINING] * 2, shared_memory=0)
    equal([zero, one], reference, (*FITTED, "eager", "tape", "function", "dense"))
    # Adam and the convolutions leave the choice to what was measured (auto), so either may be right for them.
    auto = ("keras2/", "keras3/")
    factors = {key: count for key, count in zero["keys"].items() if " x16" in key and not key.startswith(auto)}
    assert sorted(factors.values()) == [49] * 8, f"three layers in fit and in the function, and the last ones of two networks: {factors}"
    assert (zero["shard"], one["shard"], reference["shard"]) == ([0, 2, 4], [1, 3, 5], list(range(7)))
    assert zero["embedding"] == one["embedding"]
    # Named after their number in the process; otherwise the same, so what is saved loads without Shoal.
    names = [saved["config"].pop("name") for saved in (zero["saved"], zero["plain"])]
    assert zero["saved"] == zero["plain"] and all(name.startswith("adam") for name in names)


MIXED = """
import tensorflow as tf
from tensorflow import keras
import shoal.tensorflow as st

keras.config.set_dtype_policy("mixed_float16")
shoal.init()
keras.utils.set_random_seed(shoal.rank())
x = np.random.default_rng(shoal.rank()).standard_normal((24, 12)).astype("f4")
if shoal.rank() == 1:
    x[8] = 6e4  # the third batch overflows, here alone
net = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1, dtype="float32")])
optimizer = st.DistributedOptimizer(keras.optimizers.SGD(0.1))
net.compile(optimizer=optimizer, loss="mse", jit_compile=False)
assert type(net.optimizer).__name__ == "LossScaleOptimizer"
net.fit(x, np.ones((24, 1), "f4"), batch_size=4, shuffle=False, verbose=0, callbacks=[st.BroadcastCallback()])
tell(weights=[value.ravel().tolist() for value in net.get_weights()], scale=float(net.optimizer.dynamic_scale.numpy()))
tell(steps=int(net.optimizer.iterations.numpy()), saved=json.dumps(keras.optimizers.serialize(net.optimizer)))
"""


def test_who_scales_losses_leaves_out_a_step_on_all_workers_or_on_none(gang):
    """compile() puts a LossScaleOptimizer around the distributed one; a worker that overflows must not fall a step behind."""
    zero, one = run(gang, [MIXED] * 2, shared_memory=0)
    assert zero == one, "GRAD-3"
    assert zero["steps"] == 5 and zero["scale"] == 2.0**14, zero
    assert "shoal" not in zero["saved"]


RELINKED = """
import tensorflow as tf
from tensorflow import keras
import shoal.tensorflow as st
from shoal import _measure, _planner

shoal.init()
link = {"bandwidth": 1e6}
def everything(prefix, multiply=None):
    return _measure.Measured(shoal.size(), 0, 1, link["bandwidth"], link["bandwidth"], 1e-4, 1e7)
_planner._measure.everything = everything
_planner._measure.bandwidth_now = lambda measured, prefix: link["bandwidth"]
_planner.CHECK_EVERY = 3
net = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, "tanh"), keras.layers.Dense(64)])
st.broadcast_variables(net.weights)
optimizer = keras.optimizers.SGD(0.1)

@tf.function
def step(x):
    with st.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean((net(x) - 1) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

seen = []
for k in range(10):
    if k == 5:
        link["bandwidth"] = 1e12
    step(tf.constant(np.random.default_rng(2 * k + shoal.rank()).standard_normal((4, 64)).astype("f4")))
    (synchroniser,) = st.DistributedGradientTape._by_name.values()
    (exchange,) = synchroniser._exchanges.values()
    seen.append(exchange.schemes())
tell(seen=seen, weights=[value.ravel().tolist() for value in net.get_weights()])
"""


def test_the_plan_follows_the_link(gang):
    """Looked at every CHECK_EVERY steps; a link that costs nothing any more makes rebuilding too dear."""
    zero, one = run(gang, [RELINKED] * 2, shared_memory=0)
    assert zero == one, "GRAD-3"
    assert zero["seen"] == [[True, False] * 2] * 6 + [[False] * 4] * 4


def test_the_example_alone_and_as_two_workers(gang):
    reference = alone(EXAMPLE)
    zero, one = run(gang, [f"import runpy; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"] * 2)
    assert zero["weights"] == one["weights"] and zero["loss"] == one["loss"]
    assert zero["accuracy"] > 0.9 and reference["accuracy"] > 0.9


DIES = """
import tensorflow as tf
from tensorflow import keras
import shoal.tensorflow as st
shoal.init()
net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
net.compile(optimizer=st.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
class Tell(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            tell(trains=True)
data = tf.data.Dataset.from_tensors((tf.ones([2, 4]), tf.ones([2, 3]))).repeat()
try:
    net.fit(data, steps_per_epoch=10**6, verbose=0, callbacks=[st.BroadcastCallback(), Tell()])
except Exception as error:
    tell(error=type(error).__name__, text=str(error))
    raise
"""


def test_a_worker_that_dies_is_named(gang):
    zero, one = gang.start([DIES] * 2)
    for worker in (zero, one):
        worker.until(lambda line: line.get("trains"), 240)
    one.kill()
    assert zero.end() == 1
    assert "worker 1" in zero.told()[-1]["text"], zero.told()  # GRAD-5


ENDS = """
import tensorflow as tf
from tensorflow import keras
import shoal.tensorflow as st
shoal.init()
net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
net.compile(optimizer=st.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
data = tf.data.Dataset.from_tensors((tf.ones([2, 4]), tf.ones([2, 3]))).repeat()
net.fit(data, steps_per_epoch=5 - shoal.rank(), verbose=0, callbacks=[st.BroadcastCallback()])
"""


def test_a_script_that_ends_before_the_others_is_an_error(gang):
    """Otherwise the others would train on alone without a word (GRAD-5)."""
    workers = gang.start([ENDS] * 2)
    codes = [worker.end(240) for worker in workers]
    said = "".join(worker.err.read_text() for worker in workers)
    assert all(codes), said
    assert "the end of the script" in said and "shoal.finish()" in said, said


def test_what_is_no_optimizer_tape_or_dataset_is_named(tmp_path):
    script = """
import json, shoal.tensorflow as st
def said(call):
    try:
        call()
    except TypeError as error:
        return str(error)
wrong = [lambda: st.DistributedOptimizer("sgd"), lambda: st.DistributedGradientTape(3), lambda: st.shard([1, 2])]
print(json.dumps({"said": [said(call) for call in wrong]}))
"""
    optimizer, tape, dataset = alone("-c", script, tmp_path)["said"]
    assert "an optimizer of Keras" in optimizer and "'sgd'" in optimizer
    assert "a tf.GradientTape, got 3" in tape and "a tf.data.Dataset, got list" in dataset


def test_missing_or_old_tensorflow_is_said_clearly(tmp_path):
    (tmp_path / "tensorflow.py").write_text("__version__ = '2.11.1'")
    script = """
import json, sys
def said(call):
    try:
        call()
    except ImportError as error:
        return str(error)
def load():
    import shoal.tensorflow
old = said(load)
sys.path.remove(sys.argv[1])
for name in [name for name in sys.modules if name.startswith(("tensorflow", "shoal.tensorflow"))]:
    del sys.modules[name]
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
sys.meta_path.insert(0, Nowhere())
print(json.dumps({"old": old, "missing": said(load)}))
"""
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    told = alone("-c", script, tmp_path, PYTHONPATH=os.pathsep.join(path for path in paths if path))
    assert "needs TensorFlow 2.12 or newer, and this environment has 2.11.1" in told["old"]
    assert "not installed" in told["missing"] and "pip install" in told["missing"]
