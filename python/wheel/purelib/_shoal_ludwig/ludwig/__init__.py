"""Ludwig's names, on Shoal's queue."""


def print_ludwig(text):
    print(f"Ludwig: {text}", flush=True)
