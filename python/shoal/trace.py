"""A timeline of a run: what each tensor waited for, and what the script did meanwhile.

    with shoal.trace("trace.json"):       # also: shoal.trace("trace.json") ... shoal.trace.stop(); or SHOAL_TRACE=trace.json
        with shoal.trace.span("forward"):
            ...

Each worker writes a file of its own, with its rank in the name (``trace.rank0.json``), in the Chrome trace format: open it in
https://ui.perfetto.dev or chrome://tracing. There is a track for every key, with the phases of each of its steps (queue, wire,
waiting and for whom), one for every thread that has spans, and with PyTorch one for what is computed, layer by layer. What
happens longest ago makes room when the ring is full.
"""

import collections
import contextlib
import functools
import json
import os
import threading
import time

from . import _api

#: Which way a tensor went that was summed in the host's memory first.
TEAM = "memory and network"

#: Spans that are kept; the engine keeps a like number of steps.
ROOM = 1 << 17


def file_of(path, rank):
    """The file of one rank."""
    stem, suffix = os.path.splitext(os.fspath(path))
    return f"{stem}.rank{rank}{suffix or '.json'}"


class Trace:
    """``shoal.trace``: called with a path it starts recording and, used as a context manager, writes when the block ends."""

    def __init__(self):
        self._path = None
        self._spans = collections.deque(maxlen=ROOM)
        self._lock = threading.Lock()
        self._watchers = []

    def watched_by(self, watcher):
        """``watcher.begin()`` and ``watcher.end()`` are called around what is recorded: by front ends that see what is computed."""
        self._watchers.append(watcher)
        if self.is_on:
            watcher.begin()

    def __call__(self, path):
        self.start(path)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def is_on(self):
        return self._path is not None

    def start(self, path):
        """Record from now on. What was being recorded for another file is written to that one first."""
        engine = _api._current()
        if not os.path.basename(os.fspath(path)):
            raise ValueError(f"shoal.trace needs the name of a file, such as trace.json, got {os.fspath(path)!r}")
        # A file that cannot be written is found now, and not when the training is over.
        with open(file_of(path, engine.rank), "a"):
            pass
        self.stop()
        engine.take_timeline()
        self._spans.clear()
        engine.switch_timeline(True)
        self._path, self._rank = path, engine.rank
        for watcher in self._watchers:
            watcher.begin()

    def stop(self):
        """Stop recording and write the file; its name, or None if nothing was recorded."""
        with self._lock:
            path, self._path = self._path, None
        if path is None:
            return None
        for watcher in self._watchers:
            watcher.end()
        if not _api.is_initialized():
            return None
        engine = _api._current()
        engine.switch_timeline(False)
        rows, lost = engine.take_timeline()
        name = file_of(path, engine.rank)
        with open(name, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": list(events(engine.rank, rows, list(self._spans), lost))}, file)
        return name

    def span(self, name, **details):
        """Something the script does: a context manager and a decorator. Costs next to nothing while nothing is recorded."""
        return _Span(self, name, details)

    def _note(self, name, begin, end, details):
        thread = threading.current_thread()
        self._spans.append((name, begin, end, thread.ident, f"thread {thread.name}", details))

    def note_compute(self, name, begin, end):
        """Something that a framework computed, on a track of its own: it need not fit into the script's spans."""
        if self.is_on:
            self._spans.append((name, begin, end, "compute", "compute", {}))


class _Span(contextlib.ContextDecorator):
    def __init__(self, trace, name, details):
        self._trace, self._name, self._details = trace, name, details
        self._begins = []

    def __enter__(self):
        self._begins.append(time.monotonic_ns())
        return self

    def __exit__(self, *_):
        begin = self._begins.pop()
        if self._trace.is_on:
            self._trace._note(self._name, begin, time.monotonic_ns(), self._details)

    def __call__(self, function):
        # A span of its own for every call: threads may be in the same function at once.
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with _Span(self._trace, self._name, self._details):
                return function(*args, **kwargs)

        return wrapped


def events(rank, rows, spans, lost=0):
    """The events of one worker, track by track and in order of time: metadata first, then "complete" events, well nested."""
    yield {"ph": "M", "pid": rank, "tid": 0, "name": "process_name", "args": {"name": f"rank {rank}"}}
    if lost:
        missing = {"labels": f"{lost} older steps are missing"}
        yield {"ph": "M", "pid": rank, "tid": 0, "name": "process_labels", "args": missing}
    tracks = {}
    for ident, name in dict.fromkeys((ident, name) for _, _, _, ident, name, _ in spans):
        tracks[ident] = name
    keys = {}
    for row in rows:
        keys.setdefault(row[0], []).append(row)
    tids = {track: tid for tid, track in enumerate([*tracks, *keys], start=1)}
    for track, tid in tids.items():
        title = tracks.get(track, track)
        yield {"ph": "M", "pid": rank, "tid": tid, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", "pid": rank, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}
    for ident in tracks:
        mine = sorted((s for s in spans if s[3] == ident), key=lambda s: (s[1], -s[2]))
        for name, begin, end, _, _, details in mine:
            yield _complete(rank, tids[ident], name, begin, end, details)
    for key, steps in keys.items():
        whole = {row[1]: row for row in steps if row[2] == TEAM}
        out = [event for row in steps for event in _steps(rank, tids[key], row, whole.get(row[1]))]
        yield from sorted(out, key=lambda event: (event["ts"], -event["dur"]))


def _steps(rank, tid, row, whole):
    """A step and its phases; ``whole``: the same step as its host sees it, if one of the host sends for all."""
    key, step, way, size, (submitted, first, last, done), who = row
    if whole is not None and whole is not row:
        key, submitted, done = "for the host", max(submitted, whole[4][0]), min(done, whole[4][3])
        first, last = (min(max(first, submitted), done), min(max(last, submitted), done)) if first else (0, 0)
    details = {"step": step, "bytes": size, "way": way}
    if who is not None:
        details["waited for rank"] = who
    yield _complete(rank, tid, key, submitted, done, details)
    if whole is row:
        return
    awaited = "waiting" if who is None else f"waiting for rank {who}"
    phases = [("queue", submitted, first), ("wire", first, last), (awaited, last, done)] if first else []
    for name, begin, end in phases or [(awaited, submitted, done)]:
        # Clocks of different threads may be a hair apart; a phase never leaves its step.
        begin, end = max(begin, submitted), min(end, done)
        if end > begin:
            yield _complete(rank, tid, name, begin, end, {"step": step})


def _complete(rank, tid, name, begin, end, details):
    # Microseconds; three decimals keep the nanoseconds, and whole numbers of those keep events nested.
    return {
        "ph": "X",
        "pid": rank,
        "tid": tid,
        "name": name,
        "ts": begin / 1000,
        "dur": max(0, end - begin) / 1000,
        "args": {key: value if isinstance(value, (int, float, str)) else str(value) for key, value in details.items()},
    }


trace = Trace()
span = trace.span
start, stop = trace.start, trace.stop
