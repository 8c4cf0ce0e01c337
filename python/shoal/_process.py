"""What Python does behind an engine's back: forks that copy its connections, and exits that pass by every hook."""

import builtins
import os
import sys

_forks_watched = False


def watch_forks(open_sockets):
    """A forked child (of a DataLoader, say) must not keep this worker's connections open: nobody would see this worker die.

    ``open_sockets()`` gives their numbers, in the process that forks.
    """
    global _forks_watched
    if _forks_watched or not hasattr(os, "register_at_fork"):
        return
    _forks_watched = True
    sockets = []

    def before():
        nonlocal sockets
        sockets = open_sockets()

    def in_child():
        if not sockets:
            return
        # Not closed: the numbers stay taken until whoever believes to own them has closed them.
        nothing = os.open(os.devnull, os.O_RDWR)
        for socket in sockets:
            os.dup2(nothing, socket, inheritable=False)
        os.close(nothing)

    os.register_at_fork(before=before, after_in_child=in_child)


def watch_exits(note):
    """Calls ``note(how, status)`` before the script leaves by ``sys.exit(status)`` or ``exit(status)``; once."""
    leave = sys.exit

    def exit_(status=None):
        note("sys.exit", status)
        leave(status)

    sys.exit = exit_
    # `from sys import exit` has taken the old one before.
    main = vars(sys.modules["__main__"])
    main.update({name: exit_ for name, value in main.items() if value is leave})
    quitter = type(getattr(builtins, "exit", None))
    if quitter.__name__ == "Quitter":  # as the module site gives it to every script
        native = quitter.__call__

        def call(self, code=None):
            note("exit", code)
            native(self, code)

        quitter.__call__ = call
