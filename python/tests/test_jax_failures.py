"""Bad days inside compiled steps: each wait ends, and the error names its culprit (GANG-2, GRAD-5)."""

import pytest
from jax_gang import PATIENCE

pytest.importorskip("jax")
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

# Steps for ever; the step tells when it is compiled and running.
TRAIN = """
import jax, jax.numpy as jnp, shoal.jax
shoal.init()

@jax.jit
def step(w, x):
    return w - 0.1 * shoal.jax.GRAD(w, x)

def loss(w, x):
    return ((x @ w) ** 2).mean()

w, x = jnp.ones((300, 200)), jnp.ones((4, 300))
for k in range(10**9):
    w = step(w, x)
    if k % 10 == 0:
        w.block_until_ready()
        tell(step=k)
    AFTER
"""


def training(grad="value_and_grad(loss, use_sfb=True)(w, x)[1]", after="pass"):
    return TRAIN.replace("GRAD(w, x)", grad).replace("AFTER", after)


# Tells when one wait inside a callback lasts.
WATCHED = """
def look():
    from shoal.jax import _interrupt
    before = None
    while True:
        now = [wait for wait, _ in list(_interrupt._waiting.values())]
        if now and now == before:
            tell(waits=True)
            return
        before = now
        time.sleep(2)
threading.Thread(target=look, daemon=True).start()
"""

DENSE, FACTORS = "pmean(jax.grad(loss)(w, x))", "value_and_grad(loss, use_sfb=True)(w, x)[1]"


@pytest.mark.parametrize("grad, shared_memory", [(DENSE, 1), (FACTORS, 0)])
def test_a_worker_that_dies_is_named_by_the_others(gang, grad, shared_memory):
    workers = gang.start([training(grad)] * 3, shared_memory=shared_memory)
    for worker in workers:
        worker.until(lambda line: line["step"] >= 20, PATIENCE)
    workers[1].kill()
    for worker in (workers[0], workers[2]):
        assert worker.end(PATIENCE) == 1
        text = worker.err.read_text()
        assert "worker 1 on" in text and f"(pid {workers[1].child.pid})" in text and "DeadRankError" in text, text


def test_errors_come_out_typed(gang):
    script = """
    import jax, jax.numpy as jnp, shoal.jax
    shoal.init()
    step = jax.jit(shoal.jax.pmean)
    try:
        with shoal.jax.named_errors():
            for k in range(10**9):
                w = step(jnp.ones(1000))
                if k == 20 and shoal.rank() == 1:
                    os._exit(3)
    except shoal.DeadRankError as error:
        tell(rank=error.rank, wrapped=type(error.__cause__).__name__)
    """
    first, second = gang.start([script] * 2)
    assert second.end(PATIENCE) == 3
    # The script has dealt with the error; that the run is over is still said at the end.
    first.end(PATIENCE)
    assert first.told() == [{"rank": 1, "wrapped": "JaxRuntimeError"}]


def test_an_exception_in_the_script_reaches_everyone(gang):
    bad = training(DENSE, "if k == 30: raise ValueError('no such file')")
    first, second = gang.start([training(DENSE), bad])
    assert second.end(PATIENCE) == 1 and "ValueError: no such file" in second.err.read_text()
    assert first.end(PATIENCE) == 1
    text = first.err.read_text()
    assert "worker 1 on" in text and "no such file" in text, text


@pytest.mark.parametrize("grad", [DENSE, FACTORS])
def test_ctrl_c_while_a_step_waits_for_another_worker(gang, grad):
    """Worker 1 never comes to its 31st step; worker 0 waits for it inside XLA and is interrupted."""
    late = training(grad, "k == 30 and time.sleep(600)")
    first, second = gang.start([WATCHED + training(grad), late])
    first.until(lambda line: "waits" in line, PATIENCE)
    first.interrupt()
    assert first.end(PATIENCE) != 0
    text = first.err.read_text()
    assert "KeyboardInterrupt" in text, text
    second.interrupt()
    assert second.end(PATIENCE) != 0


def test_a_script_that_ends_before_the_others_is_an_error(gang):
    """Otherwise the others would train on alone without a word (GRAD-5)."""
    script = training().replace("range(10**9)", "range(6 - shoal.rank())") + "w.block_until_ready()\n"
    workers = gang.start([script] * 2)
    codes = [worker.end(PATIENCE) for worker in workers]
    said = "".join(worker.err.read_text() for worker in workers)
    assert all(codes), said
    assert "the end of the script" in said and "shoal.finish()" in said, said
