"""The verdict on one run: passed, failed, unresolved or void, with every number and reason behind it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from metrobench.measure.client import Client, judge_client
from metrobench.measure.collapse import Collapse, find_collapse
from metrobench.measure.drift import Drift, drift
from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import FrameTable, build_table
from metrobench.measure.growth import Growth, growth_test
from metrobench.measure.latency import Latency, latency
from metrobench.measure.misses import Misses, census
from metrobench.measure.plan import TOLERANCE, Plan, min_span
from metrobench.measure.settle import mser5
from metrobench.measure.warnings import Warn
from metrobench.units import counted, percent, seconds

MAX_OTHERS = 0.25
"""CPU of other programs on the machine of an embedded worker, in cores, above which a run is void."""
MAX_SLOWDOWN = 1.7
"""A core of the machine this much slower than undisturbed for 3 s voids a run that did not pass."""
MAX_STEAL = 0.05
"""Share of CPU time stolen by the hypervisor above which a run is void."""


class Outcome(StrEnum):
    """What a run says about its number of sessions."""

    PASSED = "passed"
    FAILED = "failed"
    UNRESOLVED = "unresolved"
    VOID = "void"


class Reason(StrEnum):
    """Why the outcome is not `passed`."""

    MISSES = "misses"
    OBJECTIVE = "objective"
    REFUSED = "refused"
    COLLAPSE = "collapse"
    GROWTH = "growth"
    GROWTH_UNSURE = "growth-unsure"
    TOO_FEW_BLOCKS = "too-few-blocks"
    NOT_COMPLETE = "not-complete"
    CLIENT_LAG = "client-lag"
    CLIENT_DECIDES = "client-decides"
    STEAL = "steal"
    GPU_BUSY = "gpu-busy"
    OTHERS_BUSY = "others-busy"
    MACHINE_SLOW = "machine-slow"
    CLIENT_DIED = "client-died"
    TIE_LOST = "tie-lost"


TRANSIENT = frozenset({Reason.MACHINE_SLOW})
"""Reasons that pass by themselves: a run that is void for no other may be repeated more often."""
NOT_WATCHED = frozenset({Reason.CLIENT_DIED, Reason.TIE_LOST})
"""Reasons for which a run does not even say whether the server collapsed; a client that lags does see it stop."""
_BY_SPEED = frozenset(Reason) - {Reason.COLLAPSE, Reason.REFUSED}
"""Reasons that a slower machine can bring about."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything one run says. Every number is finite or None."""

    outcome: Outcome
    """Passed, failed, unresolved or void."""
    reasons: tuple[Reason, ...]
    """Why it did not pass; empty where it did."""
    sentences: tuple[str, ...]
    """The reasons in words, one each."""
    warnings: tuple[Warn, ...]
    """Doubts that do not change the outcome."""
    sessions: int
    """N."""
    budget: float
    """B, seconds."""
    unit: float
    """Seconds of audio in one frame."""
    q: float
    """Largest share of missed frames that passes."""
    span: float
    """T, seconds: measured span."""
    cut: float
    """Seconds cut from the start of every session."""
    limit: float
    """Seconds the judged quantile may reach: B or the objective's limit."""
    above: int
    """Due frames above `limit` without the client's lateness; more than `allowed` fails."""
    allowed: int
    """Most frames above `limit` that pass."""
    misses: Misses
    """The census."""
    latency: Latency
    """Quantiles of latency."""
    growth: Growth
    """The growth test."""
    drift: Drift
    """Latency against session age."""
    collapse: Collapse
    """Did serving stop?"""
    client: Client
    """Did the client keep its schedule?"""
    steal: float | None
    """Share of CPU time stolen in the run; None: not visible."""
    others: float | None = None
    """Cores that other programs kept busy; None: not visible, or the server is somebody else's."""
    slowdown: float | None = None
    """Slowest 3 s of a core of this machine: time for the same work, over that when undisturbed; None: not seen."""

    @property
    def narrow(self) -> bool:
        """Passed or failed by less than a factor of two: a replicate may well say otherwise."""
        return is_narrow(self.outcome, self.reasons, self.growth, self.limit)

    @property
    def transient(self) -> bool:
        """Void for a reason that passes by itself."""
        return self.outcome is Outcome.VOID and TRANSIENT.issuperset(self.reasons)


def judge(
    facts: RunFacts,
    plan: Plan,
    steal: float | None = None,
    gpu_busy: bool | None = None,
    others: float | None = None,
    slowdown: float | None = None,
    excuse_slow: bool = True,
    client_died: bool = False,
    table: FrameTable | None = None,
) -> Verdict:
    """Judge one run by the rules of measurement.md. Pure: the same facts give the same verdict.

    `steal`: share of CPU time stolen by the hypervisor over the run; `gpu_busy`: another process used the GPU;
    `others`: cores that other programs kept busy beside an embedded worker; `slowdown`: how much slower a core of its
    machine was for 3 s (who passes on a slow machine passes; with `excuse_slow` off, who fails on one fails).
    None where the caller cannot see it. `client_died`: the load process ended before the run did.
    `table`: that of the same facts and plan, where the caller has it.
    """
    table = build_table(facts, plan) if table is None else table
    span = table.span
    collapse, client = find_collapse(facts, table), judge_client(facts, table, span)
    decided = decide(table, collapse)
    excused = decide(table, collapse, without_client=True) if span.lateness[span.due].any() else decided
    misses = census(table, span)
    steal, others, slowdown = _finite(steal), _finite(others), _finite(slowdown)
    suffered = _suffered(decided, slowdown)
    around = {
        Reason.CLIENT_DIED: client_died,
        Reason.TIE_LOST: misses.early > 0,
        Reason.STEAL: (steal or 0.0) > MAX_STEAL,
        Reason.GPU_BUSY: bool(gpu_busy),
        Reason.OTHERS_BUSY: (others or 0.0) > MAX_OTHERS,
        Reason.MACHINE_SLOW: suffered and excuse_slow,
    }
    void = (*_client_limited(decided, excused, client), *(reason for reason, holds in around.items() if holds))
    outcome, reasons = (Outcome.VOID, void) if void else (decided.outcome, decided.reasons)
    verdict = Verdict(
        outcome=outcome,
        reasons=reasons,
        sentences=(),
        warnings=(
            *_warnings(facts, table, misses, client, steal, outcome),
            *((Warn.MACHINE_SLOW,) if suffered and not void else ()),
        ),
        sessions=plan.sessions,
        budget=plan.budget,
        unit=plan.unit,
        q=plan.q,
        span=plan.span,
        cut=plan.cut_frames * plan.unit,
        limit=plan.limit,
        above=excused.above,
        allowed=plan.allowed,
        misses=misses,
        latency=latency(span),
        growth=decided.growth,
        drift=drift(table),
        collapse=collapse,
        client=client,
        steal=steal,
        others=others,
        slowdown=slowdown,
    )
    return replace(verdict, sentences=tuple(counted(_SENTENCES[reason](verdict), plan.noun) for reason in reasons))


class Decision(Struct, frozen=True):
    """What the pass and fail rules say, before the run is asked whether it proves anything."""

    outcome: Outcome
    """Passed, failed or unresolved."""
    reasons: tuple[Reason, ...]
    """Why it did not pass."""
    growth: Growth
    """The growth test behind it."""
    above: int
    """Due frames above the limit."""


def decide(table: FrameTable, collapse: Collapse, *, without_client: bool = False) -> Decision:
    """The pass and fail rules on L, or on L - S."""
    plan, span = table.plan, table.span
    growth = growth_test(span, plan, without_client=without_client)
    over = span.above_without_client(plan.limit) if without_client else span.above(plan.limit)
    above, complete = int(over.sum()), bool(span.due.all())
    reasons = _failures(table, collapse, growth, above=above, complete=complete)
    if reasons:
        return Decision(Outcome.FAILED, reasons, growth, above)
    if not complete:
        return Decision(Outcome.UNRESOLVED, (Reason.NOT_COMPLETE,), growth, above)
    if growth.slope is None:
        return Decision(Outcome.UNRESOLVED, (Reason.TOO_FEW_BLOCKS,), growth, above)
    if not growth.passes:
        return Decision(Outcome.UNRESOLVED, (Reason.GROWTH_UNSURE,), growth, above)
    return Decision(Outcome.PASSED, (), growth, above)


def is_narrow(outcome: Outcome, reasons: tuple[Reason, ...], growth: Growth, limit: float) -> bool:
    """Q + H times the growth lies between half and twice the limit, and nothing else decided."""
    if outcome is Outcome.PASSED:
        return growth.ahead_upper is not None and growth.ahead_upper > 0.5 * limit
    if outcome is Outcome.FAILED and reasons == (Reason.GROWTH,):
        return growth.ahead_lower is not None and growth.ahead_lower < 2.0 * limit
    return False


def _failures(
    table: FrameTable, collapse: Collapse, growth: Growth, *, above: int, complete: bool
) -> tuple[Reason, ...]:
    found = {
        Reason.REFUSED: bool(table.refused.any()),
        Reason.COLLAPSE: collapse.collapsed,
        Reason.OBJECTIVE if table.plan.slo else Reason.MISSES: above > table.plan.allowed,
        # a run that ended early has too short a series to say where it leads
        Reason.GROWTH: complete and growth.fails,
    }
    return tuple(reason for reason, holds in found.items() if holds)


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _suffered(decided: Decision, slowdown: float | None) -> bool:
    """The run did not pass, a core was slow in it, and slowness can be why."""
    slow = (slowdown or 0.0) > MAX_SLOWDOWN
    return slow and decided.outcome is not Outcome.PASSED and _BY_SPEED.issuperset(decided.reasons)


def _client_limited(decided: Decision, excused: Decision, client: Client) -> tuple[Reason, ...]:
    """Why the run proves nothing about the server: it is the client that was measured. Empty where it was not."""
    reasons = []
    if client.lagging:
        reasons.append(Reason.CLIENT_LAG)
    if decided.outcome is not excused.outcome:
        reasons.append(Reason.CLIENT_DECIDES)
    return tuple(reasons)


def _warnings(
    facts: RunFacts, table: FrameTable, misses: Misses, client: Client, steal: float | None, outcome: Outcome
) -> tuple[Warn, ...]:
    plan = table.plan
    fresh = any(not row.refused and not row.filled_tokens for row in facts.sessions if row.session < plan.sessions)
    found = {
        Warn.SHORT_RUN: plan.span + TOLERANCE < min_span(plan.budget, plan.tail_share, plan.sessions),
        Warn.FRESH_SESSIONS: fresh,
        # a run that fails by growth settles never: only elsewhere the start is the likelier cause
        Warn.CUT_TOO_SHORT: outcome in (Outcome.PASSED, Outcome.UNRESOLVED) and _still_settling(table),
        Warn.HOLLOW: misses.hollow > 0,
        Warn.AMBIGUOUS: misses.ambiguous > 0,
        Warn.SILENT_DROPS: misses.dropped > 0,
        Warn.NO_LAG: client.lag_p99 is None,
        Warn.ROWS_IGNORED: table.ignored > 0,
        Warn.STEAL_UNKNOWN: steal is None,
    }
    return tuple(warning for warning, holds in found.items() if holds)


def _still_settling(table: FrameTable) -> bool:
    """MSER-5 on the pooled latencies from frame 0 would cut into the measured span."""
    end = table.plan.cut_frames + table.plan.frames
    ready, latency_all = table.ready[:, :end], (table.done - table.ready)[:, :end]
    known = np.isfinite(latency_all)
    order = np.argsort(ready[known], kind="stable")
    times = ready[known][order]
    # to the microsecond: the rounding of sums of times is no settling
    cut = mser5(np.round(latency_all[known][order], 6))
    return bool(cut and times[cut] > table.span.ready.min())


def _misses_words(verdict: Verdict) -> str:
    return (
        f"{verdict.above} of {verdict.misses.planned} frames were later than {seconds(verdict.limit)}"
        f" or never answered; {verdict.allowed} are allowed"
    )


def _collapse_words(verdict: Verdict) -> str:
    onset = verdict.collapse.observed
    return f"{verdict.collapse.kind.value} at {seconds(onset or 0.0)}"


def _growth_words(verdict: Verdict) -> str:
    growth = verdict.growth
    if growth.slope is None:
        return f"{growth.blocks} blocks are too few to tell whether latency grows"
    return (
        f"latency grows by {growth.slope.lower * 1e3:.1f} to {growth.slope.upper * 1e3:.1f} ms/s:"
        f" past {seconds(verdict.limit)} within {seconds(growth.horizon)}"
    )


def _unsure_words(verdict: Verdict) -> str:
    slope = verdict.growth.slope
    ends = f"between {slope.lower * 1e3:.1f} and {slope.upper * 1e3:.1f} ms/s" if slope else "unknown"
    return f"growth of latency {ends} leaves open whether it stays under {seconds(verdict.limit)}"


_SENTENCES: dict[Reason, Callable[[Verdict], str]] = {
    Reason.MISSES: _misses_words,
    Reason.OBJECTIVE: _misses_words,
    Reason.REFUSED: lambda verdict: f"{verdict.misses.refused} of {verdict.sessions} sessions were refused",
    Reason.COLLAPSE: _collapse_words,
    Reason.GROWTH: _growth_words,
    Reason.GROWTH_UNSURE: _unsure_words,
    Reason.TOO_FEW_BLOCKS: _growth_words,
    Reason.NOT_COMPLETE: lambda verdict: (
        f"{verdict.misses.due} of {verdict.misses.planned} frames fell due before the run ended"
    ),
    Reason.CLIENT_LAG: lambda verdict: (
        f"client-limited: send lag p99 {seconds(verdict.client.lag_p99 or 0.0)},"
        f" more than {seconds(verdict.client.lag_limit)}"
    ),
    Reason.CLIENT_DECIDES: lambda verdict: (
        f"client-limited: without the client's own lateness (up to {seconds(verdict.client.lateness_max)})"
        " the verdict would be another"
    ),
    Reason.STEAL: lambda verdict: (
        f"the hypervisor took {percent(verdict.steal or 0.0)} of the CPU time, more than {percent(MAX_STEAL, 0)}"
    ),
    Reason.GPU_BUSY: lambda _: "another process was busy on the GPU",
    Reason.OTHERS_BUSY: lambda verdict: (
        f"other programs kept {verdict.others or 0.0:.2f} cores busy, more than {MAX_OTHERS:g}"
    ),
    Reason.MACHINE_SLOW: lambda verdict: (
        f"a core of this machine took {verdict.slowdown or 0.0:.2f} times as long for the same work for 3 s, more than"
        f" {MAX_SLOWDOWN:g} (other guests of the hardware?)"
    ),
    Reason.CLIENT_DIED: lambda _: "the load process ended before the run did",
    Reason.TIE_LOST: lambda verdict: (
        f"tie lost: {verdict.misses.early} answers came before the audio they claim to answer"
    ),
}
