"""Gangs that compile: like ``gang.run``, with more patience, because every worker compiles its own programs."""

import textwrap

PATIENCE = 240


def run(gang, workers, script, **settings):
    """The same script in all workers, to its good end; what each told, as one dict."""
    started = gang.start([textwrap.dedent(script)] * workers, **settings)
    for worker in started:
        assert worker.end(PATIENCE) == 0, f"{worker.name}: {worker.err.read_text()}"
    return [{k: v for line in worker.told() for k, v in line.items()} for worker in started]
