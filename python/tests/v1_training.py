"""Read by test_tensorflow_v1.py: small trainings written for TensorFlow 1, alone or as a worker of two."""

import json
import os

import numpy as np
import tensorflow as tf

WORKERS, STEPS, WIDTH = 2, 12, 12
alone = "SHOAL_CLIENT_ID" not in os.environ
rank = int(os.environ.get("SHOAL_CLIENT_ID", 0))
random = np.random.default_rng(1)
inputs = random.standard_normal((STEPS, WORKERS, 24, WIDTH)).astype("f4")
labels = random.integers(0, 10, (STEPS, WORKERS, 24))


def config(**more):
    settings = tf.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=1, **more)
    settings.distributed = not alone
    settings.client_id = -1
    return settings


def network(x, scope="net"):
    layer, width = x, WIDTH
    with tf.variable_scope(scope):
        for number, (units, act) in enumerate([(24, tf.nn.relu), (16, tf.nn.tanh), (10, tf.identity)]):
            # Workers that begin with different weights: all must go on from rank 0's.
            start = tf.truncated_normal_initializer(stddev=0.3, seed=number + 1 + 100 * rank)
            w = tf.get_variable("w%d" % number, [width, units], initializer=start)
            b = tf.get_variable("b%d" % number, [units], initializer=tf.constant_initializer(0.1 + rank))
            layer, width = act(tf.nn.bias_add(tf.matmul(layer, w), b)), units
    return layer


def model(optimizer):
    x, y = tf.placeholder(tf.float32, [None, WIDTH]), tf.placeholder(tf.int64, [None])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=network(x)))
    step = tf.train.get_or_create_global_step()
    return x, y, optimizer.minimize(loss, global_step=step), loss


def batch(step, rows=16):
    part = slice(None) if alone else slice(rank, rank + 1)
    return inputs[step, part, :rows].reshape(-1, WIDTH), labels[step, part, :rows].reshape(-1)


def train(make_optimizer, use_sfb=False, odd_rows=16):
    """The weights after some steps, of which one has another batch size."""
    with tf.Graph().as_default() as graph:
        x, y, train_op, loss = model(make_optimizer())
        settings, ran = config(use_sfb=use_sfb), tf.RunMetadata()
        trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.Session(config=settings) as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(STEPS):
                bx, by = batch(step, odd_rows if step == 5 else 16)
                sess.run([train_op, loss], {x: bx, y: by}, trace, ran)
            nodes = {node.node_name for device in ran.step_stats.dev_stats for node in device.node_stats}
            weights = [value.ravel().tolist() for value in sess.run(tf.trainable_variables())]
            steps = int(sess.run(tf.train.get_global_step()))
        ours = [op.name for op in graph.get_operations() if "shoal" in op.name]
    products = sum("_grad/MatMul_1" in node for node in nodes)
    return {"weights": weights, "steps": steps, "ours": len(ours), "products": products}


def sgd():
    return tf.train.GradientDescentOptimizer(0.5)


def adam():
    return tf.train.AdamOptimizer(0.01)


def tell(**fields):
    print(json.dumps(fields), flush=True)


tell(sgd=train(sgd), adam=train(adam))
# A smaller batch than agreed, and one that does not fit.
tell(sgd_sfb=train(sgd, True, 12), adam_sfb=train(adam, True, 16), sgd_large=train(sgd, True, 24))
tell(sgd_small=train(sgd, False, 12), sgd_large_dense=train(sgd, False, 24))
