"""What the load process is asked to do, and what it tells while doing it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from metrobench.admission.timetable import Timetable
from metrobench.corpus.mix import Noise
from metrobench.corpus.pattern import TALK
from metrobench.endpoints.base import Access
from metrobench.errors import MetrobenchError, NotValidError, UnreachableError, UsageError
from metrobench.schedule import MAX_SESSIONS, Schedule, make_schedule

GRACE = 3.0
"""Seconds of streaming after the planned frames are decided, waiting for `extend` or `stop`."""


Script = tuple[tuple[int, int], ...]
"""What one session speaks: runs of chunks of the table, as (first chunk, number of chunks)."""


@dataclass(frozen=True)
class LoadSpec:
    """One run of the load process."""

    protocol: str
    """Name in endpoints.registry."""
    url: str
    sessions: int
    budget: float
    """B in seconds: a frame is missed if its answer is complete later than t_ready + B."""
    unit: float
    """Seconds of audio in one frame."""
    first_ready: float
    """Seconds of audio up to the last sample that frame 0 needs."""
    seed: int
    clips: tuple[Path, ...]
    """Audio files."""
    cut_frames: int
    """Frames of each session before the measured span."""
    frames: int
    """Measured frames of each session after the cut."""
    max_frames: int
    """Most measured frames that `extend` may ask for."""
    spool: Path
    """Folder for the raw facts; made if it does not exist."""
    fill_tokens: int = 0
    """Resident tokens of its own that each session gets before t0, where the server can; 0: none."""
    connect_timeout: float = 10.0
    fill_timeout: float = 60.0
    stop_after_misses: int | None = None
    """Stop as soon as more measured frames than this are missed beyond doubt."""
    limit: float | None = None
    """Seconds after t_ready from which an answer counts as a miss for `stop_after_misses`; None: the budget."""
    cores: frozenset[int] | None = None
    """Cores of the load process; None: wherever the system puts it."""
    sample_rate: int = 16_000
    """Hz of the PCM16 that is sent."""
    noise: Noise | None = None
    """Background noise under the clips and in the pauses."""
    gain: float = 0.0
    """dB on the clips."""
    talk: str = "half"
    """Pattern of talk and pause, one of corpus.pattern.TALK."""
    table: Path | None = None
    """File of corpus.stream.save_table with exactly these clips, noise and gain: saves decoding them again."""
    mode: str = "paced"
    """`paced`: the measured run. `saturate`: closed loop, every session sends its next frame as soon as the last one
    is answered. `open`: sessions come and go by the timetable."""
    saturate_seconds: float = 5.0
    """Length of a `saturate` run."""
    access: Access = field(default_factory=Access)
    """Headers, model and certificates of the endpoint; never stored."""
    spread: float | None = None
    """Seconds over which the sessions' beginnings are spread; None: the budget."""
    timetable: Timetable | None = None
    """Mode `open`: when each session comes and goes; `sessions` is its length."""

    record_wire: Path | None = None
    """File for the wire traffic of session 0, which must not exist."""
    record_all: Path | None = None
    """Folder for that of every session, in files that `tape_of` names."""
    scripts: tuple[Script, ...] | None = None
    """Mode `open`, with `table`: what each session speaks, silence after it; None: clips in the pattern of `talk`."""

    def schedule(self) -> Schedule:
        """Due times of the run."""
        if self.timetable is not None:
            return Schedule(np.array(self.timetable.starts), self.unit, self.first_ready)
        return make_schedule(self.sessions, self.spread or self.budget, self.unit, self.first_ready, self.seed)

    @property
    def late_after(self) -> float:
        """Seconds after t_ready from which an answer counts as a miss."""
        return self.budget if self.limit is None else self.limit

    @property
    def wait(self) -> float:
        """Seconds to go on after the last measured frame is ready, so that its outcome is known."""
        return max(self.budget, self.late_after)

    @property
    def audio_seconds(self) -> float:
        """Seconds of audio that a session has before it may repeat itself."""
        if self.mode != "paced" and self.scripts is None:
            return self.saturate_seconds
        return self.first_ready + self.table_frames * self.unit

    @property
    def table_frames(self) -> int:
        """Frames of each session that the facts have room for: cut, measured, and those ready before the end."""
        if self.timetable is not None:
            return max(self.timetable.frames)
        if self.mode != "paced":
            return 1
        spread = self.spread or self.budget
        # after the last measured frame of the last session: the deadline, the grace, the spread of the phases
        return self.cut_frames + self.max_frames + math.ceil((spread + self.wait + GRACE + 1.0) / self.unit) + 1

    def check(self) -> None:
        """Raises UsageError when a field is out of bounds."""
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{name} = {value} is outside {low:g} to {high:g}")
        if self.max_frames < self.frames:
            raise UsageError(f"max_frames = {self.max_frames} is less than frames = {self.frames}")
        if self.mode not in ("paced", "saturate", "open"):
            raise UsageError(f"unknown load mode {self.mode!r}", "modes are paced, saturate and open")
        if (self.mode == "open") != (self.timetable is not None and len(self.timetable) == self.sessions):
            raise UsageError("an open run needs a timetable of its sessions, and only an open run has one")
        if self.talk not in TALK:
            raise UsageError(f"unknown talk pattern {self.talk!r}", f"patterns are {', '.join(TALK)}")
        if self.scripts is not None and (self.table is None or len(self.scripts) != self.sessions):
            raise UsageError("scripts need a table, and one for each session")
        if not self.clips:
            raise UsageError("no audio clips to stream")
        if self.table_frames * self.sessions > MAX_ROWS:
            raise UsageError(
                f"{self.sessions} sessions of {self.table_frames} frames are more than {MAX_ROWS} frames in one run",
                "fewer sessions or a shorter run",
            )


def tape_of(folder: Path, session: int) -> Path:
    """The file of `record_all` with a session's wire traffic."""
    return folder / f"{session}.jsonl"


MAX_ROWS = 5_000_000
"""Frames that one run may record (260 MB of facts)."""

_BOUNDS = (
    ("sessions", 1, MAX_SESSIONS),
    ("budget", 0.001, 600.0),
    ("unit", 0.02, 60.0),
    ("first_ready", 0.02, 600.0),
    ("seed", 0, 2**63 - 1),
    ("cut_frames", 0, 1_000_000),
    ("frames", 1, 10_000_000),
    ("max_frames", 1, 10_000_000),
    ("fill_tokens", 0, 100_000_000),
    ("connect_timeout", 0.01, 3600.0),
    ("fill_timeout", 0.01, 86_400.0),
    ("sample_rate", 8_000, 96_000),
    ("saturate_seconds", 0.05, 3600.0),
    ("gain", -60.0, 60.0),
)


class LoadEvent(msgspec.Struct, omit_defaults=True):
    """Something the load process tells. Fields that do not belong to the kind keep their defaults.

    kinds, in order of a run:
    `ready` (audio decoded) · `connected` (connected, refused) · `filled` (filled, refused; also once a second while
    filling, kind `filling`) · `started` (t0) · `progress` (each second) · `judge` (every planned frame is decided;
    streaming goes on for a few seconds) · `alarm` (message: a kind of collapse, or `warning`; silent, seconds) ·
    `saturated` (frames, seconds) · `aftermath` (message: the phase; connected, answered, frames) · `stopped` (message:
    the reason) · `failed` (message, hint, cause: nothing could be measured) · `died` (message: the process is gone).
    """

    kind: str
    t: float = 0.0
    """Seconds from t0."""
    t0: float = 0.0
    """Start of the schedule, absolute CLOCK_MONOTONIC seconds."""
    connected: int = 0
    """connected: sessions with a connection; progress: sessions that are open now."""
    filled: int = 0
    refused: int = 0
    closed: int = 0
    """Sessions whose connection ended before the end of the run."""
    due: int = 0
    """Measured frames whose outcome is decided."""
    answered: int = 0
    """Decided measured frames that were answered in time."""
    missed: int = 0
    """Decided measured frames that were missed beyond doubt."""
    ambiguous: int = 0
    """Decided measured frames whose lateness may be the client's own."""
    p50: float | None = None
    """Median latency in seconds of the answers of the last second; None: no answer."""
    p99: float | None = None
    lag_p99: float | None = None
    """99 % quantile of the send lag of all chunks so far, seconds."""
    cpu: float = 0.0
    """CPU seconds of the load process so far."""
    rss: int = 0
    """Resident bytes of the load process."""
    silent: int = 0
    """Sessions that have waited for overdue answers for long."""
    frames: int = 0
    """saturated, aftermath: frames answered. judge: measured frames of each session that are decided."""
    seconds: float = 0.0
    """saturated: length of the span."""
    cycle_p50: float | None = None
    """saturated: median seconds from a frame's last chunk to its complete answer."""
    cycle_mean: float | None = None
    """saturated: mean of the same."""
    cycle_p99: float | None = None
    """saturated: its 99 % quantile."""
    errors: int = 0
    """Error messages of the server so far that ended no session; `message` is the last one."""
    greeting: str = ""
    """filled: the first message of the server to one of the sessions, as it came."""
    message: str = ""
    hint: str = ""
    cause: str = ""
    """failed: `usage`, `unreachable` or `invalid`."""

    def error(self) -> MetrobenchError:
        """The error that a `failed` or `died` event stands for."""
        kinds = {"usage": UsageError, "unreachable": UnreachableError}
        return kinds.get(self.cause, NotValidError)(self.message, self.hint)
