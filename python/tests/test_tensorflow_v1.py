"""Scripts of TensorFlow 1, as Poseidon's documents show them, unchanged: alone, and as workers of a run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

HERE = Path(__file__).resolve().parent
HOOK = HERE.parent / "wheel" / "purelib"
EXAMPLES = HERE.parents[1] / "examples" / "tensorflow-v1"
TRAINING = (HERE / "v1_training.py").read_text()
CORNERS = (HERE / "v1_corners.py").read_text()


@pytest.fixture(autouse=True)
def hooked(tmp_path, monkeypatch):
    """As in an environment where the wheel is installed: Python reads shoal.pth when it starts."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(HOOK)!r})")
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def alone(*arguments):
    """What a script tells that runs by itself, without a launcher."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")}
    argv = [sys.executable, *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, env=clean, timeout=180)
    assert done.returncode == 0, done.stderr
    return {k: v for line in done.stdout.splitlines() if line.startswith("{") for k, v in json.loads(line).items()}


def run(gang, scripts, **settings):
    """Workers to their good end; what each told. TensorFlow takes its time to load on a busy machine."""
    workers = gang.start(scripts, **settings)
    for worker in workers:
        assert worker.end(240) == 0, f"{worker.name}: {worker.err.read_text()}"
    return [{k: v for line in worker.told() for k, v in line.items()} for worker in workers]


def same(one, other):
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=5e-4, atol=5e-5)
    return True


def test_two_workers_equal_one_process_on_the_joined_batch(gang):
    """SGD and Adam, dense and by factors, on one thread: an operation that blocked would block them all (GRAD-5)."""
    reference = alone("-c", TRAINING)
    assert all(training["ours"] == 0 for training in reference.values()), "alone, the graph is TensorFlow's own"
    zero, one = run(gang, [TRAINING + CORNERS] * 2, shared_memory=0)
    for name, training in reference.items():
        assert zero[name]["weights"] == one[name]["weights"], f"{name}: GRAD-3"
        assert zero[name]["steps"] == training["steps"] == 12
        assert zero[name]["ours"] > 0 and same(zero[name]["weights"], training["weights"]), name
        # What travels as factors is not multiplied by TensorFlow before.
        assert training["products"] == 3 and zero[name]["products"] == 0, name
    counts = zero["keys"]
    # Three trainings by factors: 12 steps each, of which the first is dense, and one more that did not fit.
    rows16 = sum(count for key, count in counts.items() if key.startswith("tf0/net/w0") and " x16" in key)
    rows24 = sum(count for key, count in counts.items() if key.startswith("tf0/net/w0") and " x24" in key)
    assert (rows16, rows24) == (11 + 11 + 5, 6), counts

    assert zero["native"] != one["native"], "sessions that are not distributed are left alone"
    assert zero["again"] == one["again"] and zero["again"] != zero["first"] and zero["first"] == one["first"]
    assert zero["restored"] != one["restored"] and zero["resumed"] == one["resumed"] == zero["first"]
    assert zero["supervised"] == one["supervised"]
    assert "inter_op_parallelism_threads is 1" in zero["refused"] and zero["both"] == one["both"]
    # Rows 0 and 1 have a gradient on one worker only, row 5 on both; SGD's rate is 0.5.
    assert zero["table"] == one["table"] == [0.75] * 3 + [0.75] * 3 + [1.0] * 9 + [0.5] * 3
    assert "counter is of int64" in zero["ints"] and "no mean" in zero["ints"]
    assert zero["counter"] == one["counter"] == [2**62] * 2, "whole numbers come through the broadcast bit by bit"


@pytest.mark.parametrize("example", ["train", "monitored"])
def test_examples_alone_and_as_two_workers(gang, tmp_path, example):
    script, more = EXAMPLES / f"{example}.py", []
    if example == "monitored":
        more = [f"--train_dir={tmp_path}/alone"]
    reference = alone(script, *more)
    workers = [run_as(script, rank, tmp_path, example) for rank in range(2)]
    zero, one = run(gang, workers)
    assert zero["weights"] == one["weights"]
    if example == "train":
        assert reference["accuracy"] > 0.95 and zero["accuracy"] > 0.95
    else:
        assert reference["loss"] < 1 and zero["loss"] < 1
        assert zero["average"] == one["average"] != zero["weights"]
        for folder in ("alone", "0", "1"):
            written = sorted(path.name for path in (tmp_path / folder).iterdir())
            assert "checkpoint" in written and any("tfevents" in name for name in written), written


def run_as(script, rank, tmp_path, example):
    """The script with the flags that psd_run appends."""
    flags = ["--distributed=True", f"--client_id={rank}"]
    flags += [f"--train_dir={tmp_path}/{rank}"] if example == "monitored" else ["--use_sfb=True"]
    return f"""
        import runpy
        sys.argv = [{str(script)!r}, "--master_address=" + os.environ["SHOAL_MASTER_ADDRESS"], *{flags!r}]
        runpy.run_path({str(script)!r}, run_name="__main__")
    """


# By its new name, and without any flag: what a launcher says in the environment is enough.
ENDLESS = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
import json, os, sys
def tell(**fields):
    print(json.dumps(fields), flush=True)
w = tf.get_variable("w", [64, 8], initializer=tf.ones_initializer())
train_op = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_sum(tf.square(w)))
sess = tf.Session(config=tf.ConfigProto(num_push_threads=1, inter_op_parallelism_threads=1))
sess.run(tf.global_variables_initializer())
step = 0
try:
    while True:
        sess.run(train_op)
        step += 1
        if step == 5:
            tell(trains=True)
except BaseException as error:
    tell(error=type(error).__name__, text=str(error))
    raise
"""


def test_a_worker_that_dies_is_named(gang):
    zero, one = gang.start([ENDLESS] * 2)
    one.until(lambda line: line.get("trains"), 240)
    zero.until(lambda line: line.get("trains"), 240)
    one.kill()
    assert zero.end() == 1
    last = zero.told()[-1]
    assert last["error"] == "DeadRankError" and "worker 1" in last["text"], last  # GRAD-5


def test_control_c_ends_a_wait_inside_tensorflow(gang):
    zero, one = gang.start([ENDLESS] * 2)
    for worker in (zero, one):
        worker.until(lambda line: line.get("trains"), 240)
    one.child.send_signal(signal.SIGSTOP)
    until_idle(zero.child.pid)  # it waits for the other one, in a thread of TensorFlow's
    try:
        zero.interrupt()
        assert zero.end() != 0
        assert zero.told()[-1]["error"] == "KeyboardInterrupt", zero.told()
    finally:
        one.child.send_signal(signal.SIGCONT)
    assert one.end() == 1
    last = one.told()[-1]
    assert last["error"] == "AbortedError" and "worker 0" in last["text"] and "Ctrl-C" in last["text"], last


def until_idle(pid):
    """Until a process has used no processor time for half a second."""
    end, before = time.monotonic() + 60, None
    while time.monotonic() < end:
        used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        if used == before:
            return
        before = used
        time.sleep(0.5)
    raise AssertionError(f"process {pid} is never idle")


SURFACE = """
import tensorflow as tf
import copy, json, pickle
def tell(**fields):
    print(json.dumps(fields), flush=True)
def raised(call):
    try:
        call()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
config = tf.ConfigProto(allow_soft_placement=True, block_size=65536, device_count={"CPU": 1})
config.gpu_options.allow_growth = True
config.use_sfb = True
fields = ("block_size", "num_push_threads", "distributed", "use_sfb", "allow_soft_placement")
tell(config=[getattr(config, name) for name in fields])
for other in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
    assert other == config and other is not config
    assert other.gpu_options.allow_growth and other.block_size == 65536
other = tf.ConfigProto()
other.CopyFrom(config)
native = type(config.native).FromString(config.SerializeToString())
assert other.use_sfb and native.gpu_options.allow_growth
assert isinstance(config, tf.ConfigProto) and isinstance(native, tf.ConfigProto)
def misspelt():
    config.num_push_thread = 1
def wrong():
    config.client_id = "one"
tell(misspelt=raised(misspelt), keyword=raised(lambda: tf.ConfigProto(distribute=True)), wrong=raised(wrong))
tell(contrib=raised(lambda: tf.contrib.slim.conv2d))
tell(gone=raised(lambda: __import__("tensorflow.contrib.layers", globals())))
import tensorflow.python.client.session, tensorflow
from tensorflow import flags, Session
import keras.src.backend.tensorflow.core as modern
assert tensorflow is tf and tensorflow.python and Session is tf.Session
assert modern.tf is not tf and hasattr(modern.tf, "eig")
assert not hasattr(modern.tf, "Session") and modern.tf.compat.v1.Session is tf.Session
with tf.Session(config=config) as sess:
    tell(product=float(sess.run(tf.mul(tf.constant(3.0), 2.0))))
server = tf.train.Server.create_local_server(config=config)
assert tf.Session(server.target, config=config).run(tf.constant(7)) == 7
"""

# Mentions what only version 2 has: left alone, though it speaks of sessions.
MODERN = """
import tensorflow as tf
import builtins, sys
@tf.function
def half(x):
    return x / 2
if tf.__version__.startswith("1."):
    tf.Session().run(half(1.0))
assert tf.executing_eagerly() and not hasattr(tf, "Session") and not hasattr(tf, "ConfigProto")
assert type(tf).__name__ == "module" and "shoal" not in sys.modules and builtins.__import__.__module__ == "builtins"
assert not any(type(finder).__module__.startswith("_shoal_tensorflow") for finder in sys.meta_path)
tf.compat.v1.train.Optimizer.apply_gradients.__module__.startswith("tensorflow") or sys.exit(1)
print('{"modern": true}')
"""


def test_the_surface_that_scripts_see():
    told = alone("-c", SURFACE)
    assert told["config"] == [65536, 4, False, True, True]
    assert told["misspelt"].endswith("ConfigProto has no field 'num_push_thread'; did you mean num_push_threads?")
    assert told["keyword"] == "ValueError: ConfigProto has no field 'distribute'; did you mean distributed?"
    assert told["wrong"] == "TypeError: ConfigProto.client_id is 'one' (str); expected a whole number"
    assert "tf.contrib.slim ended with TensorFlow 1" in told["contrib"] and "tf_slim" in told["contrib"]
    assert "tensorflow.contrib.layers ended with TensorFlow 1" in told["gone"]
    assert told["product"] == 6.0
    assert alone("-c", MODERN) == {"modern": True}


def test_which_scripts_are_of_version_1():
    sys.path.insert(0, str(HOOK))
    try:
        from _shoal_tensorflow_era import is_v1, mentions
    finally:
        sys.path.remove(str(HOOK))
    assert is_v1("import tensorflow as tf\nwith tf.Session() as s: pass")
    assert is_v1("import tensorflow\ntensorflow.app.run()")
    assert is_v1("from tensorflow import placeholder")
    assert is_v1("from tensorflow.contrib import slim")
    assert is_v1("import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\ntf.Session()")
    assert is_v1("from tensorflow.compat import v1 as tf\ntf.train.MonitoredTrainingSession()")
    assert not is_v1("import tensorflow.compat.v1 as tf\ntf.random_normal([1])")
    assert not is_v1("import tensorflow as tf\ntf.constant(1)")
    assert not is_v1("import tensorflow as tf\ntf.compat.v1.Session()")
    assert not is_v1("import tensorflow as tf\n@tf.function\ndef f(): tf.Session()")
    assert not is_v1("import numpy as tf\ntf.Session()")
    assert not is_v1("import tensorflow as tf\ntf.Session(")
    assert mentions("c.use_sfb = True", "use_sfb") and mentions("C(use_sfb=1)", "use_sfb")
    assert not mentions("# use_sfb", "use_sfb")
