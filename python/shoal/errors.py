"""What can go wrong, one class for each thing a script might do something about."""

import json


class ShoalError(RuntimeError):
    """Any failure of the engine. ``details`` holds its fields as a dict."""

    def __init__(self, message, details=None):
        super().__init__(message)
        self.details = details or {}


class _Blames(ShoalError):
    """An error that names a culprit: ``role``, ``rank``, ``host`` and ``pid``."""

    def __init__(self, message, details=None):
        super().__init__(message, details)
        who = self.details.get("who", {})
        self.role = who.get("role")
        self.rank = who.get("id")
        self.host = who.get("host")
        self.pid = who.get("pid")


class DeadRankError(_Blames):
    """A worker, a server or the master is no more."""


class AbortedError(DeadRankError):
    """A rank gave up, for the reason in the message (an exception in its script, Ctrl-C). It is gone as the dead are."""


class ProtocolError(_Blames):
    """A rank sent something that makes no sense."""


class MismatchError(ShoalError):
    """Two ranks disagree about a tensor. ``ranks`` are the two, ``key`` and ``field`` say about what."""

    def __init__(self, message, details=None):
        super().__init__(message, details)
        self.key = self.details.get("key")
        self.field = self.details.get("field")
        self.ranks = tuple(self.details.get(side, {}).get("id") for side in ("a", "b"))


class DeadlockError(ShoalError):
    """All ranks wait, each for a key that another will never push."""


class ConnectError(ShoalError):
    """The run could not be joined: nobody there, a wrong token, another version, a number that is taken."""


class SettingError(ShoalError, ValueError):
    """A setting has a value it cannot have."""


class UsageError(ShoalError, ValueError):
    """A call that makes no sense now, such as the same name twice at a time."""


class ShutDownError(ShoalError):
    """The engine was shut down."""


class QueueError(ShoalError):
    """The queue refused, could not be reached, or the program `shoal` is missing. The message is what it said."""


class RunsFailedError(QueueError):
    """Runs of a sweep failed or were stopped, and nothing more of it runs."""


_CLASSES = {
    "dead": DeadRankError,
    "aborted": AbortedError,
    "mismatch": MismatchError,
    "deadlock": DeadlockError,
    "protocol": ProtocolError,
    "version": ConnectError,
    "token": ConnectError,
    "duplicate_id": ConnectError,
    "refused": ConnectError,
    "unreachable": ConnectError,
    "timeout": ConnectError,
    "setting": SettingError,
    "usage": UsageError,
    "finished": UsageError,
    "shut_down": ShutDownError,
}


def from_engine(message, fields):
    """The exception for an error of the engine, given as text and as JSON."""
    details = json.loads(fields) if fields else {}
    return _CLASSES.get(details.get("error"), ShoalError)(message, details)
