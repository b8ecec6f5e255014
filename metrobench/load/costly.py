"""Codecs that take long: only the clips that a run speaks are encoded, each once for all runs that share a table."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from metrobench.corpus.stream import SILENCE, ChunkTable

Run = tuple[int, int]
"""First chunk and number of chunks."""
Span = tuple[int, int]
"""The same of a whole clip."""


def bounded(runs: Iterator[Run], chunks: int) -> list[Run]:
    """As many of a session's runs as last for `chunks` chunks, to be repeated after that."""
    taken: list[Run] = []
    while chunks > 0:
        taken.append(next(runs))
        chunks -= taken[-1][1]
    return taken


def spoken(table: ChunkTable, runs: Iterable[list[Run]]) -> list[Span]:
    """The clips that the runs speak, whole, in the table's order."""
    clips = sorted(table.clips)
    starts = [start for start, _ in clips]
    heard = {bisect_right(starts, first) - 1 for run in runs for first, _ in run if first != SILENCE}
    return [clips[place] for place in sorted(heard)]


class Kept:
    """Messages of clips, in a file beside the table that they belong to; without one, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._clips: dict[int, list[bytes]] = {}
        self._known = 0
        if path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._clips = msgspec.msgpack.decode(path.read_bytes(), type=dict[int, list[bytes]])
        self._known = len(self._clips)

    def get(self, start: int) -> list[bytes] | None:
        """Messages of the clip that starts there; None: not encoded yet."""
        return self._clips.get(start)

    def put(self, start: int, messages: list[bytes]) -> None:
        """Keep a clip's."""
        self._clips[start] = messages

    def save(self) -> None:
        """Write what is new; where that fails, the next run encodes again."""
        if self._path is None or len(self._clips) == self._known:
            return
        with contextlib.suppress(OSError):
            whole = self._path.with_suffix(f"{self._path.suffix}.{os.getpid()}")
            whole.write_bytes(msgspec.msgpack.encode(self._clips))
            whole.replace(self._path)
