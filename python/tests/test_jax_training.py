"""Training with shoal.jax is training in one process on the joined batch; replicas are the same bytes (GRAD-3)."""

import textwrap
from pathlib import Path

import pytest
from jax_gang import run

pytest.importorskip("jax")
pytest.importorskip("optax")
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

START = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
# Small programs: the time goes into compiling them.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
import hashlib, jax, jax.numpy as jnp, optax, shoal.jax, jax_models
shoal.init()
rank, workers = shoal.rank(), shoal.size()

def digest(tree):
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree))).hexdigest()

def distance(one, other):
    return max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)))

def optimizers():
    return {{"sgd": optax.sgd(0.1, momentum=0.9), "adam": optax.adam(0.003, eps=1e-4)}}
"""

COMPARE = """
STEPS, SAMPLES = 50, 4
CASES = [
    ("mlp", "adam", "factors"), ("cnn", "sgd", "dense"), ("transformer", "sgd", "factors"), ("lstm", "adam", "factors"),
    ("mlp", "sgd", "dense"), ("mlp", "sgd", "auto"), ("cnn", "adam", "factors"), ("transformer", "adam", "dense"),
    ("lstm", "sgd", "dense"),
][: 9 if workers == 2 else 4]

def make_step(loss, tx, gradients):
    @jax.jit
    def step(params, state, x, y):
        updates, state = tx.update(gradients(params, x, y), state, params)
        return optax.apply_updates(params, updates), state
    return step

for model, optimizer, scheme in CASES:
    params, loss, data = getattr(jax_models, model)(np.random.default_rng(1))
    tx = optimizers()[optimizer]
    if scheme == "dense":
        step = make_step(loss, shoal.jax.distribute(tx), jax.grad(loss))
    else:
        step = make_step(loss, tx, shoal.jax.grad(loss, use_sfb=True if scheme == "factors" else "auto"))
    alone = make_step(loss, tx, jax.grad(loss))
    # Only rank 0 has the right start; the others get it.
    mine = shoal.jax.broadcast(jax.tree.map(lambda leaf: leaf + rank, params))
    state, reference = tx.init(mine), (params, tx.init(params))
    rng = np.random.default_rng(2)
    for k in range(STEPS):
        x, y = data(rng, workers * SAMPLES)
        part = slice(rank * SAMPLES, (rank + 1) * SAMPLES)
        mine, state = step(mine, state, x[part], y[part])
        if rank == 0:
            reference = alone(*reference, x, y)
    far = distance(mine, reference[0]) if rank == 0 else None
    tell(**{f"{model} {optimizer} {scheme}": {"digest": digest(mine), "far": far, "moved": distance(mine, params)}})
shoal.barrier()
"""


@pytest.mark.parametrize("workers, shared_memory", [(1, 1), (2, 0), (4, 1)])
def test_it_equals_one_process_on_the_joined_batch(gang, workers, shared_memory):
    told = run(gang, workers, START + COMPARE, shared_memory=shared_memory)
    assert len(told[0]) == (9 if workers == 2 else 4)
    for case, first in told[0].items():
        assert first["moved"] > 0.01 and first["far"] < 2e-5, (case, first)
        assert {other[case]["digest"] for other in told} == {first["digest"]}, case


UNEVEN = """
params, loss, data = jax_models.mlp(np.random.default_rng(1))

def make_step(gradients):
    @jax.jit
    def step(params, x, y):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients(params, x, y))
    return step

def samples(params, x, y):
    return len(x)

from shoal.jax import _exchange
seen = []
dense = make_step(lambda p, x, y: shoal.jax.pmean(jax.grad(loss)(p, x, y), weight=len(x)))
factors = make_step(shoal.jax.grad(loss, use_sfb=True, weight=samples))
automatic = make_step(shoal.jax.grad(loss, weight=samples))
alone = make_step(jax.grad(loss))
# Batches of each worker: even; uneven; larger than agreed on one, on both; as before; one far too large for factors.
SIZES = [(4, 4)] * 3 + [(4, 2), (6, 4), (8, 8), (4, 4), (4, 300), (4, 4), (4, 4)]
a = b = c = reference = params
rng = np.random.default_rng(2)
for sizes in SIZES:
    x, y = data(rng, sum(sizes))
    begin = sum(sizes[:rank])
    part = slice(begin, begin + sizes[rank])
    a, b, c = dense(a, x[part], y[part]), factors(b, x[part], y[part]), automatic(c, x[part], y[part])
    reference = alone(reference, x, y)
    jax.block_until_ready((a, b, c))
    exchanges = {e.use_sfb: e for e in _exchange._all.values()}
    seen.append([[slot.factors and slot.factors.rows for slot in exchanges[sfb]._slots] for sfb in (True, "auto")])
tell(digests=[digest(tree) for tree in (a, b, c)], far=[distance(tree, reference) for tree in (a, b, c)], seen=seen)
shoal.barrier()
"""


def test_uneven_and_changing_batches(gang):
    """The weighted mean; when a batch does not fit the agreed factors, that step goes dense and all agree anew."""
    first, second = run(gang, 2, START + UNEVEN, shared_memory=0)
    assert first["digests"] == second["digests"] and first["seen"] == second["seen"]
    assert max(first["far"]) < 2e-5
    always, automatic = zip(*first["seen"])
    # The bias stays dense, the weights are agreed after the first step and grow with the largest batch.
    assert [rows[0] for rows in always] == [None] * len(always)
    assert [rows[1] for rows in always] == [4] * 4 + [6] + [8] * 2 + [300] * 3
    assert always[-1][2] == 300
    # What the planner chooses at first is for the link to say, as measured on a machine that may be busy; a batch far too large
    # makes it choose dense.
    assert automatic[0][1] in (4, None) and automatic[-1] == [None, None, None]


RELINKED = """
from shoal import _measure, _planner
from shoal.jax import _exchange
link = {"bandwidth": 1e6}
def everything(prefix, multiply=None):
    return _measure.Measured(shoal.size(), 0, 1, link["bandwidth"], link["bandwidth"], 1e-4, 1e7)
_planner._measure.everything = everything
_planner._measure.bandwidth_now = lambda measured, prefix: link["bandwidth"]
_planner.CHECK_EVERY = 3

def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)

rng = np.random.default_rng(1)
params = {"a": rng.standard_normal((64, 64)).astype("f4") / 8, "b": rng.standard_normal((64, 64)).astype("f4") / 8}
reference, tx = params, optax.sgd(0.5)

def make_step(gradients):
    @jax.jit
    def step(params, x, y):
        return optax.apply_updates(params, tx.update(gradients(params, x, y), tx.init(params), params)[0])
    return step

together, alone, seen = make_step(shoal.jax.grad(loss)), make_step(jax.grad(loss)), []
for k in range(10):
    if k == 5:
        link["bandwidth"] = 1e12
    x, y = (rng.standard_normal((4 * workers, 64)).astype("f4") for _ in range(2))
    part = slice(4 * rank, 4 * rank + 4)
    params, reference = jax.block_until_ready((together(params, x[part], y[part]), alone(reference, x, y)))
    (exchange,) = _exchange._all.values()
    seen.append([slot.factors is not None for slot in exchange._slots])
tell(seen=seen, digest=digest(params), far=distance(params, reference))
shoal.barrier()
"""


def test_the_plan_follows_the_link(gang):
    """Looked at every CHECK_EVERY steps; a link that costs nothing any more makes rebuilding too dear."""
    first, second = run(gang, 2, START + RELINKED, shared_memory=0)
    assert first == second and first["far"] < 1e-5
    assert first["seen"] == [[True, True]] * 6 + [[False, False]] * 4


def test_products_are_not_computed_where_factors_travel(gang):
    """Every product of the weight's size is inside a branch of the program; the bytes on the wire are the factors'."""
    script = """
    w, x = jnp.zeros((512, 256)), jnp.ones((2, 512))
    def loss(w, x):
        return jnp.tanh(x @ w).sum()
    step = jax.jit(shoal.jax.grad(loss, use_sfb="auto"))
    entry = step.lower(w, x).compile().as_text().split("ENTRY")[1]
    tell(large=[line for line in entry.splitlines() if " dot(" in line and "512,256" in line.split(" dot(")[0]])
    for k in range(3):
        step(w, x).block_until_ready()
    before = shoal.stats()["bytes_sent"]
    for k in range(10):
        step(w, x).block_until_ready()
    tell(bytes=(shoal.stats()["bytes_sent"] - before) / 10)
    shoal.barrier()
    """
    for told in run(gang, 2, START + textwrap.dedent(script), shared_memory=0):
        assert told["large"] == []
        # (2 rows + 1 of fields) x (512 + 256) numbers, and the frames' headers; dense would be 512 KiB.
        assert 9216 <= told["bytes"] < 12_000, told


def test_gradients_leave_while_the_backward_pass_goes_on(gang):
    """The last layer's starts first, and when it does the first layer's is not even computed."""
    script = """
    from jax.experimental import io_callback
    from shoal.jax import _exchange
    seen = []
    original = _exchange.Exchange.start_dense
    def start_dense(self, leaf, *rest):
        seen.append(f"start {leaf}")
        return original(self, leaf, *rest)
    _exchange.Exchange.start_dense = start_dense
    @jax.custom_vjp
    def mark(x, k):
        return x
    def back(k, g):
        # In the data flow of the backward pass, between two layers.
        shape = jax.ShapeDtypeStruct(g.shape, g.dtype)
        return io_callback(lambda g: (seen.append(f"backward {int(k)}"), g)[1], shape, g), None
    mark.defvjp(lambda x, k: (x, k), back)
    def loss(ws, x):
        for k, w in enumerate(ws):
            x = mark(jnp.tanh(x @ w), k)
        return (x ** 2).sum()
    ws, x = [jnp.ones((64, 64)) * 0.01] * 4, jnp.ones((8, 64))
    ways = {"pmean": lambda ws, x: shoal.jax.pmean(jax.grad(loss)(ws, x)), "grad": shoal.jax.grad(loss, use_sfb=False)}
    for name, grad in ways.items():
        seen.clear()
        jax.block_until_ready(jax.jit(grad)(ws, x))
        tell(**{name: seen})
    shoal.barrier()
    """
    for told in run(gang, 2, START + textwrap.dedent(script), shared_memory=0):
        for order in told.values():
            assert order.index("start 3") < order.index("backward 0"), order
            assert [step for step in order if step.startswith("start")] == [f"start {k}" for k in (3, 2, 1, 0)], order
