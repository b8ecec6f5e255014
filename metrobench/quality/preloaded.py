"""Imported once by the fork server of engines.py: vLLM, with its words in a file."""

from __future__ import annotations

import os

from metrobench.quality.engines import LOG
from metrobench.worker import preload
from metrobench.worker.channel import Failed


def _to_log() -> None:
    path = os.environ.get(LOG)
    if path:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)


_to_log()
_found = preload.load()
FAILED = _found if isinstance(_found, Failed) else None
"""Why vLLM does not load; None: it did."""
