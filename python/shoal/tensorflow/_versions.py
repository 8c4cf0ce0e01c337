"""The TensorFlow this front end works with, or a clear word that it is not there."""

OLDEST = (2, 12)


def require():
    """The tensorflow module, if it is there and new enough."""
    try:
        import tensorflow
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            "shoal.tensorflow needs TensorFlow, which is not installed in this environment; `pip install "
            "tensorflow-cpu` (or `tensorflow`) installs it"
        ) from None
    version = tensorflow.__version__
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        raise ImportError(
            f"shoal.tensorflow needs TensorFlow {OLDEST[0]}.{OLDEST[1]} or newer, and this environment has {version}; "
            "`pip install --upgrade tensorflow-cpu` brings a newer one"
        )
    return tensorflow
