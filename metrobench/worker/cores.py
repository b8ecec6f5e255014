"""Which core runs what. The engine steps back to back and must not share its core where that can be avoided."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Cores of a measured run."""

    engine: frozenset[int]
    """One core, on which the engine steps; more for an engine on a GPU, which compiles in parallel before it serves."""
    front: frozenset[int]
    """Gateway and command line."""
    load: frozenset[int]
    """Load process."""

    @property
    def engine_alone(self) -> bool:
        """True where nothing of ours shares the engine's core."""
        return not self.engine & (self.front | self.load)

    @property
    def load_alone(self) -> bool:
        """True where the load process shares no core."""
        return not self.load & (self.front | self.engine)


FRONT_BESIDE_GPU = 2
"""Cores of gateway and command line beside an engine on a GPU."""


def layout(available: frozenset[int] | None = None, gpu: bool = False) -> Layout:
    """One core: all share. Two or three: the engine has its own. Four and more: the load process has one too. With six
    and more an engine on a GPU gets all that load process and gateway leave.

    `available` defaults to the cores this process may use. Raises ValueError when it is empty.
    """
    cores = sorted(os.sched_getaffinity(0) if available is None else available)
    if not cores:
        raise ValueError("no core to run on")
    engine, rest, load = frozenset(cores[:1]), frozenset(cores[1:]), frozenset(cores[-1:])
    if not rest:
        return Layout(engine, engine, engine)
    if len(cores) < 4:
        return Layout(engine, rest, rest)
    if gpu and len(cores) >= 6:
        engine = frozenset(cores[: -1 - FRONT_BESIDE_GPU])
    return Layout(engine, rest - load - engine, load)


def pin(cores: frozenset[int]) -> None:
    """Keep the calling thread, and all it starts from now on, on `cores`. Raises OSError for a core not available."""
    os.sched_setaffinity(0, cores)


def pin_all_threads(cores: frozenset[int]) -> None:
    """Move every thread of this process to `cores`."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def cores_of(pid: int) -> tuple[int, ...]:
    """Cores a process may use; empty when it is gone."""
    try:
        return tuple(sorted(os.sched_getaffinity(pid)))
    except ProcessLookupError:
        return ()


@contextlib.contextmanager
def threads_on(cores: frozenset[int]) -> Iterator[None]:
    """Every thread of this process on `cores` for a while: a second measurement finds the cores the first one had."""
    before = frozenset(os.sched_getaffinity(0))
    pin_all_threads(cores)
    try:
        yield
    finally:
        pin_all_threads(before)
