"""What only the command line knows of a run that is going on, on disk beside the raw facts: should it be killed, the
run can still be judged.

`begun.json`: what is being measured, and against what. `telemetry.jsonl`: one line for each telemetry sample.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from metrobench.errors import UsageError
from metrobench.measure.plan import Plan
from metrobench.measure.telemetry import Row


class Begun(msgspec.Struct):
    """A run that was started."""

    index: int
    """Order within the record, from 1."""
    seed: int
    started: str
    """UTC, ISO 8601."""
    moment: float
    """The same in CLOCK_MONOTONIC seconds."""
    fill: int
    """Resident tokens that each session is given before t0."""
    plan: Plan
    """Extensions included."""
    excuse_slow: bool
    """A run that fails on a slow machine is void."""
    server: dict[str, Any]
    """What the server said of itself."""
    kv: str = ""
    """The KV policy asked for."""


class Journal:
    """The journal of one run. A disk that does not take it costs the run nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, begun: Begun) -> None:
        """What is measured now; again when its plan changes."""
        partial = self._folder / "begun.json.part"
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(begun))
            partial.replace(self._folder / "begun.json")

    def sample(self, rows: list[Row]) -> None:
        """New telemetry, `t` on CLOCK_MONOTONIC."""
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        with contextlib.suppress(OSError), (self._folder / "telemetry.jsonl").open("ab") as file:
            file.write(lines)


def read_begun(folder: Path) -> Begun | None:
    """What was being measured; None where that was never noted, or cannot be read."""
    try:
        return msgspec.json.decode((folder / "begun.json").read_bytes(), type=Begun)
    except (OSError, msgspec.MsgspecError):
        return None


def read_samples(folder: Path) -> list[Row]:
    """The telemetry up to the last complete line. Raises UsageError."""
    try:
        lines = (folder / "telemetry.jsonl").read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Row) for line in lines]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"the telemetry in {folder} cannot be read: {error}") from error
