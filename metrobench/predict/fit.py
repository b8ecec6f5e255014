"""When a pool will be full, told from its gauge: the growth of tokens fitted through the block arithmetic. Pure.

The growth is a straight line of tokens a session plus a wander about it (who talks how much); the gauge sees both
through blocks (stairs.py). Date and interval are the median and the ends of a parametric bootstrap: lines, wander and
futures drawn from the fit, by a seed. A wander goes on from where it is now, so that the date does, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import Struct

from metrobench.errors import NotValidError
from metrobench.measure.frames import Floats
from metrobench.measure.growth import theil_sen
from metrobench.predict.gauges import Gauges, Growing, Standing, growing_part, thinned
from metrobench.predict.model import Pool
from metrobench.predict.stairs import Stair, fit_stairs, full_at, mean_blocks, stairs_on, steepness
from metrobench.units import percent

MOST_SAMPLES = 72
"""Samples that a fit looks at; more are thinned evenly."""
SPELLS = 12
"""Parts of the growth whose departures from the line tell its wander."""
SPELL = 8.0
"""Seconds of one such part at least, where every token shows: within a spell of speech growth is straight, which says
nothing of the next spell."""
DRAWS = 400
READING = 0.1
"""Smallest standard deviation of one reading, in blocks."""
WANDERS = np.concatenate([[0.0], np.geomspace(1e-4, 30.0, 14)])
"""Variances of the wander that are weighed, per second, in parts of the squared rate."""
SLOWEST_DRAWN = 0.1
"""Slowest rate that a drawn line may have, in parts of the fitted one."""


class Fit(Struct, frozen=True):
    """A forecast from a gauge."""

    made_at: float
    """Seconds, on the clock of the gauge, of its last sample."""
    used: float
    """Fraction of the pool in use then."""
    time: float | None
    """t*, seconds on the same clock; None: never at this load."""
    lower: float | None
    upper: float | None
    """Ends of its 95 % interval."""
    straight: float | None
    """The date by a straight line through the gauge (Theil-Sen), for comparison."""
    rate: float | None
    """Tokens a second that each session adds; parts of the pool a second where blocks or sessions are not known."""
    samples: int
    since: float
    """First sample of the growing part."""
    why: str
    """What was seen, in words."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The samples of a fit, thinned, times about their mean."""

    x: Floats
    blocks: Floats
    middle: float
    """What was taken from the times."""
    sessions: float
    pool: Pool
    tokens: Floats | None
    """Of a session in the mean; None: not known, the blocks must tell."""


def fit(gauges: Gauges, pool: Pool | None, seed: int = 0) -> Fit:
    """The forecast from all samples. `pool` None: its size is not known, so that steps cannot be seen.

    Raises NotValidError with the reason where the samples do not bear one.
    """
    part = growing_part(gauges, pool)
    made_at, used = float(gauges.t[-1]), float(gauges.used[-1])
    if isinstance(part, Standing):
        full = made_at if part.full_since is None else part.full_since
        date = full if part.full else None
        return Fit(made_at, used, date, date, date, date, None, part.samples, part.since, part.why)
    seen = _thin(part)
    slope = _slope(seen)
    straight = (seen.pool.usable - float(np.median(seen.blocks - slope * seen.x))) / slope
    seen, stairs = _stairs(seen, slope)
    best = min(stairs, key=lambda stair: stair.misfit)
    dates = _draws(seen, stairs, best, np.random.default_rng(seed)) + seen.middle
    lower, time, upper = (max(made_at, float(date)) for date in np.quantile(dates, [0.025, 0.5, 0.975]))
    return Fit(
        made_at=made_at,
        used=used,
        time=time,
        lower=lower,
        upper=upper,
        straight=straight + seen.middle,
        rate=best.rate if part.sessions is not None else best.rate / seen.pool.usable,
        samples=len(part.t),
        since=part.since,
        why=part.why,
    )


def forecasts(gauges: Gauges, pool: Pool | None, fills: Sequence[float], seed: int = 0) -> list[Fit | str]:
    """The forecasts that would have been made when the gauge first reached each fill, and one at the end; why not,
    where it could not."""
    found: list[Fit | str] = []
    for fill in (*fills, None):
        reached = np.flatnonzero(gauges.used >= fill) if fill is not None else np.array([len(gauges.t) - 1])
        if not len(reached):
            found.append(f"the pool was never {percent(fill or 0.0, 0)} full")
            continue
        try:
            found.append(fit(gauges.until(int(reached[0]) + 1), pool, seed))
        except NotValidError as error:
            found.append(error.message)
    return found


class Score(Struct, frozen=True):
    """How far a forecast was from what happened, both ways of measurement.md."""

    of_onset: float
    """|t*_pred - t_obs| / t_obs."""
    of_rest: float | None
    """|t*_pred - t_obs| / (t_obs - t_forecast); None: made at the onset, or so shortly before that it is not known well
    enough."""


def score(predicted: float, made_at: float, observed: float) -> Score:
    """Both scores of a forecast; `observed` > 0."""
    error = abs(predicted - observed)
    return Score(error / observed, error / (observed - made_at) if observed > made_at else None)


def _thin(part: Growing) -> _Seen:
    t, blocks = thinned(part.t, part.blocks, MOST_SAMPLES)
    middle, sessions = float(t.mean()), 1.0 if part.sessions is None else part.sessions
    tokens = None if part.resident is None else thinned(part.t, part.resident, MOST_SAMPLES)[1] / sessions
    return _Seen(t - middle, blocks, middle, sessions, part.pool, tokens)


def _slope(seen: _Seen) -> float:
    """Rise of the gauge, blocks a second: Theil-Sen, or least squares where most pairs lie on one stair."""
    found = theil_sen(seen.x, seen.blocks)
    slope = found.value if found is not None else 0.0
    if slope <= 0.0:
        slope = float(np.polyfit(seen.x, seen.blocks, 1)[0])
    if slope <= 0.0:
        raise NotValidError("the gauge does not grow, and has not stood still long enough to say so")
    return slope


def _stairs(seen: _Seen, slope: float) -> tuple[_Seen, list[Stair]]:
    """The best line for each width, and what it rests on; where the tokens are known there is one line, and the gauge
    tells the width. Frames of nearly a block make the gauge climb a block a frame for a while, no measure of tokens."""
    line = None if seen.tokens is None else theil_sen(seen.x, seen.tokens)
    if seen.tokens is None or line is None or line.value <= 0.0:
        blind = replace(seen, tokens=None)
        return blind, fit_stairs(seen.x, seen.blocks, seen.sessions, seen.pool, slope)
    level = float(np.median(seen.tokens - line.value * seen.x))
    return seen, stairs_on(level, line.value, seen.tokens, seen.blocks, seen.sessions, seen.pool)


def _draws(seen: _Seen, stairs: Sequence[Stair], best: Stair, rng: np.random.Generator) -> Floats:
    """Dates of a full pool, on the axis of `seen.x`, shape (DRAWS,)."""
    parts = min(SPELLS, max(4, len(seen.x) // 3))
    if seen.tokens is not None:
        parts = min(parts, max(4, int(np.ptp(seen.x) / SPELL)))
    floor = len(seen.x) * READING**2
    odds = np.array([(max(stair.misfit, floor) / max(best.misfit, floor)) ** (-0.5 * parts) for stair in stairs])
    counts = rng.multinomial(DRAWS, odds / odds.sum())
    return np.concatenate([_futures(seen, stair, parts, n, rng) for stair, n in zip(stairs, counts, strict=True) if n])


def _futures(seen: _Seen, stair: Stair, parts: int, draws: int, rng: np.random.Generator) -> Floats:
    """Dates of a full pool for lines, wanders and futures drawn about one stair."""
    size, last = seen.pool.block_size, float(seen.x[-1])
    # in step, everybody's next block comes with a whole frame, up to w tokens late
    jitter = np.clip(stair.width, 0.12 * size, size) ** 2 / 12.0
    times, shifts, noise = _shifts(seen, stair, parts, jitter)
    variances = WANDERS * stair.rate**2
    weights, means, roots = _weigh(times, shifts, noise, variances, last)
    which = rng.choice(len(variances), size=draws, p=weights)
    errors = means[which] + np.einsum("nij,nj->ni", roots[which], rng.standard_normal((draws, 2)))
    level = stair.level + stair.rate * last + errors[:, 0]
    rate = np.maximum(stair.rate + errors[:, 1], SLOWEST_DRAWN * stair.rate)
    missing = full_at(seen.pool, seen.sessions, stair.width) - level
    spread = np.sqrt(variances[which] * np.maximum(missing, 0.0) / rate + jitter)
    # m more tokens of each bring at most m / b + 1 more blocks of each
    blocks = seen.pool.usable + 1.0 - float(seen.blocks[-1])
    least = max(0.0, blocks / seen.sessions - 1.0) * size
    dates: Floats = last + np.maximum(missing + spread * rng.standard_normal(draws), least) / rate
    return dates


def _shifts(seen: _Seen, stair: Stair, parts: int, jitter: float) -> tuple[Floats, Floats, Floats]:
    """How many tokens a session is above the line in each part of the growth: middle times, shifts, their variances.
    One step of Gauss-Newton per part; a part without a climb tells nothing and is left out."""
    size, step = seen.pool.block_size, float(np.median(np.diff(seen.x)))
    tokens = stair.tokens(seen.x)
    edges = np.linspace(0, len(seen.x), parts + 1).round().astype(int)[:-1]
    counts = np.diff(np.append(edges, len(seen.x)))
    times = np.add.reduceat(seen.x, edges) / counts
    if seen.tokens is not None:
        return times, np.add.reduceat(seen.tokens - tokens, edges) / counts, (READING * size) ** 2 / counts
    rest = seen.blocks - seen.sessions * mean_blocks(tokens, stair.width, size)
    blurred = max(stair.width, stair.rate * step, 0.3 * size)
    slope = seen.sessions * steepness(tokens, blurred, size)
    told = np.add.reduceat(slope**2, edges)
    shifts = np.add.reduceat(slope * rest, edges) / np.maximum(told, 1e-12)
    climbs = max(1.0, stair.rate * (times[1] - times[0]) / size)
    reading = max(stair.misfit / max(1, len(seen.x) - 4), READING**2)
    noise = reading / np.maximum(told, 1e-12) + jitter / climbs
    kept = told > 1e-3 * told.max()
    if kept.sum() < 3:
        # no climb anywhere: all that is known is that the line misses by less than a block
        return times, np.zeros(parts), np.full(parts, size**2 / 12.0)
    return times[kept], shifts[kept], noise[kept]


def _weigh(
    times: Floats, shifts: Floats, noise: Floats, variances: Floats, last: float
) -> tuple[Floats, Floats, Floats]:
    """For each variance of a random walk under the shifts: its weight (restricted likelihood), and mean and root of the
    covariance of the errors of the level at `last` and of the rate. Shapes (v,), (v, 2), (v, 2, 2)."""
    since = times - (2.0 * times[0] - times[1])
    walk = np.minimum.outer(since, since)
    to_last = np.minimum(last - times[0] + since[0], since)
    design = np.stack([np.ones_like(times), times], axis=1)
    covariance = np.diag(noise) + variances[:, None, None] * walk
    inverse = np.linalg.inv(covariance)
    spread = np.linalg.inv(design.T @ inverse @ design)
    line = np.einsum("vij,jk,vkl,l->vi", spread, design.T, inverse, shifts)
    rest = shifts - line @ design.T
    weighed = np.einsum("vij,vj->vi", inverse, rest)
    log = -0.5 * (np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(spread)[1] + (rest * weighed).sum(axis=1))
    weights = np.exp(log - log.max())
    # the walk's own position at `last`, given the shifts (kriging)
    pull = variances[:, None] * np.einsum("vij,j->vi", inverse, to_last)
    at_last = np.array([1.0, last])
    level = line @ at_last + variances * (weighed @ to_last)
    free = at_last - pull @ design
    walked = variances * (last - times[0] + since[0])
    own = walked - variances * (pull @ to_last) + np.einsum("vi,vij,vj->v", free, spread, free)
    both = np.einsum("vi,vi->v", free, spread[:, :, 1])
    joint = np.stack([np.stack([own, both], axis=1), np.stack([both, spread[:, 1, 1]], axis=1)], axis=1)
    return weights / weights.sum(), np.stack([level, line[:, 1]], axis=1), _root(joint)


def _root(matrices: Floats) -> Floats:
    """Lower Cholesky roots of 2 x 2 covariances that may be singular, shape (v, 2, 2)."""
    first = np.sqrt(np.maximum(matrices[:, 0, 0], 0.0))
    below = np.divide(matrices[:, 0, 1], first, out=np.zeros_like(first), where=first > 0.0)
    rest = np.sqrt(np.maximum(matrices[:, 1, 1] - below**2, 0.0))
    zero = np.zeros_like(first)
    return np.stack([np.stack([first, zero], axis=1), np.stack([below, rest], axis=1)], axis=1)
