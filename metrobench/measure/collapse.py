"""Did serving stop? Told from the client's frames and the fate of its connections."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from msgspec import Struct

from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import Floats, FrameTable, Ints, listened

NORMAL_CLOSE = 1000
"""WebSocket close code of a connection that ended without an error."""
OVERLOAD_SHARE = 0.10
"""Pooled share of misses above which a server counts as overloaded."""


class Kind(StrEnum):
    """How a run's serving ended, worst last named first when several apply."""

    NONE = "none"
    OVERLOAD = "overload"
    SESSION_DEATH = "session-death"
    STARVATION = "starvation"
    STALL = "stall"
    ENGINE_DEATH = "engine-death"


class Before(StrEnum):
    """State of the window of max(5 s, 3 B) before the onset."""

    HEALTHY = "healthy"
    OVERLOAD = "overload"
    START = "start"


class Collapse(Struct, frozen=True):
    """What was found. Only stall, starvation and engine-death are collapses."""

    kind: Kind
    """Late but moving is overload; some sessions closed is session-death."""
    before: Before | None
    """None unless it is a collapse; after overload or from the start it is outside incidence."""
    onset: tuple[float, float] | None
    """Bracket of the onset, seconds from t0: last answer, deadline of the first frame with no answer then or later."""
    named_at: float | None
    """Seconds from t0 at which an observer could have named it."""
    share: float | None
    """Share of the open sessions that starved."""
    dead_sessions: int
    """Sessions closed early."""

    @property
    def collapsed(self) -> bool:
        """Serving stopped for somebody, not merely late."""
        return self.kind in (Kind.STALL, Kind.STARVATION, Kind.ENGINE_DEATH)

    @property
    def in_incidence(self) -> bool:
        """Counts as a collapse in incidence figures: it struck a healthy server."""
        return self.collapsed and self.before is Before.HEALTHY

    @property
    def observed(self) -> float | None:
        """t_obs: the middle of the onset bracket, seconds from t0."""
        return None if self.onset is None else 0.5 * (self.onset[0] + self.onset[1])


class _Finding(Struct, frozen=True):
    kind: Kind
    onset: tuple[float, float]
    named_at: float
    share: float | None = None


def silence(budget: float, unit: float = 0.0) -> float:
    """max(5 s, 3 B), seconds: how long serving must have stopped. Three units where they are longer than B, as turns
    are: one answer less is a miss, and no collapse."""
    return max(5.0, 3.0 * budget, 3.0 * unit)


def find_collapse(facts: RunFacts, table: FrameTable) -> Collapse:
    """The first collapse of a run, or what else ended or slowed its serving."""
    dead = int((np.isfinite(table.closed) & ~table.refused).sum())
    frames = _Frames(table)
    if not frames.open.size:
        return Collapse(Kind.NONE, None, None, None, None, dead)
    found = _first(frames, dead, _engine_death(facts, frames))
    if found is not None:
        return found
    kind = Kind.SESSION_DEATH if dead else Kind.OVERLOAD if overloaded(table) else Kind.NONE
    return Collapse(kind, None, None, None, None, dead)


def find_silence(table: FrameTable, dead: int) -> Collapse | None:
    """The first stall or starvation; sessions may end by themselves, at `table.closed`, `dead` of them with an error.
    None: neither."""
    frames = _Frames(table)
    return _first(frames, dead, None) if frames.open.size else None


def _first(frames: _Frames, dead: int, death: _Finding | None) -> Collapse | None:
    """What was named first: `death`, a stall or a starvation."""
    stall = _stall(frames)
    found = [each for each in (death, stall, _starvation(frames, stall)) if each is not None]
    if not found:
        return None
    first = min(found, key=lambda each: each.named_at)
    return Collapse(first.kind, _before(frames, first.onset[0]), first.onset, first.named_at, first.share, dead)


class _Frames:
    """Gaps between the answers of every session, shared by the searches below."""

    def __init__(self, table: FrameTable) -> None:
        n, width = table.ready.shape
        planned = np.arange(width) < table.plan.cut_frames + table.plan.frames
        self.table = table
        self.window = silence(table.plan.budget, table.plan.unit)
        self.open = np.flatnonzero(~table.refused)
        self.end: Floats = np.minimum(table.closed, table.t_stop)
        """Shape (sessions,): until when a session could have been answered."""
        deadline = np.where(table.present | planned, table.ready + table.plan.budget, np.inf)
        self.deadline: Floats = np.concatenate([deadline, np.full((n, 1), np.inf)], axis=1)
        """Shape (sessions, columns + 1); inf where no frame is expected."""
        answered = np.isfinite(table.done)
        number = np.where(answered, np.arange(width), -1)
        self.newest: Ints = np.maximum.accumulate(np.concatenate([np.full((n, 1), -1), number], axis=1), axis=1)
        """Shape (sessions, columns + 1): newest answered frame below each column; frames it skipped are lost."""
        received = np.where(answered, table.done, -np.inf)
        before = np.concatenate([np.full((n, 1), -np.inf), received], axis=1)
        self.received: Floats = np.maximum.accumulate(before, axis=1)
        """Shape (sessions, columns + 1): latest answer to a frame below each column; -inf: none yet."""

        who, columns = np.nonzero(answered)
        times = table.done[who, columns]
        order = np.argsort(times, kind="stable")
        self.times: Floats = times[order]
        """All receipts in order of time."""
        self.who: Ints = who[order]
        """The session of each."""

    def overdue_since(self) -> Floats:
        """Shape (sessions, columns + 1): from when an answer was overdue while the session waited for this column."""
        return np.maximum(np.take_along_axis(self.deadline, self.newest + 1, axis=1), self.received)

    def waited_until(self) -> Floats:
        """Shape (sessions, columns + 1): when that wait ended, by the answer, the close, or the end of the run."""
        done = np.where(np.isfinite(self.table.done), self.table.done, -np.inf)
        return np.concatenate([done, self.end[:, None]], axis=1)


def _engine_death(facts: RunFacts, frames: _Frames) -> _Finding | None:
    """Every session closed with an error, at least half of them within the window before the last close."""
    closed = frames.table.closed[frames.open]
    polite = {row.session for row in facts.sessions if row.t_closed is not None and row.close_code == NORMAL_CLOSE}
    if not closed.size or not np.isfinite(closed).all() or polite.intersection(frames.open.tolist()):
        return None
    last = float(closed.max())
    if (closed >= last - frames.window).mean() < 0.5:
        return None
    deadline = frames.deadline[frames.open, frames.newest[frames.open, -1] + 1]
    return _Finding(Kind.ENGINE_DEATH, _bracket(float(frames.received[frames.open, -1].max()), deadline.min()), last)


def _stall(frames: _Frames) -> _Finding | None:
    """No answer to anybody for the window while answers are overdue and connections open."""
    done = frames.table.done
    starts, ends = np.concatenate([[-np.inf], frames.times]), np.concatenate([frames.times, [np.inf]])
    for start, end in zip(*(side[ends - starts >= frames.window] for side in (starts, ends)), strict=True):
        newest = np.where(done[frames.open] <= start, np.arange(done.shape[1]), -1).max(axis=1, initial=-1)
        deadline = frames.deadline[frames.open, newest + 1]
        since = np.maximum(deadline, start)
        until = np.minimum(frames.end[frames.open], end)
        silent = listened(frames.table.stalls, since, until) >= frames.window
        if silent.any():
            named = float(since[silent].min()) + frames.window
            # a session that starved before the rest fell silent does not date the silence of all
            struck = deadline[silent & (deadline >= start)]
            first = float(struck.min()) if struck.size else float(deadline[silent].min())
            return _Finding(Kind.STALL, _bracket(float(start), first), named)
    return None


def _starvation(frames: _Frames, stall: _Finding | None) -> _Finding | None:
    """At least one session unanswered for the window while answers are overdue to it and others are served."""
    since, until = frames.overdue_since(), frames.waited_until()
    starved = (until - since >= frames.window) & ~frames.table.refused[:, None]
    starved[starved] = listened(frames.table.stalls, since[starved], until[starved]) >= frames.window
    sessions = np.flatnonzero(starved.any(axis=1))
    start = np.where(starved[sessions], since[sessions], np.inf)
    column = start.argmin(axis=1)
    begin = start.min(axis=1)
    for place in np.argsort(begin, kind="stable"):
        session, named = int(sessions[place]), float(begin[place]) + frames.window
        received = float(frames.received[session, column[place]])
        if _part_of(stall, received, frames) or not _others_served(frames, session, named):
            continue
        deadline = frames.deadline[session, frames.newest[session, column[place]] + 1]
        return _Finding(Kind.STARVATION, _bracket(received, float(deadline)), named, len(sessions) / len(frames.open))
    return None


def _others_served(frames: _Frames, session: int, end: float) -> bool:
    """Another session had more than one turn meanwhile: a queue that is merely long gives each one turn a round."""
    inside = slice(*np.searchsorted(frames.times, [end - frames.window, end], side="right"))
    answers = np.bincount(frames.who[inside], minlength=session + 1)
    answers[session] = 0
    return bool(answers.max() >= turns(frames.window, frames.table.plan.unit))


def turns(length: float, unit: float) -> int:
    """Answers to one session within `length` seconds that show a server to serve it while it starves another."""
    return max(1, min(3, int(length / (2.0 * unit))))


def _part_of(stall: _Finding | None, received: float, frames: _Frames) -> bool:
    """The session's silence began with the stall: its last answer came within one round before it."""
    round_length = frames.table.plan.unit + frames.table.plan.budget
    return stall is not None and received >= stall.onset[0] - round_length


def _bracket(received: float, deadline: float) -> tuple[float, float]:
    """Onset bracket. With no answer before it, it begins at the deadline; under overload the two may be swapped."""
    known = [float(time) for time in (received, deadline) if np.isfinite(time)] or [0.0]
    return min(known), max(known)


def _before(frames: _Frames, onset: float) -> Before:
    """Was the server healthy in the window before the onset?"""
    table = frames.table
    begin = float(table.ready[frames.open, 0].min()) - table.plan.unit
    if onset - begin < frames.window:
        return Before.START
    span = table.whole
    deadline = span.ready + table.plan.budget
    judged = span.due & ~table.refused[:, None] & (deadline > onset - frames.window) & (deadline <= onset)
    if not judged.any():
        return Before.START
    return Before.HEALTHY if span.missed[judged].mean() <= OVERLOAD_SHARE else Before.OVERLOAD


def overloaded(table: FrameTable) -> bool:
    """More than a tenth of the accepted sessions' frames of the last window were missed."""
    span = table.whole
    due = span.due & ~table.refused[:, None]
    if not due.any():
        return False
    deadline = span.ready + table.plan.budget
    judged = due & (deadline > float(deadline[due].max()) - silence(table.plan.budget, table.plan.unit))
    return bool(span.missed[judged].mean() > OVERLOAD_SHARE)
