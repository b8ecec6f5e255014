"""What an open system did: who came, who was admitted, how many at once, and how they were served.

Sessions come and go, so that there is no fixed N and no verdict of measurement.md: every number here is a description.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from msgspec import Struct

from metrobench.measure.budgets import BudgetClass, SessionMisses, budget_classes, session_misses
from metrobench.measure.client import Client, judge_client
from metrobench.measure.collapse import NORMAL_CLOSE, Collapse, Kind, find_silence, overloaded, silence
from metrobench.measure.facts import RunFacts, SessionFacts
from metrobench.measure.frames import Bools, Floats, FrameTable, Span, build_table
from metrobench.measure.latency import Latency, latency
from metrobench.measure.plan import TOLERANCE, Plan

BAND = 0.2
"""N(t) has converged while it stays within this share of N*."""
LEAST_PRESSED, FEWEST_REFUSALS = 5.0, 5
"""Seconds between the first and the last refusal, and refusals, below which there is no N*."""
_NO_ANSWER = frozenset({"not-reached", "too-slow"})
_NOT_FULL = _NO_ANSWER | {"join_pace"}
"""Refusals that say nothing of the number that fits."""


class Refusal(Struct, frozen=True):
    """One session that was not admitted."""

    session: int
    t: float
    """Seconds from t0: when the refusal was complete."""
    waited: float | None
    """Seconds from its arrival to that, the handshake included; None: it never connected."""
    code: str
    """The server's code, or `not-reached` and `too-slow` where the server gave none."""
    reason: str
    close_code: int | None
    signals: dict[str, float | str | None]
    """What the server said of its state at that moment; empty: nothing."""


class Series(Struct, frozen=True):
    """Second by second; the value at the end of each, lists of one length."""

    t: list[float]
    sessions: list[int]
    """Admitted and open."""
    offered: list[int]
    """Arrived so far."""
    refused: list[int]
    """Refused so far."""
    p50: list[float | None]
    """Latency of the frames that became ready in that second; None: none was answered."""
    p99: list[float | None]
    missed: list[float | None]
    """Share of those frames that missed their deadline; None: none was due."""


class OpenSystem(Struct, frozen=True):
    """The findings of one run."""

    offered: int
    admitted: int
    refused: int
    refused_by: dict[str, int]
    """Refusals by code; their sum is `refused`, and offered = admitted + refused."""
    lost: int
    """Admitted sessions that the server closed before their end."""
    offered_seconds: float
    """Session-seconds of speech that were offered."""
    admitted_seconds: float
    good_seconds: float
    """Goodput: session-seconds whose frames were answered in time."""
    due: int
    """Frames of admitted sessions whose outcome is known."""
    missed: int
    latency: Latency
    """Of admitted sessions, all of their frames."""
    n_star: float | None
    """Sessions held while more wanted in: the median of N(t) at the refusals of the last half of the time between the
    first and the last one. None: too few were refused to tell."""
    peak: int
    """Most sessions at once."""
    converged_after: float | None
    """Seconds from t0 of the first refusal since which all were at an N(t) within BAND of N*; None: no N*, or never."""
    oscillation: float | None
    """Largest deviation of N(t) from N* at the refusals of that last half, as a share of N*."""
    fairness: float | None
    """Jain's index of the admitted sessions' shares of frames in time: 1, all fare alike; 1/n, one takes it all."""
    slowest_refusal: float | None
    """Seconds from the arrival to the complete refusal by the server, the largest."""
    collapse: Collapse
    client: Client
    series: Series
    refusals: list[Refusal]
    firm: list[SessionMisses] = []
    """Each admitted session that had a frame due. Records of earlier versions lack it, and `budgets`."""
    budgets: list[BudgetClass] = []
    """The same by budget, the tightest first."""

    @property
    def client_limited(self) -> bool:
        """The client was late itself: the run proves nothing."""
        return self.client.lagging


def open_system(facts: RunFacts) -> OpenSystem:
    """Findings from the facts of an open run (`SessionFacts.frames` of every session is known)."""
    sessions = [_until(row, facts) for row in sorted(facts.sessions, key=lambda row: row.session)]
    table = open_table(facts, sessions)
    span, budgets = table.whole, np.array([row.budget or facts.budget for row in sessions])
    refused = table.refused
    due = span.due & ~refused[:, None]
    missed = due & span.above_without_client(budgets[:, None])
    met = due & ~span.above(budgets[:, None])
    refusals = [_refusal(row) for row in sessions if row.refused]
    by: dict[str, int] = {}
    for each in refusals:
        by[each.code] = by.get(each.code, 0) + 1
    opened, closed = _stays(sessions, facts)
    star, converged, oscillation = _star(opened, closed, refusals)
    planned = np.array([row.frames or 0 for row in sessions]) * facts.unit
    firm = session_misses([row.session for row in sessions], budgets, due, missed)
    admitted = sum(_decided(row) and not row.refused for row in sessions)
    return OpenSystem(
        offered=admitted + len(refusals),
        admitted=admitted,
        refused=len(refusals),
        refused_by=dict(sorted(by.items())),
        lost=sum(row.t_closed is not None for row in sessions),
        offered_seconds=float(planned.sum()),
        admitted_seconds=float(planned[~refused].sum()),
        good_seconds=float(met.sum()) * facts.unit,
        due=int(due.sum()),
        missed=int(missed.sum()),
        latency=latency(_admitted(table).whole),
        n_star=star,
        peak=int(count_at(opened, closed, opened).max(initial=0)),
        converged_after=converged,
        oscillation=oscillation,
        fairness=jain(met.sum(axis=1)[due.any(axis=1)] / due.sum(axis=1)[due.any(axis=1)]),
        slowest_refusal=max(
            (each.waited for each in refusals if each.waited is not None and each.code not in _NO_ANSWER), default=None
        ),
        collapse=_collapse(facts, table, sessions),
        client=judge_client(facts, table, span),
        series=_series(facts, sessions, span, due, missed, opened, closed),
        refusals=refusals,
        firm=firm,
        budgets=budget_classes(_admitted(table), budgets, firm),
    )


def _decided(row: SessionFacts) -> bool:
    """Admitted or refused: not so who had not come, or had no answer yet, when a run was stopped."""
    return row.refused or row.t_accepted is not None


def _until(row: SessionFacts, facts: RunFacts) -> SessionFacts:
    """The session with the frames only whose deadline was before the run ended; none where nothing was decided."""
    left = (facts.t_stop - row.phase - (row.budget or facts.budget)) / facts.unit + TOLERANCE
    return replace(row, frames=max(0, min(row.frames or 0, int(left))) if _decided(row) else 0)


def open_table(facts: RunFacts, sessions: list[SessionFacts]) -> FrameTable:
    """A dense table in which frames that a session was never to speak have no ready time (inf) and are never due."""
    frames = np.array([row.frames or 0 for row in sessions])
    plan = Plan(
        sessions=len(sessions),
        budget=max((row.budget or facts.budget for row in sessions), default=facts.budget),
        unit=facts.unit,
        q=0.01,
        cut_frames=0,
        frames=max(1, int(frames.max(initial=1))),
    )
    table = build_table(facts, plan)
    table.ready[np.arange(table.ready.shape[1])[None, :] >= frames[:, None]] = np.inf
    return table


def _admitted(table: FrameTable) -> FrameTable:
    """The same with the refused sessions' frames never due."""
    return replace(table, ready=np.where(table.refused[:, None], np.inf, table.ready))


def jain(shares: Floats) -> float | None:
    """(sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe 1984); None where nobody got anything."""
    square = float((shares * shares).sum())
    return float(shares.sum()) ** 2 / (len(shares) * square) if square > 0.0 else None


def count_at(opened: Floats, closed: Floats, times: Floats) -> Floats:
    """N(t): sessions with opened <= t < closed, at each of `times`."""
    came = np.searchsorted(np.sort(opened), times, side="right")
    went = np.searchsorted(np.sort(closed), times, side="right")
    return np.asarray(came - went, dtype=np.float64)


def _stays(sessions: list[SessionFacts], facts: RunFacts) -> tuple[Floats, Floats]:
    """From when to when each admitted session was open at the server."""
    stays = []
    for row, end in zip(sessions, _hung_up(sessions, facts).tolist(), strict=True):
        if row.refused or row.t_accepted is None:
            continue
        stays.append((row.t_accepted, min(end, facts.t_stop) if row.t_closed is None else row.t_closed))
    opened, closed = np.array(stays, dtype=np.float64).reshape(-1, 2).T
    return opened, np.maximum(closed, opened)


def _star(opened: Floats, closed: Floats, refusals: list[Refusal]) -> tuple[float | None, float | None, float | None]:
    """N*, when it was reached, and how far N(t) strayed from it."""
    times = np.sort([each.t for each in refusals if each.code not in _NOT_FULL])
    if len(times) < FEWEST_REFUSALS or times[-1] - times[0] < LEAST_PRESSED or not opened.size:
        return None, None, None
    held = count_at(opened, closed, times)
    half = held[times >= (times[0] + times[-1]) / 2]
    star = float(np.median(half))
    if not star:
        return None, None, None
    outside = np.flatnonzero(np.abs(held - star) > BAND * star)
    since = 0 if not outside.size else int(outside[-1]) + 1
    converged = float(times[since]) if since < len(times) else None
    return star, converged, float(np.abs(half - star).max()) / star


def _refusal(row: SessionFacts) -> Refusal:
    code = row.reason.partition(":")[0] if row.signals is not None or row.close_code is not None else ""
    if row.t_connected is None:
        code = "not-reached"
    elif not code:
        code = "too-slow" if row.reason.startswith("not accepted") else row.reason.partition(":")[0]
    t = row.t_arrived or 0.0 if row.t_refused is None else row.t_refused
    return Refusal(
        session=row.session,
        t=t,
        waited=None if row.t_connected is None else max(0.0, t - (row.t_arrived or 0.0)),
        code=code,
        reason=row.reason,
        close_code=row.close_code,
        signals=row.signals or {},
    )


def _collapse(facts: RunFacts, table: FrameTable, sessions: list[SessionFacts]) -> Collapse:
    """As of a closed system, but that sessions leave: where all that were open are closed with errors at about the same
    time, it is an engine's death."""
    dead = sum(row.t_closed is not None for row in sessions)
    silent = find_silence(replace(table, closed=np.minimum(table.closed, _hung_up(sessions, facts))), dead)
    if silent is not None:
        return silent
    kind = Kind.SESSION_DEATH if dead else Kind.OVERLOAD if overloaded(table) else Kind.NONE
    found = Collapse(kind, None, None, None, None, dead)
    errors = [row for row in sessions if row.t_closed is not None and row.close_code != NORMAL_CLOSE]
    if not errors:
        return found
    last = max(row.t_closed or 0.0 for row in errors)
    window = silence(table.plan.budget, table.plan.unit)
    struck = [row for row in errors if (row.t_closed or 0.0) >= last - window]
    first = min(row.t_closed or 0.0 for row in struck)
    opened, closed = _stays(sessions, facts)
    open_then = float(count_at(opened, closed, np.array([first - 1e-6]))[0])
    if len(struck) < max(2.0, open_then) or float(count_at(opened, closed, np.array([last]))[0]) > 0.0:
        return found
    return Collapse(Kind.ENGINE_DEATH, None, (first, last), last, None, dead)


def _hung_up(sessions: list[SessionFacts], facts: RunFacts) -> Floats:
    """When each session leaves by plan."""
    return np.array(
        [row.phase + (row.frames or 0) * facts.unit + (row.budget or facts.budget) for row in sessions],
        dtype=np.float64,
    )


def _series(
    facts: RunFacts,
    sessions: list[SessionFacts],
    span: Span,
    due: Bools,
    missed: Bools,
    opened: Floats,
    closed: Floats,
) -> Series:
    seconds = np.arange(1.0, np.ceil(facts.t_stop) + 1.0)
    arrived = np.sort([row.t_arrived or 0.0 for row in sessions if _decided(row)])
    gone = np.sort([_refusal(row).t for row in sessions if row.refused])
    ready = span.ready[due]
    place = np.floor(ready).astype(np.int64)
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(len(seconds) + 1))
    # nobody waits for an answer after hanging up
    patience = np.maximum(_hung_up(sessions, facts)[:, None] - span.ready, 0.0)
    waits = np.where(span.answered, span.latency, np.minimum(span.latency, patience))[due][order]
    late = missed[due][order]
    p50: list[float | None] = []
    p99: list[float | None] = []
    share: list[float | None] = []
    for low, high in itertools.pairwise(edges):
        some = bool(high > low)
        p50.append(round(float(np.quantile(waits[low:high], 0.5)), 6) if some else None)
        p99.append(round(float(np.quantile(waits[low:high], 0.99)), 6) if some else None)
        share.append(round(float(late[low:high].mean()), 6) if some else None)
    return Series(
        t=seconds.tolist(),
        sessions=[int(count) for count in count_at(opened, closed, seconds)],
        offered=np.searchsorted(arrived, seconds, side="right").tolist(),
        refused=np.searchsorted(gone, seconds, side="right").tolist(),
        p50=p50,
        p99=p99,
        missed=share,
    )
