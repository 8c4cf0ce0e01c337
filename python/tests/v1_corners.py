"""Read by test_tensorflow_v1.py, after v1_training.py in the same worker: what else sessions do."""


def raised(call):
    try:
        call()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    return ""


def weights(sess):
    return [value.ravel().tolist() for value in sess.run(tf.trainable_variables())]


# A session that is not distributed trains alone, whatever its process is.
with tf.Graph().as_default():
    x, y, train_op, loss = model(sgd())
    with tf.Session(config=tf.ConfigProto(distributed=False)) as sess:
        sess.run(tf.global_variables_initializer())
        bx, by = batch(0)
        sess.run(train_op, {x: bx, y: by})
        tell(native=weights(sess))

# Initialised again: again everybody takes rank 0's values. By a callable, and without any config: launched is enough.
with tf.Graph().as_default():
    x, y, train_op, loss = model(adam())
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saved = saver.save(sess, "./before%d" % rank)
        step = sess.make_callable([train_op, loss], feed_list=[x, y])
        step(*batch(0))
        step(*batch(1))
        first = weights(sess)
        sess.run(tf.global_variables_initializer())
        for number in (0, 1):
            step(*batch(number))
        tell(again=weights(sess), first=first)
        # What each of them restores is different, too.
        saver.restore(sess, saved)
        restored = weights(sess)
        for number in (0, 1):
            step(*batch(number))
        tell(restored=restored, resumed=weights(sess))

# Two optimizers in one run need a thread each, or they are refused.
with tf.Graph().as_default():
    x = tf.placeholder(tf.float32, [None, WIDTH])
    both = []
    for scope in ("a", "b"):
        value = tf.reduce_mean(tf.square(network(x, scope)))
        both.append(sgd().minimize(value, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)))
    with tf.Session(config=config()) as sess:
        sess.run(tf.global_variables_initializer())
        tell(refused=raised(lambda: sess.run(both, {x: batch(0)[0]})))
    with tf.Session(config=tf.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2)) as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(STEPS):
            sess.run(both, {x: batch(number)[0]})
        tell(both=weights(sess))

# Rows of an embedding: sparse gradients travel dense. Float64, and a variable without a gradient.
with tf.Graph().as_default():
    table = tf.get_variable("table", [6, 3], dtype=tf.float64, initializer=tf.ones_initializer())
    unused = tf.get_variable("unused", [2], initializer=tf.zeros_initializer())
    value = tf.reduce_sum(tf.gather(table, [rank, 5]))
    train_op = sgd().minimize(value)
    counter = tf.get_variable("counter", [2], dtype=tf.int64, initializer=tf.constant_initializer(2**62 + rank))
    tell(ints=raised(lambda: sgd().apply_gradients([(tf.ones([2], tf.int64), counter)])))
    with tf.Session(config=config()) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train_op)
        tell(table=sess.run(table).ravel().tolist(), counter=sess.run(counter).tolist())

# A Supervisor's threads run in the session, too, where its graph is not the default one.
with tf.Graph().as_default():
    x, y, train_op, loss = model(sgd())
    folder, count = "./supervised%d" % rank, tf.train.get_global_step()
    supervisor = tf.train.Supervisor(logdir=folder, global_step=count, summary_op=None, save_model_secs=0)
    with supervisor.managed_session(config=config()) as sess:
        for number in range(STEPS):
            bx, by = batch(number)
            sess.run(train_op, {x: bx, y: by})
        tell(supervised=weights(sess))

import shoal

tell(keys={name: row["count"] for name, row in shoal.stats()["keys"].items()})
