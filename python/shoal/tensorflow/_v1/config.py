"""`tf.ConfigProto` with Poseidon's settings: a real message of TensorFlow's, and our fields beside it."""

import difflib
import numbers

from tensorflow.core.protobuf import config_pb2

_NATIVE = config_pb2.ConfigProto
_FIELDS = {
    "master_address": str,
    "client_id": int,
    "distributed": bool,
    "num_push_threads": int,
    "num_pull_threads": int,
    "block_size": int,
    "use_sfb": bool,
}
# What reading a field gives that was never set: Poseidon's defaults.
_DEFAULTS = {
    "master_address": "tcp://0.0.0.0:5555",
    "client_id": -1,
    "num_push_threads": 4,
    "num_pull_threads": 8,
    "block_size": 4 * 1024 * 1024,
    "use_sfb": False,
}


class _Kind(type):
    """So that TensorFlow's own messages count as ConfigProto too, and what hangs on its class is found."""

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or isinstance(instance, _NATIVE)

    def __getattr__(cls, name):
        return getattr(_NATIVE, name)


class ConfigProto(metaclass=_Kind):
    """A message cannot be subclassed, so this holds one and passes everything on that is not ours."""

    __slots__ = ("native", "shoal")

    def __init__(self, **fields):
        object.__setattr__(self, "shoal", {})
        ours = {name: fields.pop(name) for name in list(fields) if name in _FIELDS}
        for name in fields:
            if name not in _NATIVE.DESCRIPTOR.fields_by_name:
                raise ValueError(_unknown(name))
        object.__setattr__(self, "native", _NATIVE(**fields))
        for name, value in ours.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        if name in _FIELDS:
            return self.shoal.get(name, _default(name))
        if name in ("native", "shoal"):
            raise AttributeError(name)  # half made, as while it is unpickled
        try:
            return getattr(self.native, name)
        except AttributeError:
            raise AttributeError(_unknown(name)) from None

    def __setattr__(self, name, value):
        if name in _FIELDS:
            self.shoal[name] = _checked(name, value)
        elif name in _NATIVE.DESCRIPTOR.fields_by_name:
            setattr(self.native, name, value)
        else:
            raise AttributeError(_unknown(name))

    def CopyFrom(self, other):
        self.native.CopyFrom(native(other))
        self.shoal.clear()
        self.shoal.update(ours(other))

    def MergeFrom(self, other):
        self.native.MergeFrom(native(other))
        self.shoal.update(ours(other))

    def Clear(self):
        self.native.Clear()
        self.shoal.clear()

    def HasField(self, name):
        return name in self.shoal if name in _FIELDS else self.native.HasField(name)

    def ClearField(self, name):
        if name in _FIELDS:
            self.shoal.pop(name, None)
        else:
            self.native.ClearField(name)

    def __copy__(self):
        copy = ConfigProto()
        copy.CopyFrom(self)
        return copy

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        return _restored, (self.native.SerializeToString(), dict(self.shoal))

    def __eq__(self, other):
        if not isinstance(other, ConfigProto):
            return NotImplemented
        return self.native == native(other) and self.shoal == ours(other)

    __hash__ = None

    def __str__(self):
        return str(self.native) + "".join(f"{name}: {value!r}\n" for name, value in sorted(self.shoal.items()))

    __repr__ = __str__


def native(config):
    """The message that TensorFlow understands."""
    return config.native if type(config) is ConfigProto else config


def ours(config):
    """Poseidon's settings, those that were set."""
    return config.shoal if type(config) is ConfigProto else {}


def _restored(text, settings):
    config = ConfigProto()
    config.native.ParseFromString(text)
    config.shoal.update(settings)
    return config


def _default(name):
    if name == "distributed":
        from .launched import is_launched

        return is_launched()
    return _DEFAULTS[name]


def _checked(name, value):
    kind = _FIELDS[name]
    if kind is bool:
        if name == "use_sfb" and value == "auto":
            return value
        fits = isinstance(value, (bool, numbers.Integral)) or type(value).__name__ == "bool_"
    elif kind is int:
        fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    else:
        fits = isinstance(value, (str, bytes))
        value = value.decode() if isinstance(value, bytes) else value
    if not fits:
        raise TypeError(f"ConfigProto.{name} is {value!r} ({type(value).__name__}); expected {_SPOKEN[kind]}")
    return kind(value)


_SPOKEN = {bool: "True or False", int: "a whole number", str: "a string such as tcp://HOST:PORT"}


def _unknown(name):
    near = difflib.get_close_matches(name, [*_FIELDS, *_NATIVE.DESCRIPTOR.fields_by_name], n=1)
    return f"ConfigProto has no field {name!r}" + (f"; did you mean {near[0]}?" if near else "")
