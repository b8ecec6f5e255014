"""Raw facts of a run, in files that the load process maps: nothing recorded is lost when it dies.

A spool folder holds `spec.json`, `frames.bin` (FRAME_DTYPE, frame-major: row = frame * sessions + session),
`state.bin` (clock, lag histogram, stalls) and `sessions.bin` (one slot of JSON for each session).
All space is reserved before the run, so that a full disk shows before it and not in it.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError
from metrobench.load.lags import BINS
from metrobench.load.spec import LoadSpec
from metrobench.measure.facts import FRAME_DTYPE, RunFacts, SessionFacts
from metrobench.schedule import Schedule, make_schedule

MAX_STALLS = 262_144
_HEADER = 8  # doubles: t0, time of the last turn, 1 when stopped, number of stalls, spare
_T0, _NOW, _STOPPED, _STALLS = range(4)
_STATE_WORDS = _HEADER + BINS + 2 * MAX_STALLS
_SLOT = 1024  # bytes for each session, its JSON and zeros after it
_ROW = FRAME_DTYPE.itemsize


def _offset(name: str) -> int:
    return int(FRAME_DTYPE.fields[name][1]) if FRAME_DTYPE.fields else 0


_SENT, _FIRST, _DONE, _LAG, _TOKENS = (_offset(name) for name in ("t_sent", "t_first", "t_done", "lag_max", "tokens"))
_double = struct.Struct("<d")
_single = struct.Struct("<f")
_content = struct.Struct("<iI")


class _Saved(msgspec.Struct, omit_defaults=True):
    sessions: int
    frames: int
    budget: float
    unit: float
    first_ready: float
    seed: int
    spread: float | None = None
    """Seconds over which the sessions' beginnings are spread, where it is not the budget."""
    starts: list[float] | None = None
    """Open system: when each session's audio begins."""
    frames_of: list[int] | None = None
    """Open system: frames of each session."""

    def schedule(self) -> Schedule:
        if self.starts is not None:
            return Schedule(np.array(self.starts), self.unit, self.first_ready)
        return make_schedule(self.sessions, self.spread or self.budget, self.unit, self.first_ready, self.seed)


def reserve(spec: LoadSpec) -> None:
    """Make the spool folder with all its space and the schedule's times. Raises UsageError when it cannot be had."""
    folder, frames = spec.spool, spec.table_frames
    schedule = spec.schedule()
    saved = _Saved(spec.sessions, frames, spec.budget, spec.unit, spec.first_ready, spec.seed, spec.spread)
    if spec.timetable is not None:
        saved.starts, saved.frames_of = list(spec.timetable.starts), list(spec.timetable.frames)
    table = np.zeros((frames, spec.sessions), dtype=FRAME_DTYPE)
    table["session"] = np.arange(spec.sessions)
    table["frame"] = np.arange(frames)[:, None]
    table["t_ready"] = schedule.ready_table(frames)
    for name in ("t_sent", "t_first", "t_done"):
        table[name] = np.nan
    table["tokens"] = -1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fill(folder / "state.bin", b"", _STATE_WORDS * 8)
        _fill(folder / "frames.bin", table.tobytes(), table.nbytes)
        _fill(folder / "sessions.bin", b"", spec.sessions * _SLOT)
        (folder / "spec.json").write_bytes(msgspec.json.encode(saved))
    except OSError as error:
        raise UsageError(f"cannot write the facts of the run to {folder}: {error.strerror}") from error


def _fill(path: Path, content: bytes, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        file.write(content)


def _map(path: Path, access: int) -> mmap.mmap:
    with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=access)


class Spool:
    """A reserved spool, open for recording. Times are seconds from t0, `row` is frame * sessions + session."""

    def __init__(self, folder: Path) -> None:
        saved = _read_saved(folder)
        self.sessions = saved.sessions
        self.frames = saved.frames
        self._frames = _map(folder / "frames.bin", mmap.ACCESS_WRITE)
        self._state = memoryview(_map(folder / "state.bin", mmap.ACCESS_WRITE))
        self._words = self._state.cast("d")
        self.lags = self._state[_HEADER * 8 : (_HEADER + BINS) * 8].cast("q")
        """Counts of chunks by send lag, bins of LAG_EDGES; the sender adds to it."""
        self._slots = _map(folder / "sessions.bin", mmap.ACCESS_WRITE)
        self._stalls = 0

    def table(self) -> npt.NDArray[np.void]:
        """All rows, shape (frames, sessions), a view of the file."""
        return np.frombuffer(self._frames, dtype=FRAME_DTYPE).reshape(self.frames, self.sessions)

    def lag_counts(self) -> npt.NDArray[np.int64]:
        """The send-lag histogram so far, a view of the file."""
        return np.frombuffer(self.lags, dtype=np.int64)

    def stalls(self, first: int) -> npt.NDArray[np.float64]:
        """Stalls from number `first` on, shape (n, 2), a view of the file."""
        start = _HEADER + BINS
        view = self._words[start + 2 * first : start + 2 * self._stalls]
        return np.frombuffer(view.cast("B"), dtype=np.float64).reshape(-1, 2)

    def begin(self, t0: float) -> None:
        """The schedule starts at `t0` of CLOCK_MONOTONIC."""
        self._words[_T0] = t0

    def now(self, t: float) -> None:
        """The loop turned at `t`: everything that happened before is recorded."""
        self._words[_NOW] = t

    def sent(self, row: int, t: float, lag_max: float) -> None:
        """The last chunk that a frame needs has left."""
        _double.pack_into(self._frames, row * _ROW + _SENT, t)
        _single.pack_into(self._frames, row * _ROW + _LAG, lag_max)

    def first(self, row: int, t: float) -> None:
        """First output of a frame; only the first call counts."""
        place = row * _ROW + _FIRST
        if (known := _double.unpack_from(self._frames, place)[0]) != known:
            _double.pack_into(self._frames, place, t)

    def done(self, row: int, t: float, tokens: int, flags: int) -> bool:
        """Complete answer to a frame; false when it was answered before (the first answer counts)."""
        place = row * _ROW
        if (known := _double.unpack_from(self._frames, place + _DONE)[0]) == known:
            return False
        _double.pack_into(self._frames, place + _DONE, t)
        _content.pack_into(self._frames, place + _TOKENS, tokens, flags)
        return True

    def again(self, row: int, t: float) -> None:
        """The complete answer to a frame came later than was thought."""
        _double.pack_into(self._frames, row * _ROW + _DONE, t)

    def flag(self, row: int, bits: int) -> None:
        """Add bits of FrameFlag to a frame."""
        place = row * _ROW + _TOKENS
        tokens, flags = _content.unpack_from(self._frames, place)
        _content.pack_into(self._frames, place, tokens, flags | bits)

    def stall(self, start: float, end: float) -> None:
        """The loop did not turn; when there is no more room, the last stall grows to cover all further ones."""
        if self._stalls < MAX_STALLS:
            place = _HEADER + BINS + 2 * self._stalls
            self._words[place] = start
            self._words[place + 1] = end
            self._stalls += 1
            self._words[_STALLS] = self._stalls
        else:
            self._words[_STATE_WORDS - 1] = end

    def session(self, facts: SessionFacts) -> None:
        """A session's facts changed."""
        text = msgspec.json.encode(facts)
        while len(text) > _SLOT:
            facts.reason = facts.reason[: len(facts.reason) // 2]
            text = msgspec.json.encode(facts)
        place = facts.session * _SLOT
        self._slots[place : place + _SLOT] = text.ljust(_SLOT, b"\0")

    def stop(self, t: float) -> None:
        """Streaming stopped at `t`."""
        self._words[_NOW] = t
        self._words[_STOPPED] = 1.0


def _read_saved(folder: Path) -> _Saved:
    try:
        return msgspec.json.decode((folder / "spec.json").read_bytes(), type=_Saved)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{folder} holds no facts of a run: {error}") from error


def read_facts(folder: Path) -> RunFacts:
    """Facts of a run that is over, still going, or was cut off. Raises UsageError for a folder that holds none."""
    saved = _read_saved(folder)
    try:
        return _read_facts(folder, saved)
    except OSError as error:
        raise UsageError(f"the facts in {folder} cannot be read: {error.strerror}") from error
    except (ValueError, IndexError, OverflowError, msgspec.MsgspecError) as error:
        raise UsageError(f"the facts in {folder} are damaged: {error}") from error


def _read_facts(folder: Path, saved: _Saved) -> RunFacts:
    schedule = saved.schedule()
    state = (folder / "state.bin").read_bytes()
    frames = np.fromfile(folder / "frames.bin", dtype=FRAME_DTYPE)
    slots = (folder / "sessions.bin").read_bytes()
    words = np.frombuffer(state, dtype=np.float64)
    t_stop = float(words[_NOW])
    stalls = words[_HEADER + BINS :][: 2 * int(words[_STALLS])].reshape(-1, 2)
    planned = frames["t_ready"] <= t_stop
    if saved.frames_of is not None:
        planned &= frames["frame"] < np.array(saved.frames_of)[frames["session"]]
    return RunFacts(
        frames=frames[planned],
        sessions=_read_sessions(slots, schedule.phases),
        budget=saved.budget,
        unit=saved.unit,
        first_ready=saved.first_ready,
        stalls=stalls.copy(),
        lag_counts=np.frombuffer(state, dtype=np.int64)[_HEADER : _HEADER + BINS].copy(),
        t_stop=t_stop,
    )


def read_start(folder: Path) -> float:
    """t0 of a run, CLOCK_MONOTONIC seconds; 0 where it never started. Raises UsageError."""
    try:
        with (folder / "state.bin").open("rb") as file:
            return float(np.frombuffer(file.read(_HEADER * 8), dtype=np.float64)[_T0])
    except (OSError, IndexError) as error:
        raise UsageError(f"the facts in {folder} cannot be read: {error}") from error


def _read_sessions(slots: bytes, phases: npt.NDArray[np.float64]) -> list[SessionFacts]:
    sessions = []
    for session, phase in enumerate(phases):
        text = slots[session * _SLOT : (session + 1) * _SLOT].rstrip(b"\0")
        if text:
            sessions.append(msgspec.json.decode(text, type=SessionFacts))
        else:
            sessions.append(SessionFacts(session, float(phase)))
    return sessions
