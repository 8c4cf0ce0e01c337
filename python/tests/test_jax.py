"""shoal.jax inside and outside of compiled programs: transformations, types, names, versions."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from jax_gang import run

jax = pytest.importorskip("jax")
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

import jax.numpy as jnp
from shoal.jax import _contractions, _flat, _names, _parcels, _versions

START = """
import jax, jax.numpy as jnp, shoal.jax
shoal.init()
rank = shoal.rank()
v = jnp.arange(3.0) + rank
mean = np.arange(3) + 0.5

def same(got, expected):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b) and np.allclose(np.asarray(a, np.float64), b), (got, expected)

def refused(call, *words):
    try:
        call()
    except shoal.UsageError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"not refused: {words}")
"""


def two(gang, script, shared_memory=0):
    return run(gang, 2, START + textwrap.dedent(script), shared_memory=shared_memory)


def test_inside_and_outside_of_programs(gang):
    script = """
    pmean, psum = shoal.jax.pmean, shoal.jax.psum
    # Outside; a number, an array without elements and one without dimensions go along.
    odd = {"a": v, "b": 1.0 * rank, "empty": jnp.zeros((0, 3)), "scalar": v[0]}
    same(pmean(odd), {"a": mean, "b": 0.5, "empty": np.zeros((0, 3)), "scalar": 0.5})
    same(psum(v), 2 * mean)
    same(pmean(v, weight=[1, 3][rank]), np.arange(3) + 0.75)
    # Inside, with a weight that is only known when the program runs.
    same(jax.jit(pmean)(v, weight=jnp.float32([1, 3][rank])), np.arange(3) + 0.75)
    same(jax.jit(lambda x: (pmean(x), psum((x, x * 2))))(v), (mean, (2 * mean, 4 * mean)))
    # The same program inside twice: its keys are used twice, one after the other.
    inner = jax.jit(lambda x: pmean(x))
    same(jax.jit(lambda x: (inner(x), inner(10 * x)))(v), (mean, 10 * mean))
    # Loops and branches.
    def body(carry, _):
        return pmean(carry) + rank, pmean(carry * 2)
    last, rows = jax.jit(lambda x: jax.lax.scan(body, x, None, length=3))(v)
    same((last, rows), (mean + 1 + rank, np.stack([2 * mean, 2 * mean + 1, 2 * mean + 2])))
    same(jax.jit(lambda x: jax.lax.cond(x.sum() > -1, pmean, lambda x: x, x))(v), mean)
    # A result nobody uses is still exchanged, and an input may be given away.
    same(jax.jit(lambda x: (pmean(x), x * 2)[1])(v), 2 * np.asarray(v))
    same(jax.jit(pmean, donate_argnums=0)(jnp.full(100_000, float(rank))), np.full(100_000, 0.5))
    # Many calls under way without anything that orders them.
    step = jax.jit(pmean)
    same([step(v * k) for k in range(30)], [mean * k for k in range(30)])
    # Whole steps inside one program.
    def train(w, x):
        return w - 0.1 * shoal.jax.grad(lambda w: ((x @ w) ** 2).mean(), use_sfb=True)(w), None
    xs = np.random.default_rng(0).standard_normal((2, 6, 4, 16)).astype(np.float32)
    w = jax.jit(lambda xs: jax.lax.scan(train, jnp.ones((16, 8)), xs)[0])(xs[rank])
    expected = np.ones((16, 8))
    for a, b in zip(*xs):
        expected -= 0.1 * sum(2 * x.T @ (x @ expected) / 32 for x in (a, b)) / 2
    assert np.allclose(w, expected, atol=1e-5)
    tell(w=np.asarray(w).tobytes().hex())
    """
    first, second = two(gang, script)
    assert first["w"] == second["w"]


def test_types_and_what_is_refused(gang):
    script = """
    pmean = shoal.jax.pmean
    for kind in (jnp.float32, jnp.float16, jnp.bfloat16):
        got = jax.jit(pmean)(v.astype(kind))
        assert got.dtype == kind
        same(got.astype(jnp.float32), mean)
    jax.config.update("jax_enable_x64", True)
    tiny = jnp.asarray(np.array([1.0, 1e-12 * rank]))
    got = jax.jit(lambda x: pmean(x))(tiny)
    assert got.dtype == jnp.float64
    assert np.asarray(got)[1] == 5e-13
    doubles = jax.jit(shoal.jax.grad(lambda w, x: ((x @ w) ** 2).sum(), use_sfb=True))
    got = doubles(np.ones((16, 8)), np.ones((4, 16)) * (rank + 1))
    assert got.dtype == jnp.float64 and (np.asarray(got) == 320).all()
    jax.config.update("jax_enable_x64", False)
    refused(lambda: pmean({"layer": {"count": jnp.arange(3)}}), "['layer']['count']", "int32")
    refused(lambda: jax.jit(pmean)({"flag": jnp.array([True])}), "['flag']", "bool")
    refused(lambda: pmean({"name": "text"}), "['name']", "str")
    refused(lambda: pmean(v, use_sfb=True), "shoal.jax.grad")
    for mapped in (jax.vmap(pmean), jax.jit(jax.vmap(pmean)), jax.vmap(shoal.jax.grad(jnp.sum))):
        refused(lambda: mapped(jnp.ones((4, 3))), "vmap")
    for derived in (jax.grad(lambda x: pmean(x).sum()), jax.jit(jax.grad(lambda x: pmean(x).sum()))):
        refused(lambda: derived(v), "derivative", "outside")
    refused(lambda: jax.jit(shoal.jax.broadcast)(v), "before the first step")
    # None of it has left anything half done.
    same(jax.jit(pmean)(v), mean)
    """
    two(gang, script, shared_memory=1)


def test_broadcast_gradients_and_optax(gang):
    script = """
    import optax
    tree = {"i": jnp.arange(3) + rank, "b": jnp.array([rank == 0]), "f": v, "n": np.arange(2) + rank, "s": rank}
    tree["h"] = v.astype(jnp.bfloat16)
    got = shoal.jax.broadcast(tree)
    expected = {"b": [1], "f": [0, 1, 2], "h": [0, 1, 2], "i": [0, 1, 2], "n": [0, 1], "s": 0}
    assert {name: np.asarray(leaf, np.float64).tolist() for name, leaf in got.items()} == expected
    assert got["i"].dtype == tree["i"].dtype and isinstance(got["n"], np.ndarray)
    key = shoal.jax.broadcast(jax.random.key(rank + 5), root=1)
    same(jax.random.key_data(key), jax.random.key_data(jax.random.key(6)))

    tx = shoal.jax.distribute(optax.sgd(1.0, momentum=0.9))
    update = jax.jit(lambda g, s, w: tx.update(g, s, weight=w))
    same(update(v, tx.init(v), [1.0, 3.0][rank])[0], -(np.arange(3) + 0.75))
    chained = optax.chain(optax.clip_by_global_norm(1e9), shoal.jax.distribute(optax.sgd(1.0)))
    same(chained.update(v, chained.init(v), v)[0], -mean)

    # As jax.value_and_grad: several arguments, aux, keyword arguments, flags that are no arrays; without jit too.
    def loss(w, x, square, b, *, kind="none"):
        z = (x @ w + b) ** (2 if square and kind == "sum" else 1)
        return z.sum(), {"shape": z.shape[0] * jnp.ones(()), "rank": jnp.float32(rank)}
    x = jnp.ones((4, 16)) * (rank + 1)
    w, b = jnp.ones((16, 8)), jnp.zeros(8)
    both = shoal.jax.value_and_grad(loss, argnums=(0, -1), has_aux=True, use_sfb=True)
    for call in (both, lambda w, x, s, b, kind: jax.jit(lambda w, x, b: both(w, x, s, b, kind=kind))(w, x, b)):
        for _ in range(3):
            (value, aux), (gw, gb) = call(w, x, True, b, kind="sum")
            assert value == 4 * 8 * (16 * (rank + 1)) ** 2 and aux["rank"] == rank
            same((gw, gb), (np.full((16, 8), 320.0), np.full(8, 4 * 2 * 16 * 1.5)))
    gw, aux = shoal.jax.grad(loss, has_aux=True)(w, x, True, b, kind="sum")
    same((gw, aux["shape"]), (np.full((16, 8), 320.0), 4.0))
    """
    two(gang, script)


def test_one_worker_alone_changes_nothing(gang):
    script = """
    g = {"w": jnp.arange(4.0)}
    same(jax.jit(shoal.jax.pmean)(g), g)
    same(shoal.jax.pmean(g, weight=0), {"w": np.zeros(4)})
    same(shoal.jax.value_and_grad(lambda w: (w**2).sum())(g["w"]), (14.0, 2 * np.arange(4)))
    assert "shoal_call" not in str(jax.make_jaxpr(shoal.jax.grad(lambda w: (w**2).sum()))(g["w"]))
    """
    run(gang, 1, START + textwrap.dedent(script))


def find(function, *arguments):
    """The contraction behind each gradient of a function."""
    closed, _ = _flat.flat_jaxpr(jax.grad(function, argnums=tuple(range(len(arguments) - 1))), *arguments)
    producers = {v: e for e in closed.jaxpr.eqns for v in e.outvars}
    return [_contractions.contraction(v, producers) for v in closed.jaxpr.outvars]


W, X = np.ones((16, 8), np.float32), np.ones((4, 16), np.float32)


@pytest.mark.parametrize(
    "function, weight, x, sizes",
    [
        (lambda w, x: (x @ w).sum(), W, X, (4, 8, 16)),
        (lambda w, x: jnp.tanh(x @ w.T).sum(), W.T, X, (4, 8, 16)),
        (lambda w, x: jnp.einsum("bti,io->bto", x, w).sum(), W, np.ones((2, 3, 16), np.float32), (6, 8, 16)),
        (lambda w, x: jnp.tanh(jnp.einsum("bi,iho->bho", x, w)).sum(), np.ones((16, 2, 8), np.float32), X, (4, 16, 16)),
        (lambda w, x: jnp.tanh(x @ w.reshape(16, 8)).sum(), W.reshape(4, 32), X, (4, 8, 16)),
        (lambda w, x: jax.vmap(lambda row: jnp.tanh(row @ w).sum())(x).mean(), W, X, (4, 8, 16)),
        (lambda w, x: jax.jit(lambda w: jax.nn.relu(x @ w))(w).sum(), W, X, (4, 8, 16)),
        # Not these: too thin, tied weights, no product, another type.
        (lambda w, x: jnp.tanh(x @ w).sum(), W[:, :4], X, None),
        (lambda w, x: (jnp.tanh(x @ w) @ w.T).sum(), W, X, None),
        (lambda w, x: (x * w[:, 0]).sum(), W, X, None),
        (lambda w, x: jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).sum().astype(jnp.float32), W, X, None),
    ],
)
def test_which_gradients_have_factors(function, weight, x, sizes):
    (found,) = find(function, weight, x)
    if sizes is None:
        assert found is None
        return
    assert sorted(found.sizes[1:]) == sorted(sizes[1:]) and found.sizes[0] == sizes[0]
    # Whatever the spelling: rebuilt from its factors it is the gradient, with JAX and with NumPy.
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.standard_normal(v.aval.shape).astype(np.float32) for v in (found.lhs, found.rhs))
    expected = found.gradient(lhs, rhs)
    assert expected.shape == weight.shape
    x2, dy2 = found.matrices(jnp.asarray(lhs), jnp.asarray(rhs))
    assert np.allclose(found.rebuild(x2, dy2), expected, atol=1e-5)
    assert np.allclose(found.product(np.asarray(x2), np.asarray(dy2)), expected, atol=1e-5)


def test_names_depend_on_content_only():
    leaves = [np.zeros((2, 3), np.float32), np.zeros(4, np.float32)]
    name, keys = _names.names("pmean", ["['w']", "['b']"], leaves)
    assert keys[0].startswith("jax pmean['w'] float32[2, 3] #") and name.endswith(keys[0][-8:])
    assert _names.names("pmean", ["['w']", "['b']"], leaves) == (name, keys)
    assert _names.names("pmean", ["['w']", "['b']"], leaves[::-1])[0] != name


def test_small_arrays_share_a_parcel():
    shapes = [
        ((), "f4"),
        ((300, 2), "f4"),
        ((4000,), "f4"),
        ((5,), "f8"),
        ((0, 3), "f4"),
        ((5000,), "f4"),
        ((7,), "f4"),
    ]
    shapes += [((4000,), "f4")] * 4
    leaves = [np.arange(np.prod(shape, dtype=int), dtype=kind).reshape(shape) for shape, kind in shapes]
    packed = _parcels.parcels(leaves)
    # A scalar, vectors and no matrix; the next parcel begins when 64 KiB are full; what is empty stays at home.
    assert [parcel.members for parcel in packed] == [[0, 2, 6, 7, 8, 9], [1], [3], [5], [10]]
    assert packed[0].key([f"k{n}" for n in range(11)]) == "k0 and 5 more"
    for parcel in packed:
        joined = parcel.join([jnp.asarray(leaves[index]) for index in parcel.members])
        assert joined.shape == parcel.shape
        for index, part in parcel.split(joined):
            assert part.shape == leaves[index].shape and (part == leaves[index]).all()


def test_versions_are_checked():
    numbers = [_versions.numbers(v) for v in ("0.10.2", "0.4.30", "1.0rc1", "0.7.dev3")]
    assert numbers == [(0, 10), (0, 4), (1, 0), (0, 7)]
    script = """
    import sys, types
    if sys.argv[1] == "missing":
        sys.modules["jax"] = None
    else:
        sys.modules["jax"] = types.SimpleNamespace(__version__="0.4.2")
    try:
        import shoal.jax
    except Exception as error:
        print(type(error).__name__, error)
    """
    for state, expected in (("missing", "ImportError shoal.jax needs JAX"), ("old", "this is 0.4.2: pip install")):
        argv = [sys.executable, "-c", textwrap.dedent(script), state]
        assert expected in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_broadcasts_from_the_root_and_says_why_layers_stay_dense(gang):
    script = """
    import logging
    from shoal import _api
    said = []
    class Keep(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
    logging.getLogger("shoal").addHandler(Keep())
    logging.getLogger("shoal").setLevel(logging.INFO)
    same(shoal.jax.broadcast(v), np.arange(3))
    _api.root = lambda: 1  # as after an admit() that let worker 0 in again
    same(shoal.jax.broadcast(v), np.arange(3) + 1)
    same(shoal.jax.broadcast(v, root=0), np.arange(3))
    def loss(params, x):
        return ((x @ params["wide"]) ** 2).mean() + (params["alone"] ** 2).sum()
    params = {"alone": jnp.ones((4, 3)), "wide": jnp.ones((16, 8))}
    shoal.jax.grad(loss)(params, jnp.ones((64, 16)))
    tell(said=said)
    """
    for told in two(gang, script):
        (wide,) = [line for line in told["said"] if "'wide'" in line and "dense" in line]
        assert "factors of 64 rows from each of 2 workers are more than the" in wide, wide
        assert any("'alone'" in line and "no linear layer" in line for line in told["said"]), told["said"]
