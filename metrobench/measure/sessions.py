"""Which sessions fared worst?"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import Floats, FrameTable

P99_FRAMES = 100
"""Fewest answered frames of a session for its 99th percentile."""


class SessionRow(Struct, frozen=True):
    """One session over the measured span."""

    session: int
    due: int
    missed: int
    p99: float | None
    """99th percentile of L, seconds, a frame with no answer above all others; None: under P99_FRAMES, or unanswered."""
    slowest: float | None
    """Largest L of an answered frame, seconds; None: none was answered."""
    longest_gap: float | None
    """Longest time without an answer, seconds: between two answers, or from the last one to the end of the run."""
    refused: bool
    closed: float | None
    """Seconds from t0 at which its connection ended early."""
    reason: str
    """The server's words."""


def worst_sessions(facts: RunFacts, table: FrameTable, most: int = 10) -> list[SessionRow]:
    """At most `most` sessions: refused and most missed first, then the slowest."""
    span = table.span
    missed = span.missed.sum(axis=1)
    answered = span.due & span.answered
    slowest = np.where(answered, span.latency, -np.inf).max(axis=1, initial=-np.inf)
    order = np.lexsort((-slowest, -missed, ~table.refused))[:most]
    words = {row.session: row.reason for row in facts.sessions}
    return [
        SessionRow(
            session=session,
            due=int(span.due[session].sum()),
            missed=int(missed[session]),
            p99=_p99(np.where(span.answered, span.latency, np.inf)[session][span.due[session]]),
            slowest=float(slowest[session]) if np.isfinite(slowest[session]) else None,
            longest_gap=_longest_gap(table, session),
            refused=bool(table.refused[session]),
            closed=float(table.closed[session]) if np.isfinite(table.closed[session]) else None,
            reason=words.get(session, ""),
        )
        for session in order.tolist()
    ]


def _p99(ranks: Floats) -> float | None:
    if len(ranks) < P99_FRAMES:
        return None
    value = float(np.partition(ranks, place := int(np.ceil(0.99 * len(ranks))) - 1)[place])
    return value if np.isfinite(value) else None


def _longest_gap(table: FrameTable, session: int) -> float | None:
    """From the first frame's t_ready on, over the whole run."""
    if table.refused[session]:
        return None
    done = table.done[session]
    times = np.sort(done[np.isfinite(done)])
    marks = np.concatenate([[table.ready[session, 0]], times, [max(table.t_stop, times[-1] if len(times) else 0.0)]])
    return float(np.diff(marks).max())
