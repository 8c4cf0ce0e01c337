"""Small models for the tests of shoal.jax: parameters, loss, data. Imported by the workers themselves."""

import jax
import jax.numpy as jnp
import numpy as np


def cross_entropy(logits, labels):
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], axis=-1))


def _normal(rng, *shape):
    inputs = shape[0] if len(shape) < 3 else np.prod(shape[:-1])
    return (rng.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32)


def mlp(rng):
    """Two linear layers in different spellings: `@`, and an einsum inside a jitted function."""
    params = {"a": {"w": _normal(rng, 24, 64), "b": np.zeros(64, np.float32)}, "z": {"w": _normal(rng, 10, 64)}}
    second = jax.jit(lambda h, w: jnp.einsum("bi,oi->bo", h, w))

    def loss(params, x, y):
        return cross_entropy(second(jax.nn.relu(x @ params["a"]["w"] + params["a"]["b"]), params["z"]["w"]), y)

    def data(rng, samples):
        return rng.standard_normal((samples, 24)).astype(np.float32), rng.integers(0, 10, samples)

    return params, loss, data


def cnn(rng):
    params = {"conv": _normal(rng, 3, 3, 1, 4), "head": _normal(rng, 64, 10), "scale": np.ones((), np.float32)}

    def loss(params, x, y):
        layout = ("NHWC", "HWIO", "NHWC")
        h = jax.nn.relu(jax.lax.conv_general_dilated(x, params["conv"], (2, 2), "SAME", dimension_numbers=layout))
        return cross_entropy(params["scale"] * h.reshape(len(x), -1) @ params["head"], y)

    def data(rng, samples):
        return rng.standard_normal((samples, 8, 8, 1)).astype(np.float32), rng.integers(0, 10, samples)

    return params, loss, data


def transformer(rng):
    """One block; the embedding is also the output layer, so its gradient has two parts."""
    wide, vocabulary, length = 16, 20, 6
    params = {
        "embed": _normal(rng, vocabulary, wide),
        "qkv": _normal(rng, wide, 3 * wide),
        "up": _normal(rng, wide, 4 * wide),
        "down": _normal(rng, 4 * wide, wide),
        "norm": np.ones(wide, np.float32),
    }

    def loss(params, tokens, targets):
        h = params["embed"][tokens]
        q, k, v = jnp.split(h @ params["qkv"], 3, axis=-1)
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k) / 4.0, -1e9))
        h = h + jnp.einsum("bqk,bkd->bqd", weights, v)
        h = params["norm"] * (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        h = h + jax.nn.gelu(h @ params["up"]) @ params["down"]
        return cross_entropy(h @ params["embed"].T, targets)

    def data(rng, samples):
        tokens = rng.integers(0, vocabulary, (samples, length + 1))
        return tokens[:, :-1], tokens[:, 1:]

    return params, loss, data


def lstm(rng):
    """Cells in a scan, whose weights are used once for each position."""
    wide, vocabulary, length = 12, 20, 5
    params = {
        "embed": _normal(rng, vocabulary, wide),
        "cell": _normal(rng, 2 * wide, 4 * wide),
        "bias": np.zeros(4 * wide, np.float32),
        "head": _normal(rng, wide, vocabulary),
    }

    def loss(params, tokens, targets):
        def cell(state, x):
            h, c = state
            i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ params["cell"] + params["bias"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        words = params["embed"][tokens].swapaxes(0, 1)
        start = (jnp.zeros((len(tokens), wide)), jnp.zeros((len(tokens), wide)))
        return cross_entropy(jax.lax.scan(cell, start, words)[1].swapaxes(0, 1) @ params["head"], targets)

    def data(rng, samples):
        tokens = rng.integers(0, vocabulary, (samples, length + 1))
        return tokens[:, :-1], tokens[:, 1:]

    return params, loss, data
