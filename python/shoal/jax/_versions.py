"""Is there a JAX this front end can work with? Asked before anything of it is used."""

import re

from ..errors import UsageError

#: The oldest whose callbacks, effects and jaxprs look as `_call` and `_contractions` expect them.
OLDEST = (0, 7)


def numbers(version):
    """The first two numbers of a version: "0.10.2" is (0, 10)."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else (0, 0)


def check():
    oldest = ".".join(map(str, OLDEST))
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"shoal.jax needs JAX {oldest} or newer: pip install jax ({error})") from error
    if numbers(jax.__version__) < OLDEST:
        raise UsageError(f"shoal.jax needs JAX {oldest} or newer, and this is {jax.__version__}: pip install -U jax")
