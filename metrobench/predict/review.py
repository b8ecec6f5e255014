"""What could have been forecast of a finished run, and how far off it was. Pure over its record and facts."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, structs

from metrobench.errors import NotValidError
from metrobench.measure.collapse import Kind
from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import Floats
from metrobench.measure.growth import theil_sen
from metrobench.policy import KvPolicy, most_in_flight, peak_blocks
from metrobench.predict.fit import Fit, Score, forecasts, score
from metrobench.predict.gauges import Gauges, thinned
from metrobench.predict.limits import ENCODER, HOST, KV, POSITIONS, Limit, Outcome
from metrobench.predict.model import Group, Pool, crossing, crossing_of
from metrobench.predict.talk import Rates, Voices, tokens_of
from metrobench.records import Forecast, ProbeRecord
from metrobench.schedule import offset_of, phases
from metrobench.units import memory, percent, seconds

FILLS = (0.25, 0.5)
"""Fractions of the pool at which a forecast is made, and one at the end."""
HELD = "the pool holds all sessions at their peak"
COLLAPSES = (Kind.STALL, Kind.STARVATION, Kind.ENGINE_DEATH)


class Made(Struct, frozen=True):
    """One forecast, as it would have been made during the run."""

    fill: float | None
    """Of the pool, at which it was made; None: with the last sample."""
    fit: Fit | None
    refused: str
    """Why there is none."""
    score: Score | None
    """None: nothing happened, or nothing was forecast."""


class Review(Struct, frozen=True):
    """The forecasts of one run. Seconds from its t0."""

    sessions: int
    kv: str
    blocks: int
    """Blocks that sessions can hold: P - 1."""
    block_size: int
    made: list[Made]
    arithmetic: float | None
    """t* from the shapes and the run's own audio, before it ran; None: never, or it cannot be told."""
    arithmetic_why: str
    arithmetic_score: Score | None
    kind: str
    """What ended the run's serving, by its verdict."""
    onset: tuple[float, float] | None
    observed: float | None
    """t_obs, the middle of the onset; None: no collapse."""
    end: float
    """Until when it was watched."""
    limits: list[Limit]


def review(
    probe: ProbeRecord,
    facts: RunFacts,
    telemetry: dict[str, Floats],
    policy: KvPolicy,
    rates: Rates,
    tokens_in: int,
    voices: Voices | None,
    host_bytes: int,
) -> Review:
    """All forecasts of a run with an embedded worker. `voices` None: its audio is not there.

    Raises NotValidError where its telemetry shows no pool.
    """
    server = probe.server
    if "num_blocks" not in server:
        raise NotValidError(
            "this run's server showed nothing of its KV pool", "for a server with a metrics page, use --metrics URL"
        )
    pool = Pool(int(server["num_blocks"]), int(server["block_size"]))
    collapse = probe.verdict["collapse"]
    found = collapse["kind"] in COLLAPSES
    onset = tuple(collapse["onset"]) if found and collapse["onset"] else None
    observed = None if onset is None else 0.5 * (onset[0] + onset[1])
    end = facts.t_stop if onset is None else onset[0]
    policy = policy.on_blocks(pool.block_size)
    seen = gauges(telemetry, facts, end, exact=not policy.bounded)
    bounded = policy.bounded and holds(pool, policy, rates, probe.sessions)
    told = forecasts(seen, pool, FILLS)
    if not bounded and all(isinstance(each, str) for each in told):
        raise NotValidError(f"this run does not bear a forecast: {told[-1]}", "let one run longer")
    if bounded:
        told = [each if isinstance(each, str) else _never(each) for each in told]
    # an engine that dies at its last position says nothing of the pool
    full_at = None if collapse["kind"] == Kind.ENGINE_DEATH else observed
    made = [_made(fill, each, full_at, onset) for fill, each in zip((*FILLS, None), told, strict=True)]
    arithmetic, why = _arithmetic(probe, facts, pool, policy, rates, voices, bounded=bounded)
    rate = next((each.fit.rate for each in reversed(made) if each.fit is not None and each.fit.rate), None)
    limits = [
        _kv(made[-1], bounded=bounded),
        _positions(server, facts, policy, rate, tokens_in),
        Limit(ENCODER, Outcome.NEVER, "this worker feeds token ids: no encoder runs"),
        _host(telemetry, end, server, host_bytes),
    ]
    return Review(
        sessions=probe.sessions,
        kv=str(policy),
        blocks=pool.usable,
        block_size=pool.block_size,
        made=made,
        arithmetic=arithmetic,
        arithmetic_why=why,
        arithmetic_score=_score(arithmetic, 0.0, full_at),
        kind=collapse["kind"],
        onset=None if onset is None else (float(onset[0]), float(onset[1])),
        observed=observed,
        end=end,
        limits=limits,
    )


def holds(pool: Pool, policy: KvPolicy, rates: Rates, sessions: int) -> bool:
    """The pool holds all sessions of a bounded policy at their peak."""
    in_flight = most_in_flight(max(rates.listening, rates.speaking) + 1, pool.block_size)
    return peak_blocks(policy, in_flight, pool.block_size) * sessions <= pool.usable


def noted(
    probe: ProbeRecord, facts: RunFacts, telemetry: dict[str, Floats], policy: KvPolicy, rates: Rates
) -> list[Forecast]:
    """The forecasts of a run as its record keeps them: at each fill, and at the end where nothing collapsed; a single
    one where the policy bounds what the pool must hold."""
    pool = pool_of(probe.server)
    if pool is None:
        return []
    if policy.bounded and holds(pool, policy.on_blocks(pool.block_size), rates, probe.sessions):
        return [Forecast("never", HELD)]
    try:
        found = review(probe, facts, telemetry, policy, rates, rates.listening, None, 1)
    except NotValidError as error:
        return [Forecast("none", error.message)]
    shown = found.made if found.observed is None else found.made[:-1]
    return [_noted(made) for made in shown]


def pool_of(server: dict[str, Any]) -> Pool | None:
    """The pool that a server said it has; None: it did not."""
    return Pool(int(server["num_blocks"]), int(server["block_size"])) if "num_blocks" in server else None


def _noted(made: Made) -> Forecast:
    told = made.fit
    if told is None:
        return Forecast("none", made.refused, made.fill)
    score = made.score
    return Forecast(
        outcome="never" if told.time is None else "date",
        why=told.why,
        fill=made.fill,
        made_at=told.made_at,
        used=told.used,
        time=told.time,
        lower=told.lower,
        upper=told.upper,
        of_onset=None if score is None else score.of_onset,
        of_rest=None if score is None else score.of_rest,
    )


def _never(found: Fit) -> Fit:
    """A forecast where the policy lets no date come, whatever the gauge does until its windows are full."""
    return structs.replace(found, time=None, lower=None, upper=None, why=HELD)


def gauges(telemetry: dict[str, Floats], facts: RunFacts, end: float, *, exact: bool) -> Gauges:
    """The KV gauge of a run from t0 to `end`, and the sessions then open; `exact`: each of their tokens holds its place
    in the pool. Raises NotValidError where it has none."""
    t, used = telemetry["t"], telemetry.get("kv_usage", np.empty(0))
    kept = np.zeros(len(t), dtype=bool)
    if len(used) == len(t):
        kept = np.isfinite(used) & (t >= 0.0) & (t <= end)
    if not kept.any():
        raise NotValidError("this run has no samples of its KV pool", "runs of the embedded worker have them")
    accepted = [session for session in facts.sessions if not session.refused]
    closed = np.sort([np.inf if session.t_closed is None else session.t_closed for session in accepted])
    sessions = len(accepted) - np.searchsorted(closed, t[kept], side="right")
    moved = telemetry["resident_tokens"][kept]
    return Gauges(t[kept], used[kept], sessions.astype(np.float64), moved, moved if exact else None)


def _made(fill: float | None, found: Fit | str, observed: float | None, onset: tuple[float, ...] | None) -> Made:
    if isinstance(found, str):
        return Made(fill, None, found, None)
    told = _score(found.time, found.made_at, observed)
    if told is not None and onset is not None and found.made_at > onset[0] - (onset[1] - onset[0]):
        told = Score(told.of_onset, None)
    return Made(fill, found, "", told)


def _score(predicted: float | None, made_at: float, observed: float | None) -> Score | None:
    if predicted is None or observed is None or observed <= 0.0:
        return None
    return score(predicted, made_at, observed)


def _arithmetic(
    probe: ProbeRecord,
    facts: RunFacts,
    pool: Pool,
    policy: KvPolicy,
    rates: Rates,
    voices: Voices | None,
    *,
    bounded: bool,
) -> tuple[float | None, str]:
    """t* of a run from its seed: its phases, its audio, its policy."""
    if bounded:
        return None, f"never: {HELD}"
    if policy.bounded:
        return None, "not told for a window that the pool does not hold for ever"
    starts = phases(probe.sessions, facts.budget, offset_of(probe.seed))
    resident = np.array([session.filled_tokens for session in facts.sessions], dtype=np.int64)
    if rates.constant:
        return crossing(pool, [Group(starts, rates.unit, rates.listening, resident)]), "every frame adds the same"
    if voices is None:
        return None, "not told: the audio of this run is not here"
    frames = int(pool.usable * pool.block_size / (probe.sessions * min(rates.listening, rates.speaking))) + 2
    tokens = resident[:, None] + tokens_of(voices, rates, probe.seed, probe.sessions, frames)
    return crossing_of(pool, starts, rates.unit, tokens), "from this run's own audio"


def _kv(last: Made, *, bounded: bool) -> Limit:
    if bounded:
        return Limit(KV, Outcome.NEVER, HELD)
    if last.fit is None:
        return Limit(KV, Outcome.UNKNOWN, last.refused)
    if last.fit.time is None:
        return Limit(KV, Outcome.NEVER, last.fit.why)
    return Limit(KV, Outcome.DATE, "fitted to the whole run", last.fit.time, last.fit.lower, last.fit.upper)


def _positions(server: dict[str, Any], facts: RunFacts, policy: KvPolicy, rate: float | None, tokens_in: int) -> Limit:
    most = int(server["max_model_len"])
    if policy.bounded:
        return Limit(POSITIONS, Outcome.NEVER, f"contexts are built again before position {most:,}")
    if rate is None:
        return Limit(POSITIONS, Outcome.UNKNOWN, "how fast contexts grow could not be told")
    held = max((session.filled_tokens for session in facts.sessions), default=0)
    time = max(0.0, most - tokens_in - held) / rate
    return Limit(POSITIONS, Outcome.DATE, f"a context reaches {most:,} tokens, and the session ends", time)


def _host(telemetry: dict[str, Floats], end: float, server: dict[str, Any], host_bytes: int) -> Limit:
    """The processes' memory against the machine's. An engine on the CPU takes its pool's memory as it is written, which
    is no growth without end: there only the front end counts."""
    t, front = telemetry["t"], telemetry["front_rss"]
    total = front if server.get("device") == "cpu" else front + telemetry["engine_rss"]
    kept = np.flatnonzero(np.isfinite(total) & (t >= 0.0) & (t <= end))
    slope = theil_sen(*thinned(t[kept], total[kept])) if len(kept) else None
    if slope is None:
        return Limit(HOST, Outcome.UNKNOWN, "too few samples")
    whole = f"{memory(float(total[kept][-1]))} of {memory(host_bytes)}"
    if slope.lower <= 0.0:
        return Limit(HOST, Outcome.NEVER, f"{whole}, not growing")
    time = float(t[kept][-1]) + (host_bytes - float(total[kept][-1])) / slope.value
    return Limit(HOST, Outcome.DATE, f"{whole}, growing by {memory(slope.value * 60.0)} a minute", time)


def verdict(made: Made, review_of: Review) -> str:
    """One forecast against what happened, in words."""
    if made.fit is None:
        return made.refused
    if made.score is not None:
        return percent(made.score.of_onset)
    if made.fit.time is None:
        return "rightly never" if review_of.observed is None else "missed it"
    if review_of.observed is None and made.fit.time < review_of.end:
        return f"too early: nothing until {seconds(review_of.end)}"
    return "not reached"
