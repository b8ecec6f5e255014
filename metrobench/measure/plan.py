"""What a run is planned to measure, and the rule it will be judged by."""

from __future__ import annotations

import math

import msgspec

from metrobench.errors import UsageError

MAX_SESSIONS = 100_000
MAX_FRAMES = 50_000_000
"""Most planned frames of one run, all sessions together."""
TURN = "turn"
TURNS_A_BLOCK = 5
"""Fewest turns in a block of the growth test."""
MIN_TURNS_SPAN = 60.0
"""Shortest T in seconds over turns."""
TOLERANCE = 1e-9
"""Slack for sums of times in float64, seconds, and for q times a count."""


class Slo(msgspec.Struct, frozen=True):
    """A latency objective that replaces the miss-rate rule: the `quantile` of L is at most `limit`."""

    quantile: float
    """Between 0 and 1, for example 0.99."""
    limit: float
    """Seconds."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One measured run. Build it with `plan_run`, lengthen it with `extended`."""

    sessions: int
    """N: planned sessions, refused ones included."""
    budget: float
    """B, seconds: the deadline of a frame after t_ready."""
    unit: float
    """Seconds of audio in one frame."""
    q: float
    """Largest share of missed frames that passes."""
    cut_frames: int
    """Frames at the start of every session that are streamed and not judged."""
    frames: int
    """Measured frames of every session, after the cut."""
    slo: Slo | None = None
    """Latency objective in place of the miss-rate rule; None: the miss-rate rule."""
    noun: str = "frame"
    """What is measured: frames, segments or turns."""

    @property
    def turns(self) -> bool:
        """Turns of a conversation are rarer than frames."""
        return self.noun == TURN

    @property
    def planned(self) -> int:
        """Frames of all sessions in the measured span."""
        return self.sessions * self.frames

    @property
    def span(self) -> float:
        """T, seconds: the measured span of one session."""
        return self.frames * self.unit

    @property
    def seconds(self) -> float:
        """Seconds from the first chunk to the last deadline."""
        return self.cut_frames * self.unit + self.span + self.wait

    @property
    def limit(self) -> float:
        """Seconds that the judged quantile may reach: B, or the objective's limit."""
        return self.slo.limit if self.slo else self.budget

    @property
    def tail_share(self) -> float:
        """Share of frames that may lie above `limit`: q, or 1 - the objective's quantile."""
        return 1.0 - self.slo.quantile if self.slo else self.q

    @property
    def allowed(self) -> int:
        """Most frames above `limit` with which the run can still pass; one more and it has failed for certain."""
        return math.floor(self.tail_share * self.planned + TOLERANCE)

    @property
    def wait(self) -> float:
        """Seconds to go on streaming after the last measured frame is ready, so that its outcome is known."""
        return max(self.budget, self.limit)

    @property
    def block(self) -> float:
        """Seconds of one block of the growth test."""
        return max(self.budget, 1.0, TURNS_A_BLOCK * self.unit / self.sessions if self.turns else 0.0)

    @property
    def horizon(self) -> float:
        """H, seconds: how far ahead a growing latency is carried."""
        return min(300.0, max(100.0, 5.0 * self.span))


def min_span(budget: float, q: float, sessions: int) -> float:
    """Shortest T in seconds that may be judged: max(15 B, 15 s, B / (q N))."""
    return max(15.0 * budget, 15.0, budget / (q * sessions))


def cut_frames(unit: float, *, turns: bool = False) -> int:
    """Frames of each session to cut, always: max(3 frames, 5 s), or one turn."""
    if turns:
        return 1
    return max(3, math.ceil(5.0 / unit - TOLERANCE))


def plan_run(
    *,
    sessions: int,
    budget: float,
    unit: float,
    q: float,
    span: float | None = None,
    slo: Slo | None = None,
    noun: str = "frame",
) -> Plan:
    """A plan whose measured span is at least `span` and at least `min_span`. Raises UsageError."""
    _bounded(sessions, budget, unit, q, slo)
    if span is not None:
        _within("span", span, 0.0, 8_640_000.0)
    shortest = min_span(budget, 1.0 - slo.quantile if slo else q, sessions)
    seconds = max(shortest, span or 0.0, MIN_TURNS_SPAN if noun == TURN else 0.0)
    frames = math.ceil(seconds / unit - TOLERANCE)
    if frames * sessions > MAX_FRAMES:
        raise UsageError(
            f"a run of {sessions} sessions and {frames} frames each is over {MAX_FRAMES} frames",
            "make the run shorter, or allow a larger miss rate",
        )
    return Plan(
        sessions=sessions,
        budget=budget,
        unit=unit,
        q=q,
        cut_frames=cut_frames(unit, turns=noun == TURN),
        frames=frames,
        slo=slo,
        noun=noun,
    )


def check_plan(plan: Plan) -> None:
    """Raises UsageError for a plan, read from somewhere, that `plan_run` would not have made."""
    _bounded(plan.sessions, plan.budget, plan.unit, plan.q, plan.slo)
    _within("frames before the measured span", plan.cut_frames, 0, MAX_FRAMES)
    _within("frames", (plan.cut_frames + plan.frames) * plan.sessions, 1, 2 * MAX_FRAMES)


def extended(plan: Plan, times: int) -> Plan:
    """The same run gone on to `times` its measured span (2 or 4 when it is unresolved)."""
    return msgspec.structs.replace(plan, frames=plan.frames * times)


def _bounded(sessions: int, budget: float, unit: float, q: float, slo: Slo | None) -> None:
    _within("sessions", sessions, 1, MAX_SESSIONS)
    _within("budget", budget, 0.001, 3_600.0)
    _within("unit", unit, 0.010, 3_600.0)
    _within("q", q, 1e-6, 0.999_999)
    if slo is not None:
        _within("quantile of the objective", slo.quantile, 0.01, 0.999_999)
        _within("limit of the objective", slo.limit, 0.001, 3_600.0)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} {value:g} is out of range", f"give {low:g} to {high:g}")
