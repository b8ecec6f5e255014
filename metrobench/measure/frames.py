"""From the recorded rows to a dense table: one cell per planned frame, answered or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metrobench.measure.facts import FrameFlag, RunFacts
from metrobench.measure.plan import TOLERANCE, Plan

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

MAX_TIME = 1e8
"""Recorded times beyond this many seconds are taken as absent."""


def healthy_lag(budget: float) -> float:
    """Largest client lateness in seconds that says nothing against a run: max(5 ms, 1 % of B)."""
    return max(0.005, 0.01 * budget)


@dataclass(frozen=True)
class FrameTable:
    """All frames of a run, shape (sessions, columns); column k is frame k of the session.

    The columns cover the planned frames and any recorded after them. Times are seconds from t0; NaN: none.
    """

    plan: Plan
    t_stop: float
    ready: Floats
    sent: Floats
    first: Floats
    done: Floats
    present: Bools
    """A row was recorded for this frame."""
    content_due: Bools
    empty: Bools
    """The answer carried no content unit."""
    rolled: Bools
    """The server built the session's context again before the answer."""
    broken: Bools
    """The answer's speech came too slowly to be played."""
    refused: Bools
    """Shape (sessions,)."""
    closed: Floats
    """Shape (sessions,): when the session's connection ended early; inf: it stayed open."""
    stalls: Floats
    """Shape (n, 2), sorted, disjoint: when the client's event loop did not turn."""
    ignored: int
    """Recorded rows that belong to no planned session or to no possible frame."""

    @cached_property
    def span(self) -> Span:
        """The measured span: frames cut .. cut + frames - 1 of every planned session."""
        return self.columns(self.plan.cut_frames, self.plan.cut_frames + self.plan.frames)

    @cached_property
    def whole(self) -> Span:
        """All frames: the cut ones, the measured span and what was streamed after it."""
        return self.columns(0, self.ready.shape[1])

    def columns(self, start: int, stop: int) -> Span:
        """Outcomes of the frames start .. stop - 1 of every session."""
        return _outcomes(self, slice(start, stop))


@dataclass(frozen=True)
class Span:
    """Outcomes of a range of frames, shape (sessions, frames).

    L of a frame with no answer is the time it was waited for, a lower bound; `answered` tells the two apart.
    """

    budget: float
    ready: Floats
    first: Floats
    done: Floats
    answered: Bools
    due: Bools
    """The deadline passed before streaming stopped: the outcome is known."""
    dead: Bools
    """No answer, and the session was refused or closed early."""
    lateness: Floats
    """S: seconds of L that the client itself may have caused, 0 .. L."""
    latency: Floats
    """L, or the time waited where no answer came."""
    empty: Bools
    """Answered with nothing where content was due."""
    rolled: Bools
    """The server built the session's context again before the answer."""
    broken: Bools
    """The answer's speech came too slowly to be played: missed, however early it began."""

    def above(self, limit: float | Floats) -> Bools:
        """Due frames with L above `limit` seconds (one, or one a session in shape (sessions, 1)); no answer, or one
        that cannot be played, counts as above."""
        return self.due & (~self.answered | self.broken | (self.latency > limit + TOLERANCE))

    def above_without_client(self, limit: float | Floats) -> Bools:
        """Due frames with L - S above `limit` seconds: late even if the client's own lateness is taken off.

        A frame with no answer is excused only where the client's lateness is more than a healthy client has
        and left the server less than `limit`.
        """
        beyond = self.latency - self.lateness > limit + TOLERANCE
        silent = ~self.answered & (self.dead | (self.lateness <= healthy_lag(self.budget)))
        return self.due & (beyond | silent | self.broken)

    @cached_property
    def missed(self) -> Bools:
        """Late, lost or dead, whatever the client did."""
        return self.above_without_client(self.budget)

    @cached_property
    def ambiguous(self) -> Bools:
        """Late by no more than the client's own lateness: neither met nor missed."""
        return self.above(self.budget) & ~self.missed

    @cached_property
    def met(self) -> Bools:
        """Complete answer within the budget."""
        return self.due & ~self.above(self.budget)


def build_table(facts: RunFacts, plan: Plan) -> FrameTable:
    """The dense table of a run. Rows may come in any order; rows that fit no planned frame are counted, not used."""
    n = plan.sessions
    t_stop = _time(facts.t_stop, 0.0)
    phase, refused, closed = _session_columns(facts, n)
    first_ready, unit = _time(facts.first_ready, plan.unit), plan.unit
    rows = facts.frames
    session, frame = rows["session"].astype(np.int64), rows["frame"].astype(np.int64)
    end = plan.cut_frames + plan.frames
    last = max(end, int(min((t_stop - first_ready) / unit + 2, 2 * end + 1000)))
    usable = (session < n) & (frame < last)
    if not usable.all():
        rows, session, frame = rows[usable], session[usable], frame[usable]
    width = max(end, int(frame.max()) + 1 if frame.size else 0)

    ready = phase[:, None] + first_ready + unit * np.arange(width)[None, :]
    cell = session * width + frame
    recorded = _clean(rows["t_ready"])
    good = np.isfinite(recorded)
    ready.reshape(-1)[cell[good]] = recorded[good]
    flags, tokens = _place(rows["flags"], cell, ready.shape, 0), _place(rows["tokens"], cell, ready.shape, -1)

    return FrameTable(
        plan=plan,
        t_stop=t_stop,
        ready=ready,
        sent=_place(_clean(rows["t_sent"]), cell, ready.shape, np.nan),
        first=_place(_clean(rows["t_first"]), cell, ready.shape, np.nan),
        done=_place(_clean(rows["t_done"]), cell, ready.shape, np.nan),
        present=_place(np.ones(len(rows), dtype=bool), cell, ready.shape, False),
        content_due=(flags & FrameFlag.CONTENT_DUE) != 0,
        empty=tokens == 0,
        rolled=(flags & FrameFlag.ROLLOVER) != 0,
        broken=(flags & FrameFlag.BROKEN) != 0,
        refused=refused,
        closed=closed,
        stalls=merge_stalls(facts.stalls),
        ignored=int(len(usable) - usable.sum()),
    )


def merge_stalls(stalls: npt.ArrayLike) -> Floats:
    """Stalls sorted, joined where they overlap, cut to +-MAX_TIME. Shape (n, 2)."""
    array = np.asarray(stalls, dtype=np.float64).reshape(-1, 2)
    array = np.clip(array[np.isfinite(array).all(axis=1)], -MAX_TIME, MAX_TIME)
    array = array[array[:, 1] > array[:, 0]]
    array = array[np.argsort(array[:, 0], kind="stable")]
    if not len(array):
        return array
    reach = np.maximum.accumulate(array[:, 1])
    fresh = np.concatenate([[True], array[1:, 0] > reach[:-1]])
    starts = np.flatnonzero(fresh)
    ends = np.append(starts[1:], len(array)) - 1
    return np.column_stack([array[starts, 0], reach[ends]])


def stall_overlap(stalls: Floats, received: Floats) -> Floats:
    """Seconds by which each receipt may have been held up: from the start of the merged stall it fell into."""
    if not len(stalls):
        return np.zeros_like(received)
    index = np.searchsorted(stalls[:, 0], received, side="right") - 1
    start, end = stalls[index, 0], stalls[index, 1]
    inside = (index >= 0) & (received <= end + TOLERANCE)
    return np.where(inside, received - start, 0.0)


def listened(stalls: Floats, since: npt.ArrayLike, until: npt.ArrayLike) -> Floats:
    """Seconds from `since` to `until` outside the merged stalls: the client itself was listening."""
    since, until = np.clip(since, -MAX_TIME, MAX_TIME), np.clip(until, -MAX_TIME, MAX_TIME)
    if not len(stalls):
        return np.asarray(until - since)
    edges = np.concatenate([[-MAX_TIME], stalls.ravel(), [MAX_TIME]])
    deaf = np.concatenate([[0.0, 0.0], np.repeat(np.cumsum(stalls[:, 1] - stalls[:, 0]), 2)])
    return np.asarray(until - since - (np.interp(until, edges, deaf) - np.interp(since, edges, deaf)))


def _outcomes(table: FrameTable, columns: slice) -> Span:
    ready, done, sent = table.ready[:, columns], table.done[:, columns], table.sent[:, columns]
    answered = np.isfinite(done)
    gone = table.refused | np.isfinite(table.closed)
    dead = ~answered & gone[:, None]
    received = np.where(answered, done, table.t_stop)
    latency = np.where(answered, received - ready, np.maximum(received - ready, 0.0))
    held_back = table.present[:, columns] & ~np.isfinite(sent) & ~answered
    lag = np.where(held_back, latency, np.nan_to_num(np.maximum(sent - ready, 0.0), nan=0.0))
    lateness = np.clip(lag + stall_overlap(table.stalls, received), 0.0, np.maximum(latency, 0.0))
    return Span(
        budget=table.plan.budget,
        ready=ready,
        first=table.first[:, columns],
        done=done,
        answered=answered,
        due=ready + table.plan.wait <= table.t_stop + TOLERANCE,
        dead=dead,
        lateness=np.where(dead, 0.0, lateness),
        latency=latency,
        empty=answered & table.empty[:, columns] & table.content_due[:, columns],
        rolled=answered & table.rolled[:, columns],
        broken=table.broken[:, columns],
    )


def _session_columns(facts: RunFacts, n: int) -> tuple[Floats, Bools, Floats]:
    phase, refused, closed = np.zeros(n), np.zeros(n, dtype=bool), np.full(n, np.inf)
    for row in facts.sessions:
        if 0 <= row.session < n:
            phase[row.session] = _time(row.phase, 0.0)
            refused[row.session] = row.refused
            if row.t_closed is not None:
                closed[row.session] = _time(row.t_closed, 0.0)
    return phase, refused, closed


def _place(
    values: npt.NDArray[Any], cell: npt.NDArray[np.int64], shape: tuple[int, ...], otherwise: float
) -> npt.NDArray[Any]:
    """`values` at their cells (row-major numbers) of a table of `shape`."""
    column = np.full(shape, otherwise, dtype=values.dtype)
    column.reshape(-1)[cell] = values
    return column


def _clean(values: npt.NDArray[np.float64]) -> Floats:
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) < MAX_TIME)] = np.nan
    return array


def _time(value: float, otherwise: float) -> float:
    return float(value) if abs(value) < MAX_TIME else otherwise
