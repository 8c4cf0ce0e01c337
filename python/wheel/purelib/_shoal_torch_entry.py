"""What PyTorch calls when it is imported (its entry point `torch.backends`): tells it of the backend "shoal", and nothing more."""


def register():
    # An error here would make `import torch` fail, for everybody who has the package and does not use it.
    try:
        import torch.distributed as dist

        if dist.is_available() and "SHOAL" not in getattr(dist.Backend, "_plugins", {}):
            dist.Backend.register_backend("shoal", _create, extended_api=True, devices=["cpu", "cuda"])
    except Exception:
        pass


def _create(*arguments):
    from shoal.torch.backend import _create as create

    return create(*arguments)
