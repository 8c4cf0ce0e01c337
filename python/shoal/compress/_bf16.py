"""bfloat16 on the wire, half the bytes; shards sum in float32."""

import inspect

import numpy as np

from .. import _api
from ._wire import Wire, summed_bytes


def encode(values, out=None):
    """float32 to the bits of the nearest bfloat16 (ties to even), as uint16. NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    halves = (rounded >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        halves[nan] = 0x7FC0
    if out is None:
        return halves
    out[...] = halves
    return out


def decode(halves):
    """The bits of bfloat16 to float32, exactly."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def push_bits(bits, name, weight, priority):
    """Starts the mean of an array of bfloat16 bits."""
    if "dtype" in inspect.signature(_api.push_pull_async).parameters:
        return _api.push_pull_async(bits, None, name, weight, priority, dtype="bfloat16")
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"the scheme bf16 needs the package ml_dtypes: pip install ml_dtypes ({error})") from error
    return _api.push_pull_async(bits.view(ml_dtypes.bfloat16), None, name, weight, priority)


class Bf16(Wire):
    scheme = "bf16"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._bits = np.empty(self.size, np.uint16)

    @property
    def bytes_sent(self):
        return summed_bytes(self._bits.nbytes)

    def _send(self, flat, weight):
        encode(flat, out=self._bits)
        if self._error is not None:
            self._keep(flat, decode(self._bits))
        self._handle = push_bits(self._bits, f"{self.name} bf16", weight, self.priority)

    def _receive(self, flat):
        self._handle.wait()
        flat[...] = decode(self._bits)
