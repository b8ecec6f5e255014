"""kvwindow: a vLLM plugin that bounds every request's KV cache to attention sinks and a window, on any backend.

Set KVWINDOW=W+S in the environment of the engine, e.g. KVWINDOW=1024+16; see README.md beside this file.
Stands alone: it imports nothing else of this package's parent.
"""

from __future__ import annotations

from metrobench.kvwindow.mask import Window
from metrobench.kvwindow.plugin import register
from metrobench.kvwindow.settings import VARIABLE, Settings, from_environment, parse

SCHEDULER = "metrobench.kvwindow.scheduler.GuardScheduler"
"""vLLM's `scheduler_cls`: ends a session that runs out of room alone, instead of the engine."""

__all__ = ["SCHEDULER", "VARIABLE", "Settings", "Window", "from_environment", "parse", "register"]
