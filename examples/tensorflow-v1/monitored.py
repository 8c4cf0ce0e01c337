"""More of TensorFlow 1: queue runners feed the batches, a moving average follows the weights, and a
MonitoredTrainingSession writes checkpoints and summaries. As in the other example nothing here is Shoal's.

    python monitored.py --train_dir=/tmp/monitored
    psd_run -c config.json -o logs "python monitored.py --train_dir=/tmp/monitored"
"""

from __future__ import print_function

import json

import numpy as np
import tensorflow as tf

FLAGS = tf.app.flags.FLAGS

tf.app.flags.DEFINE_string("train_dir", "/tmp/monitored", "Where checkpoints and summaries go.")
tf.app.flags.DEFINE_integer("max_steps", 60, "Number of batches to run.")
tf.app.flags.DEFINE_boolean("distributed", False, "Use Poseidon")
tf.app.flags.DEFINE_string("master_address", "tcp://0.0.0.0:5555", "master address")
tf.app.flags.DEFINE_integer("client_id", -1, "client id")


def inputs(batch_size):
    """Points of a plane with noise, through an input queue and a batch queue."""
    random = np.random.RandomState(FLAGS.client_id + 2)
    points = random.rand(512, 8).astype("float32")
    heights = points.dot(np.arange(8, dtype="float32")) + 0.01 * random.randn(512).astype("float32")
    point, height = tf.train.slice_input_producer([tf.constant(points), tf.constant(heights)], shuffle=True, seed=3)
    return tf.train.shuffle_batch([point, height], batch_size, capacity=256, min_after_dequeue=64, num_threads=2)


def main(_):
    with tf.Graph().as_default():
        global_step = tf.train.get_or_create_global_step()
        points, heights = inputs(32)
        with tf.variable_scope("plane"):
            weights = tf.get_variable("weights", [8, 1], initializer=tf.random_normal_initializer())
            bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(points, weights) + bias, 1) - heights))
        tf.summary.scalar("loss", loss)

        rate = tf.train.exponential_decay(0.2, global_step, 20, 0.9, staircase=True)
        optimizer = tf.train.MomentumOptimizer(rate, 0.5)
        gradients = optimizer.compute_gradients(loss)
        for gradient, variable in gradients:
            tf.summary.histogram(variable.op.name + "/gradients", gradient)
        apply_op = optimizer.apply_gradients(gradients, global_step=global_step)
        averages = tf.train.ExponentialMovingAverage(0.9, global_step)
        with tf.control_dependencies([apply_op]):
            train_op = averages.apply(tf.trainable_variables())

        class Log(tf.train.SessionRunHook):
            def before_run(self, context):
                return tf.train.SessionRunArgs([loss, global_step])

            def after_run(self, context, values):
                value, step = values.results
                if step % 20 == 0:
                    print("step %d, loss = %.4f" % (step, value))

        config = tf.ConfigProto(
            master_address=FLAGS.master_address, client_id=FLAGS.client_id, distributed=FLAGS.distributed
        )
        result = {}
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=FLAGS.train_dir,
            hooks=[tf.train.StopAtStepHook(last_step=FLAGS.max_steps), tf.train.NanTensorHook(loss), Log()],
            save_checkpoint_secs=600,
            save_summaries_steps=10,
            config=config,
        ) as session:
            while not session.should_stop():
                fetched = session.run(
                    {"train": train_op, "loss": loss, "weights": weights, "average": averages.average(weights)}
                )
                result = {"loss": float(fetched["loss"])}
                last = fetched
        result["weights"] = last["weights"].ravel().tolist()
        result["average"] = last["average"].ravel().tolist()
    print(json.dumps(result))


if __name__ == "__main__":
    tf.app.run()
