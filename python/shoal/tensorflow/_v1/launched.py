"""Is this process a worker of a run, and with which settings does it join?"""

import logging
import os
import sys

from ... import _api
from .. import _interrupt

log = logging.getLogger("shoal")

_FALSE = ("0", "false", "no", "off", "f", "n")

use_sfb = False
_joined_with = None


def is_launched():
    """Whether a launcher started this process as a worker: by the environment or by the flag that psd_run appends."""
    if os.environ.get("SHOAL_DISTRIBUTED", "").lower() in _FALSE and "SHOAL_DISTRIBUTED" in os.environ:
        return False
    return "SHOAL_MASTER_ADDRESS" in os.environ or _flag()


def _flag():
    for index, argument in enumerate(sys.argv[1:], 1):
        name, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name == "distributed":
            following = sys.argv[index + 1] if index + 1 < len(sys.argv) and not equals else ""
            value = value or (following if following.lower() in (*_FALSE, "1", "true", "yes", "t", "y") else "true")
            return value.lower() not in _FALSE
    return False


def join(settings):
    """Makes this process a worker, with the settings of a ConfigProto. The environment fills in what is left out."""
    global use_sfb, _joined_with
    settings = {name: value for name, value in settings.items() if name != "distributed"}
    use_sfb = settings.pop("use_sfb", _sfb_from_environment())
    if settings.get("client_id", 0) < 0:
        del settings["client_id"]
    # The address of Poseidon's documents, which nobody can be reached at, stands for "not given".
    if "//0.0.0.0:" in settings.get("master_address", "") and "SHOAL_MASTER_ADDRESS" in os.environ:
        del settings["master_address"]
    if _api.is_initialized():
        if _joined_with is not None and settings and settings != _joined_with:
            log.warning("joined the run with %s; the new session's %s changes nothing", _joined_with, settings)
        return
    _api.init(**settings)
    _joined_with = settings
    _interrupt.watch()


def _sfb_from_environment():
    value = os.environ.get("SHOAL_USE_SFB", "false").lower()
    return "auto" if value == "auto" else value not in _FALSE
