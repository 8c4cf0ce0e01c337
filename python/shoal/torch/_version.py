"""Is there a PyTorch that this front end works with?"""

OLDEST = (2, 1)


def check():
    """Raises ImportError, saying what to do, where PyTorch is missing or too old."""
    try:
        import torch
    except ImportError as error:
        text = f"shoal.torch needs PyTorch, which cannot be imported here ({error}); `pip install torch` installs it"
        raise ImportError(text, name="torch") from error
    found = parse(torch.__version__)
    if found is not None and found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"shoal.torch needs PyTorch {oldest} or newer, and this is {torch.__version__} "
            f"(in {torch.__file__}); `pip install --upgrade torch` brings a newer one",
            name="torch",
        )


def parse(version):
    """(2, 15) of "2.15.0+cu132"; None where it is not of that form (then nothing is refused)."""
    parts = str(version).split("+")[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return None
