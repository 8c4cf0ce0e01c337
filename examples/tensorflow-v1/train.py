"""A script of TensorFlow 1 with Poseidon's settings, as such scripts were written; nothing in it is Shoal's.

    python train.py                                               # alone, as native TensorFlow
    psd_run -c config.json -o logs "python train.py"              # on the machines of config.json
"""

from __future__ import print_function

import json

import numpy as np
import tensorflow as tf

FLAGS = tf.app.flags.FLAGS

tf.app.flags.DEFINE_integer("max_steps", 100, "Number of batches to run.")
tf.app.flags.DEFINE_integer("batch_size", 32, "Images in a batch.")
tf.app.flags.DEFINE_boolean("use_sfb", False, "Let the gradients of dense layers travel as sufficient factors.")
tf.app.flags.DEFINE_boolean("distributed", False, "Use Poseidon")
tf.app.flags.DEFINE_string("master_address", "tcp://0.0.0.0:5555", "master address")
tf.app.flags.DEFINE_integer("client_id", -1, "client id")


def images(seed, count):
    """Noisy pictures of ten patterns: an easy stand-in for digits."""
    patterns = np.random.RandomState(0).rand(10, 64).astype("float32")
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, count)
    return patterns[labels] + 0.3 * random.randn(count, 64).astype("float32"), labels


def dense(inputs, size, name, activation=None):
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "weights", [inputs.get_shape()[1], size], initializer=tf.truncated_normal_initializer(stddev=0.1)
        )
        biases = tf.get_variable("biases", [size], initializer=tf.constant_initializer(0.0))
        outputs = tf.nn.bias_add(tf.matmul(inputs, weights), biases)
        return activation(outputs) if activation else outputs


def main(_):
    inputs = tf.placeholder(tf.float32, [None, 64])
    labels = tf.placeholder(tf.int64, [None])
    logits = dense(dense(inputs, 128, "hidden", tf.nn.relu), 10, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    config = tf.ConfigProto(log_device_placement=False)
    config.master_address = FLAGS.master_address
    config.client_id = FLAGS.client_id
    config.num_push_threads = 1
    config.num_pull_threads = 1
    config.distributed = FLAGS.distributed
    config.use_sfb = FLAGS.use_sfb
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.max_steps):
            # Each worker has its own batches.
            x, y = images(1000 * (FLAGS.client_id + 2) + step, FLAGS.batch_size)
            _, value = sess.run([train_op, loss], feed_dict={inputs: x, labels: y})
            if step % 20 == 0:
                print("step %d, loss = %.3f" % (step, value))
        x, y = images(1, 1000)
        reached = sess.run(accuracy, feed_dict={inputs: x, labels: y})
        total = sum(float(abs(value).sum()) for value in sess.run(tf.trainable_variables()))
    print(json.dumps({"accuracy": float(reached), "weights": total}))


if __name__ == "__main__":
    tf.app.run()
